"""Judges the gates of a run that has its scores. Reads only; tasks/gate/keep.py keeps what comes of it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from schemas.errors import ConfigError
from schemas.experiment import Group
from schemas.gate import Gate, GateVerdict, GateWord
from tasks.compare.model import Result, RunComparison
from tasks.compare.read import answer_counts
from tasks.compare.runs import compare_runs
from tasks.gate.baselines import Found, Scope, as_config_error, resolve
from tasks.gate.group import combined
from tasks.gate.model import Evaluation
from tasks.gate.rules import adjusted, against_number, against_run, without
from tasks.gate.speed import SpeedGates
from tasks.score.stats.verdict import decide
from warehouse.parquet import read_rows

Row = dict[str, Any]
_REUSED = "a gate counts only answers that were given in the run itself"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """The run that is judged, and what its gates name. datasets: the run's, by name."""

    home: Path
    run_id: str
    name: str
    model: str | None
    groups: Mapping[str, Group]
    datasets: Sequence[str]
    metrics: Sequence[Row]

    def members(self, metric: str) -> list[str] | None:
        """The `dataset.metric`s behind a group's metric; None for a metric of one dataset."""
        name = metric.rpartition(".")[0]
        group = self.groups.get(name)
        if group is None or name in self.datasets:
            return None
        return [f"{dataset}.{group.metric}" for dataset in group.members(self.datasets)]

    def dataset_of(self, metric: str) -> str | None:
        """The dataset of a metric; None for a group's."""
        fitting = [name for name in self.datasets if metric.startswith(f"{name}.")]
        return max(fitting, key=len, default=None)

    def row(self, gate: Gate) -> Row | None:
        """The run's row of `metrics` that a gate is about."""
        found = (
            row
            for row in self.metrics
            if row["name"] == gate.metric and row["arm"] == gate.arm and row["scope"] in ("dataset", "group")
        )
        return next(found, None)


def judged_run(home: Path, run_id: str, *, groups: Mapping[str, Group], datasets: Sequence[str]) -> Judged:
    """Reads what every gate needs of the run. Raises ConfigError where it has no scores."""
    [run] = read_rows(home, "runs", run_id, parse_json=True)
    config = run["config"] if isinstance(run["config"], dict) else {}
    model = config.get("model")
    metrics = read_rows(home, "metrics", run_id)
    if not metrics:
        why = "it has not ended" if run["status"] == "running" else f"it is {run['status']}"
        raise ConfigError.one(f"run {run_id} has no metrics to judge ({why})", suggestion="`assay runs` lists others")
    return Judged(
        home=home,
        run_id=run_id,
        name=str(run["name"]),
        model=str(model["name"]) if isinstance(model, dict) and model.get("name") else None,
        groups=groups,
        datasets=datasets,
        metrics=metrics,
    )


def evaluate(run: Judged, gates: Sequence[Gate], *, within_run: bool = False) -> Evaluation:
    """A verdict for each gate and each run that it is held against.

    within_run: the run's own process asks. Then all its answers are there, and a pinned baseline or run that is not (it
    was when the run began) makes its gate `refused`; otherwise that raises ConfigError."""
    asked = [(number, gate, against) for number, gate in enumerate(gates, start=1) for against in gate.baselines]
    speed = SpeedGates(run.home, run.run_id)
    found = {
        (number, against): _found(run, gate, against, within_run=within_run, speed=speed)
        for number, gate, against in asked
    }
    compared = _compared(run, [each for each in asked if not each[1].is_speed], found, within_run=within_run)
    verdicts: list[GateVerdict] = []
    for number, gate in enumerate(gates, start=1):
        if not gate.baselines:
            judge = speed.against_number if gate.is_speed else partial(_against_number, run)
            verdicts.append(judge(gate, number=number))
        for against in gate.baselines:
            other = found[number, against]
            if other.run_id is None:
                reason = other.reason or "there is nothing to hold it against"
                word: GateWord = "refused" if other.wrong else "skipped"
                without_any = without(gate, number=number, against=against, verdict=word, reason=reason)
                verdicts.append(without_any.model_copy(update={"cell_id": other.cell_id}))
            elif gate.is_speed:
                verdicts.append(speed.against_run(gate, number=number, against=against, baseline_run_id=other.run_id))
            else:
                verdicts.append(_against_run(run, gate, compared[other.run_id], number=number, against=against))
    comparisons = speed.added(
        [each.comparison for each in compared.values() if each.comparison is not None], within_run=within_run
    )
    return Evaluation(
        run_id=run.run_id,
        name=run.name,
        model=run.model,
        verdicts=tuple(adjusted(verdicts)),
        comparisons=comparisons,
        notes=tuple(dict.fromkeys(note for each in comparisons for note in each.notes)),
        decided_at=datetime.now(UTC),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Against:
    """One other run. comparison: None where nothing could be compared; refused: why, by `dataset.metric`."""

    run_id: str
    comparison: RunComparison | None
    refused: Mapping[str, str]

    def result(self, metric: str, arm: str) -> Result | None:
        results = () if self.comparison is None else self.comparison.results
        return next((each for each in results if each.name == metric and each.comparison.candidate_arm == arm), None)


def _found(run: Judged, gate: Gate, against: str, *, within_run: bool, speed: SpeedGates) -> Found:
    scope = _scope(run, gate)
    if gate.is_speed:
        scope = scope._replace(dataset=None, cell_id=speed.point_id(gate))
    try:
        return resolve(run.home, against, scope=scope)._replace(cell_id=scope.cell_id)
    except ConfigError as error:
        if not within_run:
            raise
        return Found(None, as_config_error(error), wrong=True)


def _scope(run: Judged, gate: Gate) -> Scope:
    return Scope(
        before=run.run_id,
        experiment=run.name,
        model=run.model,
        metric=gate.metric,
        arm=gate.arm,
        dataset=None if run.members(gate.metric) is not None else run.dataset_of(gate.metric),
    )


def _compared(
    run: Judged,
    asked: Iterable[tuple[int, Gate, str]],
    found: Mapping[tuple[int, str], Found],
    *,
    within_run: bool,
) -> dict[str, _Against]:
    """Each other run once, with all that any gate asks of it."""
    wanted: dict[str, dict[tuple[str, str], float]] = {}
    for number, gate, against in asked:
        run_id = found[number, against].run_id
        if run_id is not None:
            own = wanted.setdefault(run_id, {})
            margin = 0.0 if gate.margin is None else gate.margin
            for name in run.members(gate.metric) or [gate.metric]:
                own[name, gate.arm] = min(margin, own.get((name, gate.arm), margin))
    return {run_id: _with(run, run_id, wanted=pairs, within_run=within_run) for run_id, pairs in wanted.items()}


def _with(run: Judged, baseline: str, *, wanted: Mapping[tuple[str, str], float], within_run: bool) -> _Against:
    """The comparison of what is wanted, (`dataset.metric`, arm) with the strictest margin that a gate has for it. Where
    one metric is refused, the others are compared without it."""
    metrics = list(dict.fromkeys(name for name, _ in wanted))
    parts: list[RunComparison] = []
    refused: dict[str, str] = {}

    def compare(names: list[str]) -> None:
        try:
            parts.append(
                compare_runs(
                    home=run.home, candidate=run.run_id, baseline=baseline, metrics=names, margin=0, ended=within_run
                )
            )
        except ConfigError as error:
            if len(names) == 1:
                refused[names[0]] = as_config_error(error)
            else:
                for name in names:
                    compare([name])

    compare(metrics)
    if not parts:
        return _Against(run_id=baseline, comparison=None, refused=refused)
    results = [
        _with_margin(result, wanted[result.name, result.comparison.candidate_arm])
        for part in parts
        for result in part.results
        if (result.name, result.comparison.candidate_arm) in wanted
    ]
    keys = {(each.name, each.comparison.candidate_arm) for each in results}
    flips = [
        flip for part in parts for flip in part.flips if (f"{flip.dataset}.{flip.metric}", flip.candidate_arm) in keys
    ]
    whole = replace(
        parts[0],
        margin=min(wanted.values()),
        results=tuple(results),
        flips=tuple(flips),
        notes=tuple(dict.fromkeys(note for part in parts for note in part.notes)),
    )
    return _Against(run_id=baseline, comparison=whole, refused=refused)


def _with_margin(result: Result, margin: float) -> Result:
    own = result.comparison
    lower = result.direction == "lower"
    decision = decide(effect=own.effect, lo=own.lo, hi=own.hi, margin=margin, n=own.n_pairs, lower_is_better=lower)
    changed = replace(own, margin=margin, verdict=decision.word, n_needed=decision.n_needed)
    return replace(result, comparison=changed)


def _against_run(run: Judged, gate: Gate, other: _Against, *, number: int, against: str) -> GateVerdict:
    def refuse(reason: str) -> GateVerdict:
        found = without(gate, number=number, against=against, verdict="refused", reason=reason)
        return found.model_copy(update={"baseline_run_id": other.run_id})

    members = run.members(gate.metric)
    names = [gate.metric] if members is None else members
    for name in names:
        if name in other.refused:
            return refuse(other.refused[name])
    if other.comparison is None:
        return refuse(f"nothing is common with {other.run_id}")
    for which, side in (("this run", other.comparison.candidate), (against, other.comparison.baseline)):
        if side.reused:
            return refuse(f"{side.reused} of {side.answers} answers of {which} came from an earlier run: {_REUSED}")
    results = [other.result(name, gate.arm) for name in names]
    missing = [name for name, result in zip(names, results, strict=True) if result is None]
    there = [result for result in results if result is not None]
    if missing or not there:
        return refuse(f"{' and '.join(missing or [gate.metric])} ({gate.arm}) is not in both runs")
    comparison = there[0].comparison
    if members is not None:
        name, _, metric = gate.metric.rpartition(".")
        parts = [result.comparison for result in there]
        comparison = combined(parts, name=name, metric=metric, weight=run.groups[name].weight)
    return against_run(
        gate,
        number=number,
        against=against,
        baseline_run_id=other.run_id,
        comparison=comparison,
        unit=there[0].unit,
        direction=there[0].direction,
    )


def _against_number(run: Judged, gate: Gate, *, number: int) -> GateVerdict:
    answers, reused = answer_counts(run.home, run.run_id, arms=[gate.arm])
    if reused:
        reason = f"{reused} of {answers} answers came from an earlier run: {_REUSED}"
        return without(gate, number=number, against=None, verdict="refused", reason=reason)
    return against_number(gate, number=number, row=run.row(gate))
