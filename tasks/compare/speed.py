"""Two runs' measured loads, or those of two arms of one run: point by point, is the candidate faster or slower?

A point is compared with the one of the same name. What was measured must be the same thing: another load, other
prompts or, for goodput, another SLO is not compared, and said. How a verdict comes about: tasks/load/verdict.py. Holm
over all that is compared at once.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from schemas.errors import ConfigError
from tasks.compare.model import SpeedResult
from tasks.compare.points import WHOLE, Measured, measured_points, unlike
from tasks.compare.read import PERF, RecordedRun, Row
from tasks.config.nearest import did_you_mean_or_list
from tasks.load.verdict import Direction, verdict
from tasks.score.stats.holm import holm

MAIN = (
    "ttft_ms.p50",
    "ttft_ms.p99",
    "tpot_ms.p50",
    "e2e_ms.p50",
    "gap_ms.p99",
    "output_tokens_per_s",
    "goodput_requests_per_s",
    "knee_requests_per_s",
)
"""What is compared unless others are named: `perf.` and these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """results: by point, in the order of the candidate's; notes: what a reader must know before trusting one, and what
    was not compared, with the reason. refused: those reasons, by point_id and metric."""

    results: tuple[SpeedResult, ...]
    notes: tuple[str, ...]
    refused: Mapping[tuple[str, str], str]


def compare_speed(
    *,
    candidate: RecordedRun,
    baseline: RecordedRun,
    arms: Sequence[tuple[str, str]],
    metrics: Collection[str] | None = None,
    points: Collection[str] | None = None,
    margin: float = 0.0,
) -> Speed:
    """Every point that both have in these arms. arms: (candidate's, baseline's). metrics: names with `perf.`; None for
    the main ones. points: the candidate's point_ids; None for all. margin: see `verdict`; a share.

    Two arms of one run are paired by repeat: they were measured in turns. Raises ConfigError for a metric that neither
    has."""
    ours, theirs = measured_points(candidate), measured_points(baseline)
    if not ours and not theirs:
        return Speed(results=(), notes=(), refused={})
    wanted = _wanted([*ours, *theirs], metrics)
    results: list[SpeedResult] = []
    notes: list[str] = _machines(candidate, baseline) if ours and theirs else []
    refused: dict[tuple[str, str], str] = {}
    for own_arm, other_arm in arms:
        by_name = {point.name: point for point in theirs if point.arm == other_arm}
        chosen = [point for point in ours if point.arm == own_arm and (points is None or point.point_id in points)]
        notes += _only_in_one(chosen, by_name, all_points=points is None)
        for point in chosen:
            other = by_name.get(point.name)
            if other is None:
                continue
            names = [name for name in wanted if name in point.rows and name in other.rows]
            reasons, said = unlike(candidate, baseline, point, other, metrics=names)
            refused |= {(point.point_id, name): reason for name, reason in reasons.items()}
            notes += said + _left_out(point, reasons)
            results += [
                _result(point, other, name, margin=margin, paired=candidate.run_id == baseline.run_id)
                for name in names
                if name not in reasons
            ]
    adjusted = holm([result.found.p_value for result in results])
    return Speed(
        results=tuple(replace(result, p_adjusted=p) for result, p in zip(results, adjusted, strict=True)),
        notes=tuple(dict.fromkeys(notes)),
        refused=refused,
    )


def split_metrics(metrics: Collection[str] | None) -> tuple[Collection[str] | None, Collection[str] | None]:
    """(what of the answers is asked for, what of speed): None for all of it, empty for none."""
    if not metrics:
        return None, None
    speed = [name for name in metrics if name.startswith(PERF)]
    return [name for name in metrics if name not in speed], speed


def speed_rows(results: Sequence[SpeedResult]) -> Iterator[Row]:
    """Their rows of `comparisons`, but for the baseline's run and the time."""
    for result in results:
        found = result.found
        yield {
            "dataset": None,
            "metric": result.metric,
            "candidate_arm": result.candidate_arm,
            "baseline_arm": result.baseline_arm,
            "cell_id": result.point_id,
            "n_pairs": found.repeats,
            "candidate": found.candidate,
            "baseline": found.baseline,
            "effect": found.effect,
            "lo": None if found.lo is None else found.lo - 1,
            "hi": None if found.hi is None else found.hi - 1,
            "p_value": found.p_value,
            "p_adjusted": result.p_adjusted,
            "method": found.method,
            "margin": result.margin,
            "verdict": found.word,
            "n_needed": found.n_needed,
        }


def _wanted(points: Sequence[Measured], metrics: Collection[str] | None) -> list[str]:
    if metrics is None:
        return [f"{PERF}{name}" for name in MAIN]
    known = dict.fromkeys(name for point in points for name in point.rows)
    for asked in metrics:
        if asked not in known:
            raise ConfigError.one(
                f"neither run measured {asked}", key="--metric", suggestion=did_you_mean_or_list(asked, known)
            )
    return list(metrics)


def _result(own: Measured, other: Measured, metric: str, *, margin: float, paired: bool) -> SpeedResult:
    row = own.rows[metric]
    direction: Direction = "higher" if row["direction"] == "higher" else "lower"
    return SpeedResult(
        point_id=own.point_id,
        name=own.name,
        candidate_arm=own.arm,
        baseline_arm=other.arm,
        metric=metric,
        unit=str(row["unit"] or ""),
        direction=direction,
        found=verdict(
            candidate=own.repeats(metric),
            baseline=other.repeats(metric),
            direction=direction,
            paired=paired,
            margin=margin,
        ),
        margin=margin,
        paired=paired,
    )


def _only_in_one(ours: Sequence[Measured], theirs: Mapping[str, Measured], *, all_points: bool) -> list[str]:
    names = {point.name for point in ours}
    missing = [point.point_id for point in ours if point.name not in theirs]
    found = [f"speed at {', '.join(missing)} is not compared: only the candidate measured it"] if missing else []
    further = [point.point_id for point in theirs.values() if point.name not in names] if all_points else []
    return found + (
        [f"speed at {', '.join(further)} is not compared: only the baseline measured it"] if further else []
    )


def _left_out(point: Measured, reasons: Mapping[str, str]) -> list[str]:
    by_reason: dict[str, list[str]] = {}
    for metric, reason in reasons.items():
        by_reason.setdefault(reason, []).append(metric.removeprefix(PERF))
    found = []
    for reason, names in by_reason.items():
        which = "" if reason.startswith(WHOLE) else f" ({', '.join(names)})"
        found.append(f"speed at {point.point_id}{which} is not compared: {reason}")
    return found


def devices(run: RecordedRun) -> str | None:
    """What it ran on: `NVIDIA H200`, `2 × NVIDIA H200`; None where that was not recorded."""
    found: dict[str, None] = {}
    for row in run.engines:
        if row["device"] is not None:
            count: Any = row["device_count"]
            found[f"{count} × {row['device']}" if count and count > 1 else str(row["device"])] = None
    return ", ".join(found) or None


def _machines(candidate: RecordedRun, baseline: RecordedRun) -> list[str]:
    if candidate.run_id == baseline.run_id:
        return []
    one, two = devices(candidate), devices(baseline)
    if one != two:
        return [f"speed was measured on {one or 'a device not recorded'} against {two or 'one not recorded'}"]
    hosts = candidate.run["host"], baseline.run["host"]
    if hosts[0] != hosts[1]:
        return [f"speed was measured on two hosts, {hosts[0]} and {hosts[1]}: what differs between them counts too"]
    return []
