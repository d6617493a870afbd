"""The scoring step: every answer under every metric of its dataset, aggregates, and the arms against each other."""

import datetime
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from schemas.dataset import NamedDataset
from schemas.metric import Aggregate, Comparison, Score
from schemas.sample import Response, Sample
from schemas.summary import DatasetsSummary, ScoredSummary
from tasks.record.answers import last_attempts
from tasks.record.rows import comparison_rows, metric_rows, score_rows
from tasks.record.timing import telemetry_metrics, timing_metrics
from tasks.score.aggregate import aggregate, aggregate_form
from tasks.score.alarms import alarms
from tasks.score.groups import group_means
from tasks.score.metric import Metric
from tasks.score.paired_arms import compare_arms
from tasks.score.registry import metric
from tasks.session import Session
from warehouse.parquet import read_rows

MARGIN = 0.02
"""Differences between free and guided within it count as the same."""

_COLUMNS = [
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
]


def score_run(session: Session, datasets: DatasetsSummary) -> ScoredSummary:
    """Scores what was answered; writes scores, metrics and comparisons. Runs from what is on disk alone."""
    rows = _answers(session)
    responses = [_response(row) for row in rows]
    named = {dataset.name: dataset for dataset in session.run.experiment.datasets}
    scores: list[Score] = []
    metrics: list[Aggregate] = []
    clusters: dict[str, str] = {}
    for summary in datasets.datasets:
        samples = [sample for sample in session.samples() if sample.dataset == summary.dataset]
        own = [response for response in responses if response.dataset == summary.dataset]
        scores += score_dataset(dataset=named[summary.dataset], samples=samples, responses=own, arms=summary.arms)
        guide = named[summary.dataset].config.guide
        metrics += aggregate_form(dataset=summary.dataset, responses=own, kind=None if guide is None else guide.kind)
        clusters |= {sample.sample_id: sample.cluster for sample in samples if sample.cluster is not None}
    means = aggregate(scores=scores, clusters=clusters or None)
    names = [summary.dataset for summary in datasets.datasets]
    for summary in datasets.datasets:
        means += further_metrics(dataset=named[summary.dataset], scores=scores, clusters=clusters or None)
    metrics = means + group_means(groups=session.run.experiment.groups, metrics=means, datasets=names) + metrics
    comparisons = (
        compare_arms(scores=scores, margin=MARGIN, clusters=clusters or None)
        if {"free", "guided"} <= set(session.run.experiment.arms)
        else []
    )
    metrics += timing_metrics(rows, resumed=session.run.resumed)
    metrics += telemetry_metrics(read_rows(session.run.home, "telemetry", session.run.run_id))
    now = datetime.datetime.now(datetime.UTC)
    session.store.write("scores", score_rows(scores, scored_at=now))
    session.store.write("metrics", metric_rows(metrics))
    session.store.write("comparisons", comparison_rows(comparisons, run_id=session.run.run_id, compared_at=now))
    return ScoredSummary(
        scores=len(scores),
        headline=[_headline(metric) for metric in metrics if metric.scope in ("dataset", "group")],
        verdicts=[_verdict(comparison) for comparison in comparisons],
        warnings=alarms(means),
    )


def score_dataset(
    *, dataset: NamedDataset, samples: Sequence[Sample], responses: Sequence[Response], arms: Iterable[str]
) -> list[Score]:
    """Every score of one dataset: of each sample, arm and repeat. One without an answer gets a score without a value,
    and why. What is scored by log-likelihoods is asked once, and has no repeats."""
    answers = {(r.sample_id, r.arm, r.repeat): r for r in responses if r.kind == "generate"}
    choices: dict[str, dict[int, Response]] = {}
    for response in responses:
        if response.kind == "loglikelihood" and response.choice_index is not None:
            choices.setdefault(response.sample_id, {})[response.choice_index] = response
    asked = list(itertools.product(arms, range(dataset.sampling.repeats)))
    scores: list[Score] = []
    for use in dataset.config.metrics:
        found = metric(use.use)
        options = found.Options(**use.options)
        if found.info.needs == "loglikelihood":
            scores += [_from_choices(found, options, each, choices.get(each.sample_id, {})) for each in samples]
            continue
        pairs = []
        for sample, (arm, repeat) in itertools.product(samples, asked):
            answer = answers.get((sample.sample_id, arm, repeat))
            if answer is None:
                scores.append(_unanswered(found, sample, arm, repeat))
            else:
                pairs.append((sample, answer))
        if found.score_many is not None:
            scores += found.score_many(pairs, options=options)
        else:
            scores += [found.score(sample=sample, response=answer, options=options) for sample, answer in pairs]
    return scores


def further_metrics(
    *, dataset: NamedDataset, scores: Sequence[Score], clusters: Mapping[str, str] | None
) -> list[Aggregate]:
    """What the metrics of a dataset give beside their means, such as pass@k."""
    found: list[Aggregate] = []
    for use in dataset.config.metrics:
        each = metric(use.use)
        if each.further is not None:
            own = [score for score in scores if (score.dataset, score.metric) == (dataset.name, use.use)]
            found += each.further(own, options=each.Options(**use.options), clusters=clusters)
    return found


def _from_choices(found: Metric, options: Any, sample: Sample, responses: Mapping[int, Response]) -> Score:
    ordered = [responses[index] for index in range(len(sample.choices)) if index in responses]
    if not ordered or len(ordered) != len(sample.choices):
        return _unanswered(found, sample, "free", repeat=0)
    return found.score_choices(sample=sample, responses=ordered, options=options)


def _unanswered(found: Metric, sample: Sample, arm: str, repeat: int) -> Score:
    return Score(
        dataset=sample.dataset,
        sample_id=sample.sample_id,
        arm=arm,
        repeat=repeat,
        metric=found.info.name,
        metric_version=found.info.version,
        value=None,
        reason="not answered: the run was stopped before",
    )


def _answers(session: Session) -> list[dict[str, Any]]:
    """The last attempt of each request, as far as it answers what this session asks of this session's engine.

    A run that is resumed with another engine, or with fewer rows, still has the answers of before."""
    keys = session.request_keys
    rows = last_attempts(session.run.home, session.run.run_id, columns=_COLUMNS)
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


def _verdict(comparison: Comparison) -> dict[str, str | float | int | None]:
    return {
        "metric": f"{comparison.dataset}.{comparison.metric}",
        "free": comparison.baseline,
        "guided": comparison.candidate,
        "effect": comparison.effect,
        "lo": comparison.lo,
        "hi": comparison.hi,
        "p": comparison.p_adjusted,
        "n": comparison.n_pairs,
        "verdict": comparison.verdict,
    }
