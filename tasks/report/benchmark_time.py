"""One measured cell over its time: its requests and gaps, the engine's steps beneath them, and why it stalled."""

import heapq
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from schemas.sample import ANSWERED
from tasks.compare.points import Measured
from tasks.report.benchmark import load_words, points, requests_of
from tasks.report.data import ReportData, Row
from tasks.report.numbers import is_number, number, percentile, share
from tasks.report.usage import since

_NOT_SHOWN = ("probe", "abandoned", "quality")
_LAST_CHOICE = ("offline", "latency")
"""Loads that nobody waits in, and one without anybody beside: shown where there is nothing else."""
MOST_STALLS = 6
_FACTOR = 3.0
"""A gap is a stall from so many times the median gap on, if it is among the longest 1 %."""
_LONG = 0.5
"""A step explains a gap if it takes at least so much of it."""
_FULL = 0.97
"""Of the KV cache: beyond it nothing more fits."""


class Shown(NamedTuple):
    """The cell that is shown over time. began: its `started_at`; seconds: its length."""

    point: Measured
    cell: Row
    began: datetime
    seconds: float

    @property
    def words(self) -> str:
        """`closed 8, free, repeat 0`."""
        return f"{load_words(self.point)}, {self.point.arm}, repeat {self.cell['repeat']}"


class Gap(NamedTuple):
    """Between two arrivals of one answer. end: seconds since the cell began."""

    end: float
    ms: float


class Step(NamedTuple):
    """A step of the engine, or the stretch that several of them make: the most of each number, preempted and tokens of
    the prefix cache as sums. None where the engine does not tell it."""

    begin: float
    end: float
    step_ms: float | None
    running: float | None
    waiting: float | None
    prompt_tokens: float | None
    kv_usage: float | None
    preempted: float | None
    prefix_queries: float | None
    prefix_hits: float | None
    stands_for: float | None = None


class Stall(NamedTuple):
    """Gaps that end together. begin, end: seconds since the cell began; ms: the longest; answers: how many waited."""

    begin: float
    end: float
    ms: float
    answers: int
    why: str


def mean_in_flight(data: ReportData, cell: Row) -> float:
    """Requests in flight on average (Little's law), by which cells are told from heavier ones."""
    begin, end = cell.get("started_at"), cell.get("ended_at")
    if not isinstance(begin, datetime) or not isinstance(end, datetime) or end <= begin:
        return 0.0
    spent = sum(row["e2e_ms"] for row in requests_of(data, cell["cell_id"]) if is_number(row["e2e_ms"]))
    return float(spent / 1000 / since(begin, end))


def load_height(data: ReportData, point: Measured) -> float:
    """How heavy a load is: requests in flight on average, the most of its repeats."""
    return data.once(
        ("load height", point.point_id),
        lambda: max((mean_in_flight(data, cell) for cell in point.cells), default=0.0),
    )


def shown_cell(data: ReportData) -> Shown | None:
    """The cell of the highest load, its first repeat that nothing disturbed; None where nothing was measured."""
    return data.once("load shown", lambda: _shown_cell(data))


def _shown_cell(data: ReportData) -> Shown | None:
    known = [point for point in points(data) if point.kind not in _NOT_SHOWN and load_height(data, point) > 0]
    found = [point for point in known if point.kind not in _LAST_CHOICE] or known
    if not found:
        return None
    point = max(found, key=lambda each: load_height(data, each))
    cells = [cell for cell in point.cells if mean_in_flight(data, cell) > 0]
    cell = next((each for each in cells if not each["disturbed"]), cells[0])
    return Shown(point, cell, cell["started_at"], since(cell["started_at"], cell["ended_at"]))


def asked_at(shown: Shown, row: Row) -> float | None:
    """When a request was due, or sent where no time was planned: seconds since the cell began."""
    moment = row["planned_at"] or row["sent_at"]
    return since(shown.began, moment) if isinstance(moment, datetime) else None


def first_tokens(data: ReportData, shown: Shown) -> list[tuple[float, float]]:
    """(when it was asked, its ttft in ms) of each answered request, cool-down too."""
    rows = requests_of(data, shown.cell["cell_id"]) + requests_of(data, shown.cell["cell_id"], phase="cooldown")
    found = [(asked_at(shown, row), row["ttft_ms"]) for row in rows if row["status"] in ANSWERED]
    return sorted((at, ttft) for at, ttft in found if at is not None and is_number(ttft))


def failed_at(data: ReportData, shown: Shown) -> list[float]:
    """When the failed requests were asked."""
    found = [asked_at(shown, row) for row in requests_of(data, shown.cell["cell_id"]) if row["status"] not in ANSWERED]
    return sorted(at for at in found if at is not None)


def all_gaps(data: ReportData, shown: Shown) -> list[Gap]:
    """Every gap of the cell's answers, in the order of their ends."""
    return data.once("load gaps", lambda: sorted(_gaps(data, shown)))


def _gaps(data: ReportData, shown: Shown) -> Iterator[Gap]:
    for phase in ("measure", "cooldown"):
        for row in requests_of(data, shown.cell["cell_id"], phase=phase):
            at, ttft = asked_at(shown, row), row["ttft_ms"]
            if at is None or not is_number(ttft):
                continue
            end = at + ttft / 1000
            for gap in data.gaps.get(row["request_id"]) or ():
                end += gap / 1000
                yield Gap(end, gap)


def answers_left_out(data: ReportData, shown: Shown) -> int:
    """Answered requests of the cell whose gaps were not read, as there are so many."""
    if not data.gaps:
        return 0
    return sum(
        row["status"] in ANSWERED and row["request_id"] not in data.gaps
        for row in requests_of(data, shown.cell["cell_id"])
    )


def thinned(gaps: Sequence[Gap], *, most: int) -> list[Gap]:
    """At most so many: the longest third, and of the others every n-th."""
    if len(gaps) <= most:
        return list(gaps)
    longest = heapq.nlargest(most // 3, range(len(gaps)), key=lambda index: gaps[index].ms)
    chosen = set(longest)
    rest = [index for index in range(len(gaps)) if index not in chosen]
    chosen.update(rest[:: -(-len(rest) // (most - len(longest)))])
    return [gaps[index] for index in sorted(chosen)]


def steps_of(data: ReportData, shown: Shown) -> list[Step]:
    """The engine's steps during the cell, as they were kept."""
    return data.once("load steps", lambda: _steps_of(data, shown))


def _steps_of(data: ReportData, shown: Shown) -> list[Step]:
    found = []
    for row in data.measured_steps:
        if row.get("cell_id") != shown.cell["cell_id"] or not isinstance(row.get("ts"), datetime):
            continue
        end, took = since(shown.began, row["ts"]), row.get("step_ms")
        found.append(
            Step(
                begin=end - (took / 1000 if is_number(took) else 0.0),
                end=end,
                **{name: row.get(name) for name in Step._fields[2:]},
            )
        )
    return sorted(found, key=lambda step: step.end)


def steps_kept(data: ReportData, shown: Shown) -> int:
    """Of how many steps one was kept during the cell, at its sparsest; 1 where all were."""
    return int(max((step.stands_for or 1 for step in steps_of(data, shown)), default=1))


def stretched(steps: Sequence[Step], *, most: int) -> list[Step]:
    """The same as at most so many equal stretches of time, where there are more."""
    if len(steps) <= most:
        return list(steps)
    first, last = steps[0].end, steps[-1].end
    width = (last - first) / most or 1.0
    places: dict[int, list[Step]] = {}
    for step in steps:
        places.setdefault(min(most - 1, int((step.end - first) / width)), []).append(step)
    return [_together(own) for own in places.values()]


def _together(steps: Sequence[Step]) -> Step:
    def over(name: str, how: Callable[[list[float]], float]) -> float | None:
        known = [getattr(step, name) for step in steps if is_number(getattr(step, name))]
        return how(known) if known else None

    sums = ("preempted", "prefix_queries", "prefix_hits")
    return Step(
        begin=steps[0].begin,
        end=steps[-1].end,
        **{name: over(name, sum if name in sums else max) for name in Step._fields[2:]},
    )


def stalls(data: ReportData) -> list[Stall]:
    """The longest stalls of the shown cell in the order of time, each with what the engine did meanwhile."""
    shown = shown_cell(data)
    return [] if shown is None else data.once("load stalls", lambda: _stalls(data, shown))


def _stalls(data: ReportData, shown: Shown) -> list[Stall]:
    gaps = all_gaps(data, shown)
    lengths = [gap.ms for gap in gaps]
    median, high = percentile(lengths, 50), percentile(lengths, 99)
    if median is None or high is None:
        return []
    long = [gap for gap in gaps if gap.ms >= max(high, _FACTOR * median)]
    together: list[list[Gap]] = []
    for gap in long:  # in the order of their ends: answers that one step held up end within a fraction of it
        if together and gap.end - together[-1][0].end <= 0.5 * gap.ms / 1000:
            together[-1].append(gap)
        else:
            together.append([gap])
    longest = heapq.nlargest(MOST_STALLS, together, key=lambda own: max(gap.ms for gap in own))
    steps = steps_of(data, shown)
    return sorted(_stall(own, steps) for own in longest)


def _stall(gaps: Sequence[Gap], steps: Sequence[Step]) -> Stall:
    worst = max(gaps, key=lambda gap: gap.ms)
    begin = worst.end - worst.ms / 1000
    return Stall(begin, worst.end, worst.ms, len(gaps), why(steps, begin=begin, end=worst.end))


def why(steps: Sequence[Step], *, begin: float, end: float) -> str:
    """What the engine did in a stretch of time in which answers stood still, as far as its steps tell."""
    if not steps:
        return "the engine tells nothing of its steps"
    inside = [step for step in steps if step.end > begin and step.begin < end]
    if not inside:
        sparse = max(step.stands_for or 1 for step in steps)
        return f"of its steps then none was kept: 1 of {sparse:.0f} is" if sparse > 1 else "the engine made no step"
    length_ms = 1000 * (end - begin)
    longest = max(inside, key=lambda step: step.step_ms or 0.0)
    preempted = int(sum(step.preempted or 0 for step in inside))
    parts = []
    if preempted:
        usage = max((step.kv_usage for step in inside if step.kv_usage is not None), default=None)
        full = f", the KV cache {share(usage)} full" if usage is not None else ""
        parts.append(f"{preempted} {'request was' if preempted == 1 else 'requests were'} preempted{full}")
    if longest.step_ms is not None and longest.step_ms >= _LONG * length_ms:
        parts.append(_one_step(longest))
    elif not preempted:
        parts.append(_many_steps(inside, longest))
    return "; ".join(parts)


def _one_step(step: Step) -> str:
    took = f"a step of {number(float(step.step_ms or 0.0))} ms"
    if step.prompt_tokens:
        return f"{took} that read {step.prompt_tokens:,.0f} prompt tokens"
    return f"{took} without prompts, {step.running or 0:,.0f} requests in it"


def _many_steps(steps: Sequence[Step], longest: Step) -> str:
    took = "" if longest.step_ms is None else f", none longer than {number(float(longest.step_ms))} ms"
    read = sum(step.prompt_tokens or 0 for step in steps)
    prompts = f", reading {read:,.0f} prompt tokens" if read else ""
    waiting = max((step.waiting for step in steps if step.waiting is not None), default=0)
    full = any((step.kv_usage or 0.0) >= _FULL for step in steps)
    queue = f"; {waiting:,.0f} requests waited" if waiting else ""
    cache = "; the KV cache was full" if full else ""
    return f"{len(steps):,} steps{took}{prompts}{queue}{cache}"


def powers(data: ReportData, shown: Shown) -> list[tuple[str, list[tuple[float, float]]]]:
    """(device, (seconds since the cell began, watts)) of each device whose power was read during the cell."""
    found: dict[str, list[tuple[float, float]]] = {}
    for row in data.telemetry:
        instant = row.get("power_instant_w")
        watts = instant if is_number(instant) else row.get("power_w")
        at = since(shown.began, row["ts"])
        if is_number(watts) and 0.0 <= at <= shown.seconds:
            found.setdefault(row["device"], []).append((at, watts))
    return list(found.items())
