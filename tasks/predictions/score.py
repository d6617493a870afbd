"""Scores answers that are there already, repeats included, under metrics that read an answer or log-likelihoods."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from pydantic import ValidationError

from schemas.dataset import Dataset, MetricUse
from schemas.errors import ConfigError, Problem
from schemas.metric import Score
from schemas.sample import Response, Sample
from tasks.config.check import dataset_problems
from tasks.config.explain import shown
from tasks.config.layers import Layer, Layers
from tasks.score.metric import Metric
from tasks.score.registry import MetricError, check_options, metric


def parse_metric(text: str) -> MetricUse:
    """`exact_match`, or `exact_match:{"compare": "number"}`. Raises ConfigError: no such metric, no such option."""
    name, colon, written = text.partition(":")
    try:
        options = json.loads(written) if colon else {}
    except ValueError as broken:
        raise ConfigError.one(
            f"the options of {name} are no JSON: {broken}",
            key="--metric",
            suggestion=f'as in --metric \'{name}:{{"compare": "number"}}\'',
        ) from broken
    if not isinstance(options, dict):
        raise ConfigError.one(f"the options of {name} are {shown(options)}, not a JSON object", key="--metric")
    try:
        check_options(name, options)
        return MetricUse(use=name, options=options)
    except MetricError as error:
        raise ConfigError.one(f"{error.key}: {error.message}", key="--metric", suggestion=error.suggestion) from error
    except ValidationError as error:
        raise ConfigError.one(f"{name}: {error.errors()[0]['msg']}", key="--metric") from error


def chosen_metrics(dataset: Dataset, *, asked: Sequence[str]) -> list[MetricUse]:
    """The metrics asked for (as parse_metric reads them), else the dataset's own. Raises ConfigError for one twice, and
    for a metric or an option that is not there (any more)."""
    uses = [parse_metric(text) for text in asked] or list(dataset.metrics)
    try:
        for use in uses:
            check_options(use.use, use.options)
    except MetricError as error:
        raise ConfigError.one(
            f"metrics: {error.key}: {error.message}",
            suggestion=f"{error.suggestion or 'it has changed'}; is the plugin installed that brought it?",
        ) from error
    names = [use.use for use in uses]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ConfigError.one(f"{', '.join(twice)} stands there twice", key="--metric")
    return uses


def misfits(dataset: Dataset, uses: Sequence[MetricUse]) -> list[Problem]:
    """Why these metrics cannot be computed of this dataset: no `target`, no `choices`."""
    layers = Layers([Layer({"metrics": [use.use for use in uses]}, None)])
    found = dataset_problems(dataset.model_copy(update={"metrics": list(uses)}), layers)
    return [replace(problem, key="--metric") for problem in found if "metrics" in (problem.key or "")]


def needs(use: MetricUse) -> str:
    """What a metric reads: generate or loglikelihood."""
    return metric(use.use).info.needs


def score_answers(
    *,
    metrics: Sequence[MetricUse],
    samples: Sequence[Sample],
    responses: Iterable[Response],
    arms: Sequence[str],
    absent: str,
    repeats: int = 0,
) -> list[Score]:
    """Every score of one dataset's samples.

    absent: the reason where there is no answer. repeats: how often each sample was asked, so that each of these answers
    is missed; 0 where that is not known, so that only a sample without any answer is.

    A metric of log-likelihoods reads the arm `free` only, and needs one response for each choice."""
    answers: dict[tuple[str, str], list[Response]] = {}
    choices: dict[str, dict[int, Response]] = {}
    for response in responses:
        if response.kind == "generate":
            answers.setdefault((response.sample_id, response.arm), []).append(response)
        elif response.choice_index is not None:
            choices.setdefault(response.sample_id, {})[response.choice_index] = response
    scores: list[Score] = []
    for use in metrics:
        found = metric(use.use)
        options = found.Options(**use.options)
        for sample in samples:
            if found.info.needs == "loglikelihood":
                scores.append(_likelihood(found, options, sample, choices.get(sample.sample_id, {}), absent=absent))
                continue
            for arm in arms:
                given = {response.repeat: response for response in answers.get((sample.sample_id, arm), [])}
                for repeat in sorted({*given, *range(repeats)}) or [0]:
                    if repeat in given:
                        scores.append(found.score(sample=sample, response=given[repeat], options=options))
                    else:
                        scores.append(_absent(found, sample, arm, repeat=repeat, absent=absent))
    return scores


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
