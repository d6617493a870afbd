"""Answers under the metrics of their dataset, whether a run's engine gave them, its stored rows, or another program."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from schemas.dataset import MetricUse
from schemas.judge import Judgement
from schemas.metric import Aggregate, Score
from schemas.sample import Response, Sample
from tasks.score.metric import Metric
from tasks.score.registry import metric


def score_answers(
    *,
    metrics: Sequence[MetricUse],
    samples: Sequence[Sample],
    responses: Iterable[Response],
    arms: Iterable[str],
    absent: str,
    repeats: int = 0,
    judgements: Iterable[Judgement] = (),
    likelihood_arms: Sequence[str] = ("free",),
) -> list[Score]:
    """Every score of one dataset's samples: of each sample, arm and repeat.

    absent: the reason where there is no answer. repeats: how often each sample was asked, so that each of these answers
    is missed; 0 where that is not known, so that only a sample without any answer is. judgements: what judges said.

    A metric of log-likelihoods reads likelihood_arms only, needs one response for each choice (or window of a
    document), and has no repeats. The scores carry the names that the dataset gives its metrics."""
    answers: dict[tuple[str, str], dict[int, Response]] = {}
    parts: dict[tuple[str, str], dict[int, Response]] = {}
    for response in responses:
        if response.kind == "generate":
            answers.setdefault((response.sample_id, response.arm), {})[response.repeat] = response
        elif response.choice_index is not None:
            parts.setdefault((response.sample_id, response.arm), {})[response.choice_index] = response
    judged: dict[str, dict[str, Judgement]] = {}
    for judgement in judgements:
        judged.setdefault(judgement.metric, {})[judgement.request_id] = judgement
    asked = list(itertools.product(samples, arms))
    scores: list[Score] = []
    for use in metrics:
        before = len(scores)
        found = metric(use.use)
        options = found.Options(**use.options)
        if found.info.needs != "generate":
            for sample, arm in itertools.product(samples, likelihood_arms):
                given_parts = parts.get((sample.sample_id, arm), {})
                scores.append(_likelihood(found, options, sample, given_parts, absent=(arm, absent)))
            scores[before:] = _under_own_name(use, scores[before:])
            continue
        pairs: list[tuple[Sample, Response]] = []
        for sample, arm in asked:
            given = answers.get((sample.sample_id, arm), {})
            pairs += [(sample, given[repeat]) for repeat in sorted(given)]
            missed = set(range(max(repeats, 0 if given else 1))) - given.keys()
            scores += [_absent(found, sample, arm, repeat=repeat, absent=absent) for repeat in sorted(missed)]
        if found.score_judged is not None:
            said = judged.get(use.name, {})
            scores += [
                found.score_judged(
                    sample=sample, response=answer, judgement=said.get(answer.request_id), options=options
                )
                for sample, answer in pairs
            ]
        elif found.score_many is not None:
            scores += found.score_many(pairs, options=options)
        else:
            scores += [found.score(sample=sample, response=answer, options=options) for sample, answer in pairs]
        scores[before:] = _under_own_name(use, scores[before:])
    return scores


def _under_own_name(use: MetricUse, scores: list[Score]) -> list[Score]:
    if use.name == use.use:
        return scores
    return [replace(score, metric=use.name, base_metric=use.use) for score in scores]


def further_metrics(
    *, metrics: Sequence[MetricUse], dataset: str, scores: Sequence[Score], clusters: Mapping[str, str] | None
) -> list[Aggregate]:
    """What the metrics of a dataset give beside their means, such as pass@k."""
    found: list[Aggregate] = []
    for use in metrics:
        each = metric(use.use)
        if each.further is not None:
            own = [score for score in scores if (score.dataset, score.metric) == (dataset, use.name)]
            found += each.further(own, options=each.Options(**use.options), clusters=clusters)
    return found


def _likelihood(
    found: Metric, options: object, sample: Sample, responses: Mapping[int, Response], *, absent: tuple[str, str]
) -> Score:
    """absent: the arm, and why, where a part of it has no response."""
    rolling = found.info.needs == "rolling"
    expected = len(sample.windows if rolling else sample.choices)
    ordered = [responses[index] for index in range(expected) if index in responses]
    if not ordered or len(ordered) != expected:
        return _absent(found, sample, absent[0], repeat=0, absent=absent[1])
    score = found.score_document if rolling else found.score_choices
    return score(sample=sample, responses=ordered, options=options)


def _absent(found: Metric, sample: Sample, arm: str, *, repeat: int, absent: str) -> Score:
    return Score(
        dataset=sample.dataset,
        sample_id=sample.sample_id,
        arm=arm,
        repeat=repeat,
        metric=found.info.name,
        metric_version=found.info.version,
        value=None,
        reason=absent,
    )
