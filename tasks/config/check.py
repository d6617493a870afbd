"""What must hold between the keys of a config, beyond each key by itself."""

from schemas.dataset import Dataset, MetricUse
from schemas.errors import AssayError, ConfigError, Problem
from schemas.model import Model
from tasks.config.guides import after_problems
from tasks.config.layers import Layers
from tasks.config.nearest import did_you_mean_or_list
from tasks.config.yaml_file import printable
from tasks.score import registry
from tasks.score.reasoning import NO_PARSER, parser

NO_TARGET = frozenset({"json_valid", "judge"})
"""Metrics that compare an answer with nothing, or can do without."""

NAMES_AN_OPTION = frozenset({"choice"})
"""Metrics that look for one of the options in an answer: the dataset's choices, or those of its guide."""


_MEASURES = "measures a `document`, and the dataset has a `prompt`"
_READS_ANSWERS = "reads answers, and a `document` is not answered"


def dataset_problems(dataset: Dataset, at: Layers) -> list[Problem]:
    """Faults of one dataset: metrics and their options, and the keys that its metrics and its guide rest on."""
    known = registry.metric_names()
    problems: list[Problem] = []
    for index, use in enumerate(dataset.metrics):
        here = ("metrics", index)
        if use.use not in known:
            hint = did_you_mean_or_list(use.use, known)
            problems.append(at.problem(here, f"there is no metric `{printable(use.use)}`", hint))
            continue
        problems += _option_problems(use, (*here, "options"), at)
        if use.name != use.use and use.name in known:
            message = f"`{use.name}` is the name of another metric than `{use.use}`"
            problems.append(at.problem((*here, "as"), message, "take a name that no metric has"))
        rolling = registry.metric(use.use).info.needs == "rolling"
        if rolling != (dataset.document is not None):
            problems.append(at.problem(here, f"the metric `{use.use}` {_MEASURES if rolling else _READS_ANSWERS}"))
            continue
        if rolling:
            continue
        if _lacks_choices(use.use, dataset):
            problems.append(at.problem(here, f"the metric `{use.use}` needs `choices`, which the dataset lacks"))
        if dataset.target is None and use.use not in NO_TARGET:
            problems.append(at.problem(here, f"the metric `{use.use}` needs `target`, which the dataset lacks"))
    problems += parser_problems(dataset.reasoning_parser, at)
    problems += after_problems(dataset, at)
    guide = dataset.guide
    if guide is not None and guide.kind == "choice" and guide.options is None and dataset.choices is None:
        problems.append(at.problem(("guide",), "a choice guide needs `options`, or the dataset's `choices`"))
    return problems


def parser_problems(name: str | None, at: Layers) -> list[Problem]:
    """Faults of the `reasoning_parser` of a model or a dataset."""
    if name in (None, NO_PARSER):
        return []
    try:
        parser(name)
    except ConfigError as error:
        return [at.problem(("reasoning_parser",), each.message, each.suggestion) for each in error.problems]
    return []


def _lacks_choices(metric: str, dataset: Dataset) -> bool:
    if dataset.choices is not None:
        return False
    if metric in NAMES_AN_OPTION:
        return dataset.guide is None or dataset.guide.kind != "choice"
    return registry.metric(metric).info.needs == "loglikelihood"


def _option_problems(use: MetricUse, here: tuple[str | int, ...], at: Layers) -> list[Problem]:
    try:
        registry.check_options(use.use, use.options)
    except registry.MetricError as error:
        written = error.key.split(".")
        inside = written if written[0] in use.options else []
        return [at.problem((*here, *inside), error.message, error.suggestion)]
    found = registry.metric(use.use)
    if found.ready is not None:
        try:
            found.ready(found.Options(**use.options))
        except AssayError as error:
            return [at.problem(here, str(error))]
    return []


def model_and_dataset_problems(model: Model, dataset: Dataset, at: Layers) -> list[Problem]:
    """Faults of a dataset together with the model that is to answer it."""
    if model.chat_template == "none" and dataset.said.messages is not None:
        message = "the model's `chat_template: none` takes no messages: write the prompt as `text`"
        return [at.problem(("prompt", "messages"), message)]
    return []
