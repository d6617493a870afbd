"""The model of an experiment: by name, by path, by hub id, or written out."""

import re
from pathlib import Path, PurePath
from typing import Any

from schemas.errors import ConfigError, Problem
from schemas.experiment import NamedModel
from schemas.model import DummySource, HubSource, Model, PathSource, RealSource
from tasks.config.check import parser_problems
from tasks.config.disk import is_dir, is_file, names_in
from tasks.config.layers import Layer, Layers
from tasks.config.locate import SUFFIXES, Place, find_config, path_from, relative_to_here
from tasks.config.nearest import did_you_mean
from tasks.config.overrides import merged
from tasks.config.yaml_file import read_yaml

_HUB_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,95}/[A-Za-z0-9][A-Za-z0-9_.-]{0,95}")


def load_model(raw: Any, experiment: Layers, changes: dict[str, Any]) -> NamedModel | None:
    """The model that an experiment asks for, its paths absolute. None where `raw` is no model at all.

    changes: what the command line changes of a model that the experiment names.
    Raises ConfigError with every problem.
    """
    if isinstance(raw, dict):
        ignored: list[Problem] = []  # the experiment's own validation has reported them
        layers = Layers([layer.inside("model") for layer in experiment.layers])
        model = layers.validated(Model, raw, ignored)
        return None if model is None else _named(None, model, layers)
    if not isinstance(raw, str):
        return None
    data, name, layers = _named_data(raw, experiment, changes)
    problems: list[Problem] = []
    model = layers.validated(Model, merged(data, changes), problems)
    if model is None:
        raise ConfigError(problems)
    return _named(name, model, layers)


def model_place(raw: Any, experiment: Layers, changes: dict[str, Any], keypath: tuple[str, ...]) -> Place:
    """Where a user finds this key of the model that `load_model` gives for the same arguments.

    A model that the experiment names by its folder or hub id has no keys of its own: its place is that name's."""
    if isinstance(raw, dict):
        return Layers([layer.inside("model") for layer in experiment.layers]).place(keypath)
    if "/" in raw and not raw.endswith(SUFFIXES):
        return experiment.place(("model",))
    return _named_data(raw, experiment, changes)[2].place(keypath)


def _named_data(raw: str, experiment: Layers, changes: dict[str, Any]) -> tuple[dict[str, Any], str, Layers]:
    """The data of a model that is given by name, path or hub id, its name, and where its keys were written."""
    here = ("model",)
    at = experiment.place(here)
    base = experiment.origin(here).base
    command_line = Layer(changes or None, None, here)
    if "/" in raw and not raw.endswith(SUFFIXES):
        data, name = _folder_or_hub(raw, base, at)
        return data, name, Layers([command_line, Layer(data, experiment.origin(here).file, here)])
    file = read_yaml(find_config("model", raw, base=base, beside=experiment.home, at=at))
    return file.data, file.path.stem, Layers([command_line, Layer(file.data, file)])


def _folder_or_hub(reference: str, base: Path, at: Place) -> tuple[dict[str, Any], str]:
    folder = path_from(reference, base=base, at=at)
    if is_dir(folder):
        return {"source": {"kind": "path", "path": str(folder)}}, folder.name
    if is_file(folder):
        raise at.error(f"{relative_to_here(folder)} is a file: a model is a folder, a .yaml file or a name")
    if _HUB_ID.fullmatch(reference):
        return {"source": {"kind": "hf", "id": reference}}, reference
    siblings = [name for name in names_in(folder.parent) if is_dir(folder.parent / name)]
    raise at.error(f"there is no folder {relative_to_here(folder)}", did_you_mean(folder.name, siblings))


def _named(name: str | None, model: Model, layers: Layers) -> NamedModel:
    if problems := parser_problems(model.reasoning_parser, layers):
        raise ConfigError(problems)
    source = model.source
    if isinstance(source, DummySource):
        _, tokenizer = _found(source.tokenizer, ("source", "tokenizer"), layers)
        own_name, source = "dummy", source.model_copy(update={"tokenizer": tokenizer})
    else:
        own_name, source = _found(source, ("source",), layers)
    template = model.chat_template
    if template not in ("model", "none"):
        template = _absolute(template, ("chat_template",), layers)
        if not is_file(Path(template)):
            words = ["model", "none"]
            missing = relative_to_here(Path(template))
            message = f"must be `model`, `none` or the path of a Jinja file; there is no file {missing}"
            raise layers.place(("chat_template",)).error(message, did_you_mean(model.chat_template, words))
    return NamedModel(
        name=own_name if name is None else name,
        config=model.model_copy(update={"source": source, "chat_template": template}),
    )


def _found(source: RealSource, key: tuple[str, ...], layers: Layers) -> tuple[str, RealSource]:
    """What the source would be called, and the source with its paths absolute."""
    if isinstance(source, PathSource):
        path = _absolute(source.path, (*key, "path"), layers)
        return Path(path).name, source.model_copy(update={"path": path})
    if isinstance(source, HubSource):
        if _HUB_ID.fullmatch(source.id) is None:
            raise layers.place((*key, "id")).error("must be a hub id, as in organisation/model")
        return source.id, source
    if source.package is None:
        absolute = _absolute(source.file, (*key, "file"), layers)
        return PurePath(source.file).stem, source.model_copy(update={"file": absolute})
    if PurePath(source.file).is_absolute() or ".." in PurePath(source.file).parts:
        raise layers.place((*key, "file")).error("must be a name inside the package, without `..`")
    return PurePath(source.file).stem, source


def _absolute(path: str, keypath: tuple[str, ...], layers: Layers) -> str:
    return str(path_from(path, base=layers.origin(keypath).base, at=layers.place(keypath)))
