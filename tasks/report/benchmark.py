"""What a benchmark measured, a row a load and arm, in words and numbers: the same for the page and the terminal."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import Any, NamedTuple

from schemas.sample import ANSWERED
from tasks.compare.points import Measured, measured_points
from tasks.compare.read import PERF, SATURATE, RecordedRun
from tasks.report.data import ReportData, Row, arm_order
from tasks.report.numbers import NBSP, is_number, number, share

KNEE = "knee_requests_per_s"
_OF_KNEE = "knee-"
"""How the names of the rates below a knee begin: each is a share of it."""
_PART = re.compile(
    r"perf\.(?P<what>dataset|adapter|bucket|client)\.(?P<name>.+)"
    r"\.(?P<figure>(?:ttft|tpot|gap|e2e|late|clock_error)_ms\.p(?:50|99))",
    re.DOTALL,
)
_MOST_REASONS = 12
_CLIENT_LATE = "client_late"
"""How the word for a client that sent late begins, in `cells.disturbed`."""
_MEANT_TO_DIFFER = ("random", "mix")
"""Prompts none of which begins like another."""


class Figure(NamedTuple):
    """One number of a point: the median over its repeats, and their 95 % interval (None with one repeat)."""

    value: float | None
    lo: float | None
    hi: float | None
    unit: str


def points(data: ReportData) -> list[Measured]:
    """Every measured point that has numbers, load by load in the order of execution, the arms of each side by side."""
    return data.once("load points", lambda: shown_points([each for each in _all(data) if each.kind != SATURATE]))


def shown_points(found: Sequence[Measured]) -> list[Measured]:
    """The same from points as `measured_points` gives them; the search for a knee is none."""
    place: dict[str, int] = {}
    for each in found:
        place.setdefault(each.name, len(place))
    kept = [each for each in found if each.kind != SATURATE]
    return sorted(kept, key=lambda each: (place[each.name], arm_order(each.arm)))


def _all(data: ReportData) -> list[Measured]:
    recorded = RecordedRun(run=data.run, datasets={}, engines=data.engines, metrics=data.metrics, cells=data.load_cells)
    return measured_points(recorded)


def figure(point: Measured, name: str) -> Figure | None:
    """One of its numbers, as in `ttft_ms.p50`; None where it has none. Of one repeat there is no interval."""
    row = point.rows.get(f"{PERF}{name}")
    if row is None or not is_number(row.get("value")):
        return None
    ends = (row.get("lo"), row.get("hi"))
    lo, hi = ends if len(point.repeats(f"{PERF}{name}")) > 1 and all(map(is_number, ends)) else (None, None)
    return Figure(value=row["value"], lo=lo, hi=hi, unit=str(row.get("unit") or ""))


def figure_words(name: str) -> str:
    """A number's name as a head: `ttft_ms.p50` as `ttft p50`, `output_tokens_per_s` as `output tokens/s`."""
    return name.replace("_ms.", " ").replace("_per_s", "/s").replace("_", " ")


def value(point: Measured, name: str) -> float | None:
    """The median alone."""
    found = figure(point, name)
    return None if found is None else found.value


def load_words(point: Measured) -> str:  # noqa: PLR0911 - one for each kind of load
    """What load it is: `closed 8`, `open 2.5/s Poisson`, `50 % of the knee (9.45/s)`."""
    load = point.load or {}
    match point.kind:
        case "closed":
            return f"closed {point.concurrency}"
        case "open" if point.name.startswith(_OF_KNEE):
            part = point.name.removeprefix(_OF_KNEE)
            own = f" ({number(float(point.rate))}/s)" if is_number(point.rate) else ""
            return f"{_percent(part)} of the knee{own}"
        case "open":
            return f"open {_plain(point.rate)}/s {_arrivals(load)}"
        case "ramp":
            ends = f"{_plain(load.get('start'))} to {_plain(load.get('end'))}/s"
            return f"ramp {ends} in {_plain(load.get('seconds'))} s {_arrivals(load)}"
        case "staged":
            rates = ", ".join(_plain(stage.get("rate")) for stage in load.get("stages") or [])
            return f"stages {rates}/s {_arrivals(load)}"
        case "trace":
            speed = load.get("speed")
            faster = f" at {_plain(speed)} ×" if is_number(speed) and speed != 1 else ""
            return f"trace {PurePath(str(load.get('path') or point.name)).name}{faster}"
        case "offline":
            return "offline"
        case "latency":
            return "one at a time"
        case _:
            return point.name


def _percent(part: str) -> str:
    try:
        return f"{100 * float(part):g}{NBSP}%"
    except ValueError:
        return part


def _plain(found: object) -> str:
    return f"{found:g}" if is_number(found) else "?"


def _arrivals(load: Mapping[str, Any]) -> str:
    match load.get("arrivals"):
        case "gamma":
            return f"gamma {_plain(load.get('burstiness'))}"
        case "constant":
            return "even gaps"
        case _:
            return "Poisson"


def counts(data: ReportData, point: Measured) -> Counter[str]:
    """Requests of the measured phase of all repeats, by `answered` and `failed`."""
    by_cell = data.once("measured by cell", lambda: _by_cell(data))
    found: Counter[str] = Counter()
    for cell in point.cells:
        for row in by_cell.get(cell["cell_id"], []):
            if row["phase"] == "measure":
                found["answered" if row["status"] in ANSWERED else "failed"] += 1
    return found


def requests_of(data: ReportData, cell_id: str, *, phase: str = "measure") -> list[Row]:
    """A cell's requests of one phase."""
    by_cell = data.once("measured by cell", lambda: _by_cell(data))
    return [row for row in by_cell.get(cell_id, []) if row["phase"] == phase]


def _by_cell(data: ReportData) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in data.measured:
        found.setdefault(row["cell_id"], []).append(row)
    return found


def disturbances(point: Measured) -> list[str]:
    """`repeat 1: host_busy 2.1 of 4 cores` of each repeat that was disturbed."""
    return [f"repeat {cell['repeat']}: {', '.join(map(str, cell['disturbed']))}" for cell in point.disturbed]


class Part(NamedTuple):
    """The latencies of a part of a point: of one dataset, adapter or length of the prompt."""

    name: str
    point: Measured
    figures: dict[str, Figure]


PARTS = {"bucket": "By length of the prompt", "dataset": "By dataset", "adapter": "By adapter", "client": "By client"}
"""What a point can be taken apart by, and the heading of its table."""


def parts(data: ReportData) -> dict[str, list[Part]]:
    """The parts of every point that has several, by what they are."""
    return data.once("load parts", lambda: _parts(data))


def _parts(data: ReportData) -> dict[str, list[Part]]:
    found: dict[str, list[Part]] = {}
    for point in points(data):
        of_point: dict[tuple[str, str], dict[str, Figure]] = {}
        for name in point.rows:
            match = _PART.fullmatch(name)
            read = None if match is None else figure(point, name.removeprefix(PERF))
            if match is not None and read is not None:
                of_point.setdefault((match["what"], match["name"]), {})[match["figure"]] = read
        for (what, name), figures in of_point.items():
            found.setdefault(what, []).append(Part(name, point, figures))
    for own in found.values():
        own.sort(key=lambda part: _bucket_begin(part.name))  # stable: loads and arms stay in their order
    return {what: found[what] for what in PARTS if what in found}


def _bucket_begin(name: str) -> tuple[int, str]:
    begin = name.partition("-")[0]
    return (int(begin), "") if begin.isascii() and begin.isdigit() else (0, name)


def bucket_words(name: str) -> str:
    """`128-511` as `128 to 511`, `8192-` as `8,192 and more`; any other name as it is."""
    begin, dash, end = name.partition("-")
    if not dash or not begin.isdecimal() or (end and not end.isdecimal()):
        return name
    return f"{int(begin):,} and more" if not end else f"{int(begin):,} to {int(end):,}"


def knees(data: ReportData) -> list[dict[str, Any]]:
    """What the search for the knee found, an arm a row, with its probes by rate."""
    return knees_of(_all(data))


def knees_of(measured: Iterable[Measured]) -> list[dict[str, Any]]:
    """The same of the points as `tasks.compare.points.measured_points` gives them."""
    found = []
    for point in (each for each in measured if each.kind == SATURATE):
        row = point.rows.get(f"{PERF}{KNEE}")
        details = None if row is None else row.get("details")
        if row is None or not isinstance(details, dict):
            continue
        by_rate: dict[float, Counter[str]] = {}
        for probe in details.get("probes") or []:
            counted = by_rate.setdefault(probe["rate"], Counter())
            counted.update(met=probe["met"], asked=probe["asked"], probes=1)
        wanted = details.get("share")
        probes = [
            {"rate": rate, **dict(counted), "kept": counted["met"] >= (wanted or 0.0) * counted["asked"]}
            for rate, counted in sorted(by_rate.items())
        ]
        found.append(
            {
                "arm": point.arm,
                "rate": row.get("value"),
                "above": details.get("above"),
                "share": wanted,
                "decided": bool(details.get("decided")),
                "probes": probes,
                "words": _knee_words(row.get("value"), details.get("above"), wanted, decided=details.get("decided")),
            }
        )
    return sorted(found, key=lambda each: arm_order(each["arm"]))


def _knee_words(rate: Any, above: Any, wanted: Any, *, decided: Any) -> str:
    of = f"for {share(wanted)} of the requests" if is_number(wanted) else "for its share of the requests"
    if not is_number(rate):
        return f"No rate that was probed keeps the SLO {of}: there is no knee."
    said = f"{number(float(rate))} requests/s keep the SLO {of}"
    said += f"; {number(float(above))} do not." if is_number(above) else "; no rate that breaks it was found."
    if decided:
        return f"{said} Decided: the intervals of both say so."
    return f"{said} Not decided: longer probes, or more of them, would narrow it."


def failures(data: ReportData) -> list[dict[str, Any]]:
    """Why measured requests failed, the most frequent first."""
    names = {cell["cell_id"]: cell["point_id"] for cell in data.load_cells}
    found = Counter(
        (names.get(row["cell_id"]), row["status"], row["error"] or "no reason was recorded")
        for row in data.measured
        if row["phase"] == "measure" and row["status"] not in ANSWERED
    )
    return [
        {"point": point, "status": status, "why": why, "n": n}
        for (point, status, why), n in found.most_common(_MOST_REASONS)
    ]


def cached(data: ReportData) -> list[tuple[str, str, str]]:
    """(level, what, words) of points whose prompts were meant to differ and were found in the prefix cache."""
    found = []
    for point in points(data):
        hits = value(point, "engine.prefix_hit_rate")
        if hits and point.prompts in _MEANT_TO_DIFFER:
            words = f"{share(hits)} of the prompt tokens were found in the prefix cache, of prompts meant to differ"
            found.append(
                ("bad", f"{load_words(point)}, {point.arm}: prompts were cached", f"{words}: ttft is too short")
            )
    return found


def remarks(data: ReportData) -> list[tuple[str, str, str]]:
    """(level, what, words) of what a reader must know before trusting the numbers; the worst first."""
    found = cached(data)
    for point in points(data):
        name = f"{load_words(point)}, {point.arm}"
        if any(str(word).startswith(_CLIENT_LATE) for cell in point.disturbed for word in cell["disturbed"]):
            own = figure(point, "late_ms.p99")
            of = "" if own is None or own.value is None else f"p99 {number(own.value)} ms after its time; "
            found.append(("bad", f"{name}: the client was the bottleneck", f"{of}its times are the client's own"))
        said = [word for word in disturbances(point) if not word.partition(": ")[2].startswith(_CLIENT_LATE)]
        if said:
            found.append(("warn", f"{name}: {len(said)} of {len(point.cells)} repeats disturbed", "; ".join(said)))
    for cell in data.cells:
        if cell.get("kind") == "abandoned":
            words = ", ".join(map(str, cell.get("disturbed") or [])) or "no reason was recorded"
            found.append(("warn", f"{cell['cell_id']}: abandoned, in no number", words))
    return sorted(found, key=lambda each: ("bad", "warn").index(each[0]))
