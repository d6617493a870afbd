"""Answers under the metrics of their dataset, whether a run's engine gave them, its stored rows, or another program."""

import itertools
from collections.abc import Iterable, Mapping, Sequence

from schemas.dataset import MetricUse
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
) -> list[Score]:
    """Every score of one dataset's samples: of each sample, arm and repeat.

    absent: the reason where there is no answer. repeats: how often each sample was asked, so that each of these answers
    is missed; 0 where that is not known, so that only a sample without any answer is.

    A metric of log-likelihoods reads the arm `free` only, needs one response for each choice, and has no repeats."""
    answers: dict[tuple[str, str], dict[int, Response]] = {}
    choices: dict[str, dict[int, Response]] = {}
    for response in responses:
        if response.kind == "generate":
            answers.setdefault((response.sample_id, response.arm), {})[response.repeat] = response
        elif response.choice_index is not None:
            choices.setdefault(response.sample_id, {})[response.choice_index] = response
    asked = list(itertools.product(samples, arms))
    scores: list[Score] = []
    for use in metrics:
        found = metric(use.use)
        options = found.Options(**use.options)
        if found.info.needs == "loglikelihood":
            for sample in samples:
                scores.append(_likelihood(found, options, sample, choices.get(sample.sample_id, {}), absent=absent))
            continue
        pairs: list[tuple[Sample, Response]] = []
        for sample, arm in asked:
            given = answers.get((sample.sample_id, arm), {})
            pairs += [(sample, given[repeat]) for repeat in sorted(given)]
            missed = set(range(max(repeats, 0 if given else 1))) - given.keys()
            scores += [_absent(found, sample, arm, repeat=repeat, absent=absent) for repeat in sorted(missed)]
        if found.score_many is not None:
            scores += found.score_many(pairs, options=options)
        else:
            scores += [found.score(sample=sample, response=answer, options=options) for sample, answer in pairs]
    return scores


def further_metrics(
    *, metrics: Sequence[MetricUse], dataset: str, scores: Sequence[Score], clusters: Mapping[str, str] | None
) -> list[Aggregate]:
    """What the metrics of a dataset give beside their means, such as pass@k."""
    found: list[Aggregate] = []
    for use in metrics:
        each = metric(use.use)
        if each.further is not None:
            own = [score for score in scores if (score.dataset, score.metric) == (dataset, use.use)]
            found += each.further(own, options=each.Options(**use.options), clusters=clusters)
    return found


def _likelihood(
    found: Metric, options: object, sample: Sample, responses: Mapping[int, Response], *, absent: str
) -> Score:
    ordered = [responses[index] for index in range(len(sample.choices)) if index in responses]
    if not ordered or len(ordered) != len(sample.choices):
        return _absent(found, sample, "free", repeat=0, absent=absent)
    return found.score_choices(sample=sample, responses=ordered, options=options)


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
