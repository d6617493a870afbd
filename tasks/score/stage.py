"""The scoring step: every answer under every metric of its dataset, aggregates, and the arms against each other."""

import dataclasses
import datetime
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from schemas.arm import FREE_MATCHED, REPAIR, arm_name, compared_arms, likelihood_arms
from schemas.dataset import NamedDataset
from schemas.judge import Judgement
from schemas.metric import Aggregate, Comparison, Score
from schemas.sample import Response, Sample
from schemas.summary import DatasetsSummary, ScoredSummary
from tasks.load.watched import correct_metrics
from tasks.record.answers import last_attempts
from tasks.record.rows import comparison_rows, metric_rows, score_rows
from tasks.record.timing import telemetry_metrics, timing_metrics
from tasks.score.aggregate import aggregate, aggregate_form
from tasks.score.alarms import alarms
from tasks.score.answers import further_metrics, score_answers
from tasks.score.groups import group_means
from tasks.score.guiding import guiding_metrics
from tasks.score.guiding_lines import guiding_lines
from tasks.score.paired_arms import compare_arms
from tasks.score.registry import metric
from tasks.score.repaired import judged_rows
from tasks.score.repairing import repair_metrics
from tasks.session import Session
from warehouse.parquet import read_rows

MARGIN = 0.02
"""Differences between two arms within it count as the same."""

COLUMNS = [
    "request_id",
    "request_key",
    "dataset",
    "sample_id",
    "arm",
    "kind",
    "status",
    "repeat",
    "choice_index",
    "output",
    "logprob_sum",
    "finish_reason",
    "valid",
    "error",
    "prompt_tokens",
    "output_tokens",
    "whitespace_share",
    "sent_at",
    "ttft_ms",
    "tpot_ms",
    "e2e_ms",
    "queued_ms",
    "prefill_ms",
    "decode_ms",
    "repair_try",
]


def score_run(session: Session, datasets: DatasetsSummary) -> ScoredSummary:
    """Scores what was answered; writes scores, metrics and comparisons. Runs from what is on disk alone."""
    rows = _answers(session)
    repaired = [summary.dataset for summary in datasets.datasets if REPAIR in summary.arms]
    responses = [_response(row) for row in judged_rows(rows, datasets=repaired)]
    named = {dataset.name: dataset for dataset in session.run.experiment.datasets}
    arms = session.run.experiment.arms
    judgements = _judgements(session)
    scores: list[Score] = []
    metrics: list[Aggregate] = []
    clusters: dict[str, str] = {}
    for summary in datasets.datasets:
        samples = [sample for sample in session.samples() if sample.dataset == summary.dataset]
        own = [response for response in responses if response.dataset == summary.dataset]
        scores += score_dataset(
            dataset=named[summary.dataset],
            samples=samples,
            responses=own,
            arms=[arm for arm in summary.arms if arm != FREE_MATCHED],
            judgements=judgements,
            likelihoods=[arm_name(arm) for arm in likelihood_arms(arms)],
        )
        guide = named[summary.dataset].config.guide
        metrics += aggregate_form(dataset=summary.dataset, responses=own, kind=None if guide is None else guide.kind)
        clusters |= {sample.sample_id: sample.cluster for sample in samples if sample.cluster is not None}
    means = aggregate(scores=scores, clusters=clusters or None)
    names = [summary.dataset for summary in datasets.datasets]
    for summary in datasets.datasets:
        uses = named[summary.dataset].config.metrics
        means += further_metrics(metrics=uses, dataset=summary.dataset, scores=scores, clusters=clusters or None)
    metrics = means + group_means(groups=session.run.experiment.groups, metrics=means, datasets=names) + metrics
    comparisons = compare_arms(scores=scores, arms=compared_arms(arms), margin=MARGIN, clusters=clusters or None)
    interrupted = session.run.resumed or session.restarted
    guides = {name: guide.kind for name in names if (guide := named[name].config.guide) is not None}
    metrics += guiding_metrics(rows, arms=arms, guides=guides, clusters=clusters or None, resumed=interrupted)
    metrics += repair_metrics(rows, datasets=repaired, clusters=clusters or None, resumed=interrupted)
    metrics += timing_metrics(rows, resumed=interrupted)
    metrics += telemetry_metrics(_before_the_load(session))
    metrics += _correct(session, scores)
    now = datetime.datetime.now(datetime.UTC)
    session.store.write("scores", score_rows(scores, scored_at=now))
    session.store.write("metrics", metric_rows(metrics))
    session.store.write("comparisons", comparison_rows(comparisons, run_id=session.run.run_id, compared_at=now))
    return ScoredSummary(
        scores=len(scores),
        headline=[_headline(metric) for metric in metrics if metric.scope in ("dataset", "group")],
        verdicts=[_verdict(comparison) for comparison in comparisons],
        guiding=_guiding(metrics, names),
        warnings=alarms(means),
    )


def _before_the_load(session: Session) -> list[dict[str, Any]]:
    """Telemetry without what was read while load was measured, which has metrics of its own."""
    home, run_id = session.run.home, session.run.run_id
    rows = read_rows(home, "telemetry", run_id)
    spans = [
        (cell["warmup_started_at"], cell["ended_at"])
        for cell in read_rows(home, "cells", run_id, columns=["cell_id", "warmup_started_at", "ended_at"])
        if cell["warmup_started_at"] is not None and cell["ended_at"] is not None
    ]
    if not spans:
        return rows
    begin, end = min(begin for begin, _ in spans), max(end for _, end in spans)
    return [row for row in rows if not begin <= row["ts"] <= end]


def _correct(session: Session, scores: Sequence[Score]) -> list[Aggregate]:
    """What a right answer takes under the benchmark's loads."""
    benchmark, built = session.run.experiment.benchmark, session.built
    if benchmark is None or built is None:
        return []
    return correct_metrics(
        session.run.home,
        session.run.run_id,
        benchmark=benchmark,
        built=built,
        scores=scores,
    )


def score_dataset(
    *,
    dataset: NamedDataset,
    samples: Sequence[Sample],
    responses: Sequence[Response],
    arms: Iterable[str],
    judgements: Iterable[Judgement] = (),
    likelihoods: Sequence[str] = ("free",),
) -> list[Score]:
    """Every score of one dataset: of each sample, arm and repeat. One without an answer gets a score without a value,
    and why. judgements: what judges said, of this dataset's answers among others. likelihoods: the arms that
    log-likelihoods were asked in."""
    return score_answers(
        metrics=dataset.config.metrics,
        samples=samples,
        responses=responses,
        arms=arms,
        absent="not answered: the run was stopped before",
        repeats=dataset.sampling.repeats,
        judgements=judgements,
        likelihood_arms=likelihoods,
    )


def _judgements(session: Session) -> list[Judgement]:
    """What judges said of the run's answers; nothing is read where no metric rests on a judge."""
    if not any(metric(use.use).score_judged for each in session.run.experiment.datasets for use in each.config.metrics):
        return []
    columns = list(Judgement.__slots__)
    return [Judgement(**row) for row in read_rows(session.run.home, "judgements", session.run.run_id, columns=columns)]


def _answers(session: Session) -> list[dict[str, Any]]:
    """The last attempt of each request, as far as it answers what this session asks of this session's engine.

    A run that is resumed with another engine, or with fewer rows, still has the answers of before."""
    keys = session.request_keys
    rows = last_attempts(session.run.home, session.run.run_id, columns=COLUMNS)
    return [row for row in rows if row["request_key"] == keys.get(row["request_id"])]


def _response(row: Mapping[str, Any]) -> Response:
    return Response(**{name: row[name] for name in Response.__slots__})


def _headline(metric: Aggregate) -> dict[str, str | float | int | None]:
    return {
        "metric": metric.name,
        "arm": metric.arm,
        "value": metric.value,
        "lo": metric.lo,
        "hi": metric.hi,
        "n": metric.n,
        "failed": metric.n_failed,
        "unit": metric.unit,
    }


def _guiding(metrics: Sequence[Aggregate], datasets: Sequence[str]) -> list[dict[str, str]]:
    rows = [dataclasses.asdict(metric) for metric in metrics]
    shown = ("dataset", "figure", "arms", "before", "after", "change")
    lines = guiding_lines(rows, datasets=datasets, short=True)
    return [{name: getattr(line, name) for name in shown} for line in lines]


def _verdict(comparison: Comparison) -> dict[str, str | float | int | None]:
    return {
        "metric": f"{comparison.dataset}.{comparison.metric}",
        "candidate_arm": comparison.candidate_arm,
        "baseline_arm": comparison.baseline_arm,
        "candidate": comparison.candidate,
        "baseline": comparison.baseline,
        "effect": comparison.effect,
        "lo": comparison.lo,
        "hi": comparison.hi,
        "p": comparison.p_adjusted,
        "n": comparison.n_pairs,
        "verdict": comparison.verdict,
    }
