"""Gates on measured loads: a number of one point against a bound, or over that of the same point in an earlier run.

A ratio is that of the medians over the repeats, with the interval of tasks/load/verdict.py; a number is the median with
its own interval over the repeats. `ratio_at_most v` and `at_most v`: passed iff the upper end is v or less, failed iff
the lower end is above v, else undecided, with the repeats that would decide; `ratio_at_least` and `at_least` the other
way round. One repeat decides nothing.
"""

import math
from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from schemas.gate import Gate, GateVerdict, GateWord
from schemas.gate_points import GatePoint, chosen
from tasks.compare.model import RunComparison, SpeedResult
from tasks.compare.points import Measured, measured_points
from tasks.compare.read import RecordedRun, read_recorded
from tasks.compare.runs import compare_measured
from tasks.compare.speed import Speed, compare_speed, devices
from tasks.gate.rules import without
from tasks.load.verdict import ONE_RUN, REPEATS, Shift, middle, repeats_needed
from tasks.score.stats.holm import holm
from warehouse.query import query
from warehouse.schema.table import literal

_REUSED = "a gate counts only answers that were given in the run itself"


class SpeedGates:
    """Judges the gates of one run that are on its measured load, and keeps what they were held against."""

    def __init__(self, home: Path, run_id: str) -> None:
        self._home = home
        self._run_id = run_id
        self._runs: dict[str, RecordedRun] = {}
        self._results: dict[str, dict[tuple[str, str], SpeedResult]] = {}
        self._notes: dict[str, list[str]] = {}

    def point_id(self, gate: Gate) -> str | None:
        """The point that a gate names; None where the run has no such one, or several."""
        point = self._point(gate)
        return None if isinstance(point, str) else point.point_id

    def against_number(self, gate: Gate, *, number: int) -> GateVerdict:
        """The gate held against its own number."""
        point = self._point(gate)
        if isinstance(point, str):
            return without(gate, number=number, against=None, verdict="refused", reason=point)
        reason = self._reused(self._own, point, "this run")
        if reason is not None or gate.metric not in point.rows:
            why = reason or f"{point.point_id} has no {gate.metric}"
            return _refused(gate, point, number=number, against=None, reason=why)
        return judged_number(gate, number=number, point=point)

    def against_run(self, gate: Gate, *, number: int, against: str, baseline_run_id: str) -> GateVerdict:
        """The gate held against one run."""
        point = self._point(gate)
        if isinstance(point, str):
            return without(gate, number=number, against=against, verdict="refused", reason=point)
        other = self._run(baseline_run_id)

        def refuse(reason: str) -> GateVerdict:
            found = _refused(gate, point, number=number, against=against, reason=reason)
            return found.model_copy(update={"baseline_run_id": baseline_run_id})

        theirs = next((each for each in measured_points(other) if each.point_id == point.point_id), None)
        for which, side in (("this run", point), (against, theirs)):
            if side is None or gate.metric not in side.rows:
                return refuse(f"{which} has no {gate.metric} at {point.point_id}")
        one, two = devices(self._own), devices(other)
        if one != two:
            said = f"it was measured on {one or 'a device not recorded'}, {against} on {two or 'one not recorded'}"
            return refuse(f"{said}: speed on two devices is not held against each other")
        assert theirs is not None  # noqa: S101 - refused above
        for which, run, side in (("this run", self._own, point), (against, other, theirs)):
            reason = self._reused(run, side, which)
            if reason is not None:
                return refuse(reason)
        found = compare_speed(
            candidate=self._own,
            baseline=other,
            arms=[(gate.arm, gate.arm)],
            metrics=[gate.metric],
            points=[point.point_id],
        )
        if (point.point_id, gate.metric) in found.refused:
            return refuse(found.refused[point.point_id, gate.metric])
        [result] = found.results
        self._results.setdefault(baseline_run_id, {})[point.point_id, gate.metric] = result
        self._notes.setdefault(baseline_run_id, []).extend(found.notes)
        return judged_ratio(gate, number=number, against=against, baseline_run_id=baseline_run_id, result=result)

    def added(self, comparisons: Iterable[RunComparison], *, within_run: bool) -> tuple[RunComparison, ...]:
        """The comparisons, with the speed that was compared; those of speed alone after them."""
        speeds = {run_id: self._speed(run_id) for run_id in self._results}
        found = []
        for each in comparisons:
            speed = speeds.pop(each.baseline.run_id, None)
            if speed is None:
                found.append(each)
            else:
                notes = tuple(dict.fromkeys((*each.notes, *speed.notes)))
                found.append(replace(each, speed=speed.results, notes=notes))
        for run_id, speed in speeds.items():
            arms = list(dict.fromkeys((each.candidate_arm, each.baseline_arm) for each in speed.results))
            found.append(
                compare_measured(
                    home=self._home,
                    candidate=self._own,
                    baseline=self._run(run_id),
                    speed=speed,
                    arms=arms,
                    ended=within_run,
                )
            )
        return tuple(found)

    def _speed(self, run_id: str) -> Speed:
        """All that was compared with one run, as one family of tests."""
        results = list(self._results[run_id].values())
        adjusted = holm([each.found.p_value for each in results])
        return Speed(
            results=tuple(replace(each, p_adjusted=p) for each, p in zip(results, adjusted, strict=True)),
            notes=tuple(dict.fromkeys(self._notes[run_id])),
            refused={},
        )

    @cached_property
    def _own(self) -> RecordedRun:
        return self._run(self._run_id)

    @cached_property
    def _points(self) -> list[Measured]:
        return measured_points(self._own)

    def _run(self, run_id: str) -> RecordedRun:
        if run_id not in self._runs:
            self._runs[run_id] = read_recorded(self._home, run_id)
        return self._runs[run_id]

    def _point(self, gate: Gate) -> Measured | str:
        """The point, or why there is none."""
        by_id = {point.point_id: point for point in self._points}
        found = chosen(gate.metric, gate.arm, gate.cell, among=[_named(point) for point in self._points])
        if len(found) == 1:
            return by_id[found[0].point_id]
        asked = "without a `cell`" if gate.cell is None else f"`{gate.cell}`"
        there = ", ".join(point.name for point in self._points if point.arm == gate.arm) or "none"
        return f"the run measured {len(found) or 'no'} points that fit {asked} in its arm {gate.arm} (it has {there})"

    def _reused(self, run: RecordedRun, point: Measured, which: str) -> str | None:
        ids = ", ".join(literal(str(cell["cell_id"])) for cell in point.cells)
        if not ids:
            return None
        sql = f"""SELECT count(*), count(*) FILTER (WHERE reused) FROM requests
WHERE run_id = {literal(run.run_id)} AND cell_id IN ({ids}) AND phase = 'measure'"""  # noqa: S608 - quoted
        [(answers, reused)] = query(home=self._home, sql=sql).rows
        return f"{reused} of {answers} answers of {which} came from an earlier run: {_REUSED}" if reused else None


def judged_ratio(gate: Gate, *, number: int, against: str, baseline_run_id: str, result: SpeedResult) -> GateVerdict:
    """A ratio against the gate's value. Raises ValueError for a gate that has none."""
    if gate.value is None:
        raise ValueError(f"gate {number} has no value")
    found = result.found
    word: GateWord = "undecided"
    needed = found.n_needed
    if found.lo is not None and found.hi is not None and found.shift is not None:
        bound = math.log(gate.value) if found.method.startswith("log") else gate.value - 1
        word, needed = _place(gate, lo=found.lo, hi=found.hi, bound=bound, shift=found.shift)
    return GateVerdict(
        **_asked(gate, number=number, against=against),
        baseline_run_id=baseline_run_id,
        verdict=word,
        unit=result.unit,
        direction=result.direction,
        candidate=found.candidate,
        baseline=found.baseline,
        effect=found.effect,
        lo=None if found.lo is None else found.lo - 1,
        hi=None if found.hi is None else found.hi - 1,
        p_value=found.p_value,
        n_pairs=found.repeats,
        n_needed=needed,
        method=found.method,
        reason=found.reason,
        cell_id=result.point_id,
    )


def judged_number(gate: Gate, *, number: int, point: Measured) -> GateVerdict:
    """A point's median against the gate's value. Raises ValueError for a gate that has none."""
    if gate.value is None:
        raise ValueError(f"gate {number} has no value")
    row, found = point.rows[gate.metric], middle(point.repeats(gate.metric))
    if found.value is None:
        return _refused(gate, point, number=number, against=None, reason=f"{gate.metric} has no value")
    word: GateWord = "undecided"
    needed: int | None = REPEATS
    reason: str | None = ONE_RUN
    if found.lo is not None and found.hi is not None and found.shift is not None:
        logs = found.method.startswith("log") and gate.value > 0
        bound = math.log(gate.value) if logs else gate.value
        word, needed = _place(gate, lo=found.lo, hi=found.hi, bound=bound, shift=found.shift)
        reason = None
    return GateVerdict(
        **_asked(gate, number=number, against=None),
        baseline_run_id=None,
        verdict=word,
        unit=row["unit"],
        direction=row["direction"],
        candidate=found.value,
        lo=found.lo,
        hi=found.hi,
        n_pairs=found.repeats,
        n_needed=needed,
        method=found.method,
        reason=reason,
        cell_id=point.point_id,
    )


def _place(gate: Gate, *, lo: float, hi: float, bound: float, shift: Shift) -> tuple[GateWord, int | None]:
    """Where an interval lies. bound: the gate's value on the scale of the shift."""
    value = gate.value
    assert value is not None  # noqa: S101 - looked at by both callers
    inside, outside = (hi <= value, lo > value) if gate.rule.endswith("at_most") else (lo >= value, hi < value)
    if inside:
        return "passed", None
    if outside:
        return "failed", None
    return "undecided", repeats_needed(shift, distance=bound - shift.mean)


def _asked(gate: Gate, *, number: int, against: str | None) -> dict[str, Any]:
    return {
        "number": number,
        "metric": gate.metric,
        "arm": gate.arm,
        "rule": gate.rule,
        "margin": gate.margin,
        "value": gate.value,
        "on_undecided": gate.on_undecided,
        "against": against,
    }


def _refused(gate: Gate, point: Measured, *, number: int, against: str | None, reason: str) -> GateVerdict:
    found = without(gate, number=number, against=against, verdict="refused", reason=reason)
    return found.model_copy(update={"cell_id": point.point_id})


def _named(point: Measured) -> GatePoint:
    return GatePoint(arm=point.arm, name=point.name, kind=point.kind, concurrency=point.concurrency, rate=point.rate)
