"""Scores a recorded run again from what it was answered, without its model and without the engine."""

import dataclasses
import datetime
import itertools
import json
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from schemas.arm import REPAIR, arm_name, compared_arms, is_scored, likelihood_arms, needs_guide, stored_arms
from schemas.dataset import MetricUse, NamedDataset
from schemas.engine import VllmEngine
from schemas.errors import AssayError, ConfigError
from schemas.experiment import Group
from schemas.judge import Judgement
from schemas.metric import Aggregate, Comparison, Score
from schemas.sample import Response, Sample, Window
from tasks.config.lines import lines_added
from tasks.config.nearest import did_you_mean_or_list
from tasks.dataset.load import Row
from tasks.judge.judging import Answers, Slot, judges_in
from tasks.predictions.guiding import guiding_again
from tasks.predictions.judged import judge_offline
from tasks.predictions.offline import ABSENT
from tasks.predictions.samples import judged_samples
from tasks.predictions.score import chosen_metrics, misfits, request_kind
from tasks.record import mlflow_run
from tasks.record.answers import last_attempts
from tasks.record.open import stored_run
from tasks.record.rows import comparison_rows, metric_rows, score_rows
from tasks.score.aggregate import aggregate
from tasks.score.answers import further_metrics, score_answers
from tasks.score.groups import group_means
from tasks.score.paired_arms import compare_arms
from tasks.score.registry import metric_names
from tasks.score.repaired import judged_rows
from tasks.score.stage import MARGIN
from warehouse.build import ensure_fresh
from warehouse.parquet import compact_run, read_rows, write_rows

_SAMPLE = ["dataset", "sample_id", "row_index", "raw", "input", "cluster", "grammar_id", "windows", "window_tokens"]
_SCORE = list(Score.__slots__)


@dataclass(frozen=True, kw_only=True)
class Change:
    """One number before and after. A side without a value, or without a row at all, is None. version: the metric's."""

    name: str
    arm: str | None
    old: float | None
    new: float | None
    old_version: int | None
    new_version: int | None
    old_n: int | None
    new_n: int
    new_failed: int

    @property
    def same(self) -> bool:
        return (self.old, self.old_version, self.old_n) == (self.new, self.new_version, self.new_n)


@dataclass(frozen=True, kw_only=True)
class Rescored:
    """What scoring again gives. revision: the one that its rows get once they are written. changes: of the scores'
    numbers; guiding: of the figures of guiding and repairing. metrics: both."""

    run: dict[str, Any]
    revision: int
    scores: list[Score]
    metrics: list[Aggregate]
    comparisons: list[Comparison]
    changes: list[Change]
    guiding: list[Change]
    warnings: list[str]

    @property
    def run_id(self) -> str:
        return str(self.run["run_id"])


def rescore(
    home: Path,
    run: str,
    *,
    metrics: Sequence[str] = (),
    dataset: str | None = None,
    ask: bool = True,
    slot: Slot = nullcontext,
) -> Rescored:
    """Scores a run's stored answers; writes nothing but what judges say, as they say it.

    run: its id, or `last`. metrics: as `parse_metric` takes; empty for those of the run's own config. dataset: only
    this one of the run's. ask: whether judges are asked about answers that they have not judged. slot:
    held while a judge's own engine runs.

    Raises ConfigError: no such run, one that is still running or holds no answers, a dataset that it does not have,
    metrics that fit none of its datasets; what `judge_answers` raises where a judge is asked."""
    row = stored_run(home, run)
    if row["status"] == "running":
        raise ConfigError.one(f"run {row['run_id']} is still running", suggestion="rescore it when it has ended")
    with lines_added():
        return _Rescoring(home, row, metrics=metrics, ask=ask, slot=slot).of(dataset)


class _Rescoring:
    def __init__(self, home: Path, run: dict[str, Any], *, metrics: Sequence[str], ask: bool, slot: Slot) -> None:
        self.home, self.run, self.run_id = home, run, str(run["run_id"])
        self.asked, self.ask, self.slot = metrics, ask, slot
        self.revision = self._next_revision()
        self._parts = itertools.count()
        self.config = json.loads(run["config"] or "{}")
        self.warnings: list[str] = []
        self.clusters: dict[str, str] = {}

    def of(self, only: str | None) -> Rescored:
        datasets = self._datasets(only)
        by_dataset = self._responses()
        elsewhere = bool(self.config.keys() & {"predictions", "imported"})
        scores: list[Score] = []
        used: dict[str, list[MetricUse]] = {}
        arms = stored_arms(self.config.get("arms", []))
        unfit: list[ConfigError] = []
        for dataset in datasets:
            responses = by_dataset.get(dataset.name, [])
            try:
                uses = self._uses(dataset, responses)
            except ConfigError as error:
                unfit.append(error)
                continue
            used[dataset.name] = uses
            samples = self._samples(dataset)
            scores += score_answers(
                metrics=uses,
                samples=samples,
                responses=responses,
                judgements=self._judgements(dataset.name, uses, samples, responses),
                arms=self._arms(dataset, responses),
                absent=ABSENT if elsewhere else "not answered: the run was stopped before",
                repeats=0 if elsewhere else dataset.sampling.repeats,
                likelihood_arms=[arm_name(arm) for arm in likelihood_arms(arms)],
            )
        if len(unfit) == len(datasets):
            raise ConfigError([problem for error in unfit for problem in error.problems])
        self.warnings += [str(error) for error in unfit]
        stored = read_rows(self.home, "metrics", self.run_id, parse_json=True)
        aggregates = aggregate(scores=scores, clusters=self.clusters or None)
        for name, uses in used.items():
            aggregates += further_metrics(metrics=uses, dataset=name, scores=scores, clusters=self.clusters or None)
        aggregates += self._groups(aggregates, stored)
        chosen = [dataset.name for dataset in datasets]
        guiding = guiding_again(self.home, self.run_id, config=self.config, only=chosen)
        return Rescored(
            run=self.run,
            revision=self.revision,
            scores=scores,
            metrics=[*aggregates, *guiding],
            comparisons=self._comparisons(scores),
            changes=_changes(aggregates, stored),
            guiding=_changes(guiding, stored),
            warnings=self.warnings,
        )

    def _datasets(self, only: str | None) -> list[NamedDataset]:
        found = [NamedDataset.model_validate(each) for each in self.config.get("datasets") or []]
        if not found:
            raise ConfigError.one(
                f"run {self.run_id} (flow {self.run['flow']}) keeps no dataset's config, so that it cannot be rescored"
            )
        chosen = [each for each in found if only in (None, each.name)]
        if not chosen:
            hint = did_you_mean_or_list(str(only), [each.name for each in found])
            raise ConfigError.one(f"run {self.run_id} has no dataset `{only}`", key="--dataset", suggestion=hint)
        return chosen

    def _responses(self) -> dict[str, list[Response]]:
        found: dict[str, list[Response]] = {}
        columns = list(Response.__slots__)
        rows = last_attempts(self.home, self.run_id, columns=[*columns, "phase", "repair_try"])
        if not self.config.keys() & {"predictions", "imported"}:  # whose arms may have any name
            rows = judged_rows(rows, datasets=self._repaired())
        for row in rows:
            if row["phase"] in (None, "quality") and row["kind"] in ("generate", "loglikelihood"):
                given = {name: row[name] for name in columns}
                if given["repeat"] is None:  # a run that asked once and did not number it
                    given["repeat"] = 0
                found.setdefault(row["dataset"], []).append(Response(**given))
        if not found:
            raise ConfigError.one(f"run {self.run_id} holds no answers", suggestion="`assay runs` lists the runs")
        return found

    def _repaired(self) -> set[str]:
        """The datasets that have the arm `repair`."""
        if REPAIR not in stored_arms(self.config.get("arms", [])):
            return set()
        return {each["name"] for each in self.config.get("datasets") or [] if each["config"].get("guide") is not None}

    def _uses(self, dataset: NamedDataset, responses: Sequence[Response]) -> list[MetricUse]:
        uses = chosen_metrics(dataset.config, asked=self.asked)
        if self.asked and (problems := misfits(dataset.config, uses)):
            raise ConfigError([replace(each, message=f"{dataset.name}: {each.message}") for each in problems])
        kinds = {response.kind for response in responses}
        fit = [use for use in uses if request_kind(use) in kinds]
        unfit = [use.name for use in uses if use not in fit]
        if unfit:
            message = f"{dataset.name}: the run has no requests that {', '.join(unfit)} could read"
            if not fit:
                raise ConfigError.one(message)
            self.warnings.append(message)
        return fit

    def _samples(self, dataset: NamedDataset) -> list[Sample]:
        """The dataset's samples with target, choices and grammar, rendered anew from the stored rows: a target's type
        does not survive in the tables."""
        stored = read_rows(self.home, "samples", self.run_id, columns=_SAMPLE, parse_json=True)
        mine = [row for row in stored if row["dataset"] == dataset.name]
        lost = sum(row["row_index"] is None or row["raw"] is None or row["input"] is None for row in mine)
        if lost:
            raise ConfigError.one(f"{dataset.name}: {lost:,} samples of the run were stored without their rows")
        mine.sort(key=lambda row: row["row_index"])
        rows = [
            Row(sample_id=row["sample_id"], row_index=row["row_index"], raw=row["raw"], fields=row["input"])
            for row in mine
        ]
        samples = judged_samples(dataset, rows)
        if dataset.config.document is not None:
            # How many windows a document has is known with a tokenizer only; where each lies is of no more use.
            samples = [
                replace(
                    sample,
                    windows=[Window(begin=0, start=0, end=0)] * (row["windows"] or 0),
                    window=row["window_tokens"],
                )
                for row, sample in zip(mine, samples, strict=True)
            ]
        self.clusters |= {row["sample_id"]: row["cluster"] for row in mine if row["cluster"] is not None}
        changed = sum(
            row["grammar_id"] is not None and (sample.grammar is None or sample.grammar.grammar_id != row["grammar_id"])
            for row, sample in zip(mine, samples, strict=True)
        )
        if changed:
            self.warnings.append(f"{dataset.name}: {changed:,} grammars are not those of the run: its schema changed")
        return samples

    def _judgements(
        self, dataset: str, uses: Sequence[MetricUse], samples: Sequence[Sample], responses: Sequence[Response]
    ) -> list[Judgement]:
        """What judges say of a dataset's answers: what they said before, and of the others what they say now."""
        if not judges_in(uses):
            return []
        stored = read_rows(
            self.home, "samples", self.run_id, columns=["dataset", "sample_id", "prompt", "messages"], parse_json=True
        )
        asked = {row["sample_id"]: row for row in stored if row["dataset"] == dataset}
        shown = [
            replace(sample, prompt=row["prompt"] or "", messages=row["messages"])
            for sample in samples
            if (row := asked.get(sample.sample_id)) is not None
        ]
        judged = judge_offline(
            # An answer of `free` may be one of `repair` too; it is judged once.
            Answers(metrics=uses, samples=shown, responses=[*{each.request_id: each for each in responses}.values()]),
            home=self.home,
            before=read_rows(self.home, "judgements", self.run_id),
            write=self._write_judgements,
            ask=self.ask,
            engine=VllmEngine.model_validate(self.config["engine"]) if self.config.get("engine") else None,
            slot=self.slot,
        )
        self.warnings += judged.warnings
        return judged.judgements

    def _write_judgements(self, rows: Sequence[dict[str, Any]]) -> None:
        part = f"{self.revision:04d}-judge-{next(self._parts):05d}"
        write_rows(home=self.home, table="judgements", run_id=self.run_id, rows=rows, part=part, revision=self.revision)

    def _arms(self, dataset: NamedDataset, responses: Sequence[Response]) -> list[str]:
        arms = stored_arms(self.config.get("arms", []))
        guided = dataset.config.guide is not None
        asked = [arm_name(arm) for arm in arms if is_scored(arm) and (guided or not needs_guide(arm))]
        return list(dict.fromkeys([*asked, *(each.arm for each in responses if each.kind == "generate")]))

    def _groups(self, new: Sequence[Aggregate], stored: Sequence[dict[str, Any]]) -> list[Aggregate]:
        """The means over several datasets that a new number changes."""
        groups = {name: Group.model_validate(each) for name, each in (self.config.get("groups") or {}).items()}
        known = {(row.name, row.arm) for row in new}
        fields = [field.name for field in dataclasses.fields(Aggregate)]
        kept = [
            Aggregate(**{name: row[name] for name in fields} | {"details": row["details"] or {}})
            for row in stored
            if row["scope"] == "dataset" and (row["name"], row["arm"]) not in known
        ]
        names = [each["name"] for each in self.config["datasets"]]
        means = group_means(groups=groups, metrics=[*new, *kept], datasets=names)
        scored = {row.name.rsplit(".", 1)[-1] for row in new}
        return [row for row in means if row.name.rsplit(".", 1)[-1] in scored]

    def _next_revision(self) -> int:
        tables = ("runs", "scores", "metrics", "comparisons", "judgements")
        rows = [row for each in tables for row in read_rows(self.home, each, self.run_id, columns=["revision"])]
        return max(int(row["revision"]) for row in rows) + 1

    def _comparisons(self, new: Sequence[Score]) -> list[Comparison]:
        """All comparisons of the run's arms: p values are adjusted over all of them, so that one moves the others."""
        rescored = {(score.dataset, score.metric) for score in new}
        known = set(metric_names())
        kept = []
        for row in read_rows(self.home, "scores", self.run_id, columns=_SCORE):
            if (row["dataset"], row["metric"]) not in rescored and (row["base_metric"] or row["metric"]) in known:
                kept.append(Score(**row))
        newest: dict[tuple[str, str], int] = {}
        for score in kept:
            key = (score.dataset, score.metric)
            newest[key] = max(newest.get(key, score.metric_version), score.metric_version)
        current = [score for score in kept if score.metric_version == newest[(score.dataset, score.metric)]]
        stored = read_rows(self.home, "comparisons", self.run_id, columns=["baseline_run_id", "margin"])
        margins = {row["margin"] for row in stored if row["baseline_run_id"] == self.run_id} - {None}
        if others := sum(row["baseline_run_id"] != self.run_id for row in stored):
            self.warnings.append(f"{others:,} comparisons with other runs still rest on the scores of before")
        clusters = {
            row["sample_id"]: row["cluster"]
            for row in read_rows(self.home, "samples", self.run_id, columns=["sample_id", "cluster"])
            if row["cluster"] is not None
        }
        margin = margins.pop() if len(margins) == 1 else MARGIN
        arms = compared_arms(stored_arms(self.config.get("arms", [])))
        return compare_arms(scores=[*current, *new], arms=arms, margin=margin, clusters=clusters or None)


def _changes(metrics: Sequence[Aggregate], stored: Sequence[dict[str, Any]]) -> list[Change]:
    before = {(row["scope"], row["name"], row["arm"]): row for row in stored}
    return [_change(before.get((row.scope, row.name, row.arm)), row) for row in metrics]


def _change(before: dict[str, Any] | None, row: Aggregate) -> Change:
    details = (before or {}).get("details") or {}
    return Change(
        name=row.name,
        arm=row.arm,
        old=None if before is None else before["value"],
        new=row.value,
        old_version=details.get("metric_version"),
        new_version=row.details.get("metric_version"),
        old_n=None if before is None else before["n"],
        new_n=row.n,
        new_failed=row.n_failed,
    )


def write_rescored(home: Path, rescored: Rescored) -> list[str]:
    """Writes the scores, numbers and comparisons as a new revision of the run, and notes in its row what was rescored;
    gives what went wrong afterwards. Scores of another version of a metric stay beside the new ones.

    Raises OSError where the disk is full."""
    now = datetime.datetime.now(datetime.UTC)
    run_id, revision = rescored.run_id, rescored.revision
    changed = [*rescored.changes, *(change for change in rescored.guiding if not change.same)]
    names = ", ".join(dict.fromkeys(map(_named, changed)))
    note = f"rescored {now:%Y-%m-%d %H:%M} UTC: {names}"
    run = {name: value for name, value in rescored.run.items() if name not in ("run_id", "revision")}
    for table, rows in (
        ("scores", score_rows(rescored.scores, scored_at=now)),
        ("metrics", metric_rows(rescored.metrics)),
        ("comparisons", comparison_rows(rescored.comparisons, run_id=run_id, compared_at=now)),
        ("runs", [run | {"warnings": [*(run["warnings"] or []), note]}]),
    ):
        if rows:
            write_rows(
                home=home, table=table, run_id=run_id, rows=rows, part=f"{revision:04d}-00000", revision=revision
            )
    problems = []
    try:
        compact_run(home=home, run_id=run_id)
        ensure_fresh(home)
        if mlflow_run.is_tracked(run):
            mlflow_run.prepare(home, run_id)
    except (AssayError, OSError) as problem:
        problems.append(f"the rows are written, but: {problem}")
    return problems


def _named(change: Change) -> str:
    if change.new_version is None:
        return change.name
    if change.old_version is not None and change.old_version != change.new_version:
        return f"{change.name} (version {change.old_version} → {change.new_version})"
    return f"{change.name} (version {change.new_version})"
