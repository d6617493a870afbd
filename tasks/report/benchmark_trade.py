"""What is traded for what: throughput for latency over the loads, quality for cost over the arms; earlier runs."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tasks.compare.points import Measured
from tasks.compare.read import PERF
from tasks.report.benchmark import load_words, points, value
from tasks.report.data import ReportData, Row, arm_order
from tasks.report.numbers import is_number
from tasks.report.quality import quality_rows

THROUGHPUT = "output_tokens_per_s"
LATENCY = "e2e_ms.p50"
COSTS = (
    ("cost_per_million_output_tokens", "{unit} a million output tokens", "lower"),
    ("joules_per_output_token", "joules an output token", "lower"),
    (THROUGHPUT, "output tokens/s", "higher"),
)
"""What an arm takes, by what there is: (metric, words, which is better)."""
NAMES = tuple(dict.fromkeys((THROUGHPUT, LATENCY, *(name for name, _, _ in COSTS))))
"""The numbers that are read of earlier runs."""


class Dot(NamedTuple):
    """One dot. name: what stands beside it; run_id: the run that it is of; is_best: nothing else of this run is better
    on both axes."""

    arm: str
    name: str
    x: float
    y: float
    run_id: str
    is_best: bool = False


class Plane(NamedTuple):
    """Dots of this run, and those of earlier ones. x and y: what the axes are; x_is: which end of x is better."""

    x: str
    y: str
    x_is: str
    own: list[Dot]
    earlier: list[Dot]


def loads_plane(data: ReportData) -> Plane | None:
    """Throughput against latency over the points; None where fewer than two have both, earlier runs with them."""
    return data.once("loads plane", lambda: _loads_plane(data))


def _loads_plane(data: ReportData) -> Plane | None:
    own = [
        Dot(point.arm, load_words(point), x, y, data.run_id)
        for point in points(data)
        for x, y in [(value(point, LATENCY), value(point, THROUGHPUT))]
        if x is not None and y is not None
    ]
    by_point = _earlier_numbers(data)
    arms = {point.point_id: point.arm for point in points(data)}
    earlier = [
        Dot(arms[point_id], "", found[f"{PERF}{LATENCY}"], found[f"{PERF}{THROUGHPUT}"], run_id)
        for (run_id, point_id), found in by_point.items()
        if point_id in arms and {f"{PERF}{LATENCY}", f"{PERF}{THROUGHPUT}"} <= found.keys()
    ]
    if not own or len(own) + len(earlier) < 2:
        return None
    return Plane("e2e p50, ms", "output tokens/s", "lower", best(own, x_is="lower"), earlier)


def quality_plane(data: ReportData) -> Plane | None:
    """Quality against what it takes at each arm's cheapest point; None where an arm lacks either."""
    return data.once("quality plane", lambda: _quality_plane(data))


def _quality_plane(data: ReportData) -> Plane | None:
    measured = sorted({point.arm for point in points(data)}, key=arm_order)
    scored = _scored_metrics(data, measured)
    if not scored:
        return None
    for name, words, x_is in COSTS:
        found = {arm: _cheapest([each for each in points(data) if each.arm == arm], name, x_is) for arm in measured}
        cheapest = {arm: each for arm, each in found.items() if each is not None}
        if not cheapest:
            continue
        quality = {arm: _mean([row["value"] for row in _rows_of(data, scored, arm)]) for arm in cheapest}
        own = [
            Dot(arm, f"{arm}, {load_words(point)}", taken, quality[arm], data.run_id)
            for arm, (point, taken) in cheapest.items()
        ]
        unit = next(iter(cheapest.values()))[0].rows[f"{PERF}{name}"].get("unit") or ""
        currency = str(unit).partition("/")[0]
        what = scored[0] if len(scored) == 1 else f"mean of {len(scored)} datasets' first metrics"
        earlier = _earlier_quality(data, scored, name=name, x_is=x_is)
        return Plane(words.format(unit=currency), what, x_is, best(own, x_is=x_is), earlier)
    return None


def best(dots: Sequence[Dot], *, x_is: str) -> list[Dot]:
    """The same, each with whether no other is at least as good on both axes and better on one. y is better higher."""
    sign = 1 if x_is == "higher" else -1

    def is_beaten(dot: Dot) -> bool:
        return any(
            sign * other.x >= sign * dot.x and other.y >= dot.y and (sign * other.x > sign * dot.x or other.y > dot.y)
            for other in dots
        )

    return [dot._replace(is_best=not is_beaten(dot)) for dot in dots]


def first_metrics(data: ReportData) -> dict[str, list[Row]]:
    """The rows of each dataset's first metric, as the run recorded them, by its whole name: shares, of which more is
    better."""
    first: dict[str, str] = {}
    found: dict[str, list[Row]] = {}
    recorded = [row["name"] for row in data.metrics]
    rows = [row for row in quality_rows(data) if row.get("scope") != "group"]
    for row in sorted(rows, key=lambda each: recorded.index(each["name"])):
        name = row["name"]
        if first.setdefault(row["dataset"], name) != name or not is_number(row.get("value")):
            continue
        if row.get("direction") == "higher" and 0 <= row["value"] <= 1:
            found.setdefault(name, []).append(row)
    return found


def _scored_metrics(data: ReportData, arms: Iterable[str]) -> list[str]:
    """The first metrics that every one of the arms has."""
    wanted = set(arms)
    return [name for name, rows in first_metrics(data).items() if wanted <= {row["arm"] for row in rows}]


def _rows_of(data: ReportData, scored: Sequence[str], arm: str) -> list[Row]:
    rows = first_metrics(data)
    return [row for name in scored for row in rows[name] if row["arm"] == arm]


def _cheapest(found: Sequence[Measured], name: str, x_is: str) -> tuple[Measured, float] | None:
    known = [(point, taken) for point in found if (taken := value(point, name)) is not None]
    if not known:
        return None
    return (max if x_is == "higher" else min)(known, key=lambda pair: pair[1])


def _earlier_numbers(data: ReportData) -> dict[tuple[str, str], dict[str, float]]:
    found: dict[tuple[str, str], dict[str, float]] = {}
    for row in data.earlier_points:
        if row["cell_id"] is not None and is_number(row["value"]):
            found.setdefault((row["run_id"], row["cell_id"]), {})[row["name"]] = row["value"]
    return found


def _earlier_quality(data: ReportData, scored: Sequence[str], *, name: str, x_is: str) -> list[Dot]:
    """Each earlier run's arms: quality, and what their cheapest point of those that this run has took."""
    arms = {point.point_id: point.arm for point in points(data)}
    taken: dict[tuple[str, str], list[float]] = {}
    for (run_id, point_id), found in _earlier_numbers(data).items():
        if point_id in arms and f"{PERF}{name}" in found:
            taken.setdefault((run_id, arms[point_id]), []).append(found[f"{PERF}{name}"])
    quality: dict[tuple[str, str], dict[str, float]] = {}
    for row in data.earlier_points:
        if row["cell_id"] is None and row["name"] in scored and is_number(row["value"]):
            quality.setdefault((row["run_id"], row["arm"]), {})[row["name"]] = row["value"]
    chosen = max if x_is == "higher" else min
    return [
        Dot(arm, "", chosen(own), _mean(list(quality[run_id, arm].values())), run_id)
        for (run_id, arm), own in taken.items()
        if quality.get((run_id, arm), {}).keys() == set(scored)
    ]


def _mean(found: list[float]) -> float:
    return sum(found) / len(found)
