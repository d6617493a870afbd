"""The models of judges, resolved as an experiment's own model is."""

from pathlib import Path
from typing import Any

from schemas.dataset import Dataset, MetricUse
from schemas.errors import ConfigError, Problem
from schemas.experiment import NamedModel
from schemas.model import GgufSource, Model, PathSource
from tasks.config.layers import Layer, Layers
from tasks.config.models import load_model
from tasks.score import registry

_RESOLVED = {"name", "config"}


def judge_model(model: str | dict[str, Any], *, layers: Layers | None = None) -> NamedModel:
    """The model that a judge's `model` names, its paths absolute. layers: where it was written; without them names and
    paths start from the current folder. Raises ConfigError with every problem."""
    if isinstance(model, dict) and model.keys() == _RESOLVED:
        return NamedModel.model_validate(model)
    at = layers or Layers([Layer({"model": model}, None)])
    found = load_model(model, at, {})
    if found is None:
        problems: list[Problem] = []
        Layers([layer.inside("model") for layer in at.layers]).validated(Model, model, problems)
        raise ConfigError(problems or [at.problem(("model",), "is no model")])
    _check_source(found)
    return found


def _check_source(model: NamedModel) -> None:
    from tasks.model.folder import check_model_folder  # noqa: PLC0415 - only a judge that assay runs needs these
    from tasks.model.resolve import gguf_file  # noqa: PLC0415

    source = model.config.source
    if isinstance(source, PathSource):
        check_model_folder(Path(source.path), key="model.source.path")
    elif isinstance(source, GgufSource):
        gguf_file(source)


def with_judge_models(dataset: Dataset, layers: Layers) -> Dataset:
    """The dataset with the models of its judges written out, so that the recorded config says which they were.

    Raises ConfigError with every problem."""
    problems: list[Problem] = []
    uses: list[MetricUse] = []
    for index, use in enumerate(dataset.metrics):
        model = use.options.get("model")
        if model is None or use.use not in registry.metric_names() or registry.metric(use.use).score_judged is None:
            uses.append(use)
            continue
        base = layers.layers[0]
        written = Layers([Layer(use.options, base.file, (*base.prefix, "metrics", index, "options"))])
        try:
            named = judge_model(model, layers=written)
        except ConfigError as error:
            problems += error.problems
            continue
        options = use.options | {"model": named.model_dump(mode="json", by_alias=True)}
        uses.append(use.model_copy(update={"options": options}))
    if problems:
        raise ConfigError(problems)
    return dataset.model_copy(update={"metrics": uses})
