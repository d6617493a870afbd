"""The metrics that are asked for of answers that are there already."""

import json
from collections.abc import Sequence
from dataclasses import replace

from pydantic import ValidationError

from schemas.dataset import Dataset, MetricUse
from schemas.errors import ConfigError, Problem
from tasks.config.check import dataset_problems
from tasks.config.explain import shown
from tasks.config.layers import Layer, Layers
from tasks.score.registry import MetricError, check_options, metric


def parse_metric(text: str) -> MetricUse:
    """`exact_match`, `exact_match:{"compare": "number"}`, or with a name of its own `strict=exact_match:{…}`. Raises
    ConfigError: no such metric, no such option."""
    named, colon, written = text.partition(":")
    own, equals, name = named.rpartition("=")
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
        return MetricUse(use=name, as_=own if equals else None, options=options)
    except MetricError as error:
        raise ConfigError.one(f"{error.key}: {error.message}", key="--metric", suggestion=error.suggestion) from error
    except ValidationError as error:
        raise ConfigError.one(f"{name}: {error.errors()[0]['msg']}", key="--metric") from error


def chosen_metrics(dataset: Dataset, *, asked: Sequence[str]) -> list[MetricUse]:
    """The metrics asked for (by the dataset's own name for one, or as parse_metric reads them), else the dataset's own.
    Raises ConfigError for one twice, and for a metric or an option that is not there (any more)."""
    own = {use.name: use for use in dataset.metrics if use.as_ is not None}
    uses = [own[text] if text in own else parse_metric(text) for text in asked] or list(dataset.metrics)
    try:
        for use in uses:
            check_options(use.use, use.options)
    except MetricError as error:
        raise ConfigError.one(
            f"metrics: {error.key}: {error.message}",
            suggestion=f"{error.suggestion or 'it has changed'}; is the plugin installed that brought it?",
        ) from error
    names = [use.name for use in uses]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ConfigError.one(f"{', '.join(twice)} stands there twice", key="--metric")
    return uses


def misfits(dataset: Dataset, uses: Sequence[MetricUse]) -> list[Problem]:
    """Why these metrics cannot be computed of this dataset: no `target`, no `choices`, no `document`."""
    layers = Layers([Layer({"metrics": [use.use for use in uses]}, None)])
    found = dataset_problems(dataset.model_copy(update={"metrics": list(uses)}), layers)
    return [replace(problem, key="--metric") for problem in found if "metrics" in (problem.key or "")]


def needs(use: MetricUse) -> str:
    """What a metric reads: generate, loglikelihood or rolling."""
    return metric(use.use).info.needs


def request_kind(use: MetricUse) -> str:
    """The kind of the requests that it reads."""
    return "generate" if needs(use) == "generate" else "loglikelihood"
