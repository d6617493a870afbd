"""The datasets of an experiment: by name or by path, with what the experiment changes of them."""

from pathlib import Path
from typing import Any

from schemas.dataset import Dataset, DatasetSource, HubDatasetSource, NamedDataset
from schemas.engine import Sampling
from schemas.errors import ConfigError, Problem
from schemas.experiment import DatasetUse
from schemas.model import Model
from tasks.config.check import dataset_problems, model_and_dataset_problems
from tasks.config.disk import is_file, names_in
from tasks.config.explain import NAME_RULE
from tasks.config.layers import Layer, Layers
from tasks.config.locate import (
    Place,
    absolute_path,
    find_config,
    is_name,
    packaged_configs,
    path_from,
    relative_to_here,
)
from tasks.config.nearest import did_you_mean
from tasks.config.yaml_file import read_yaml


class Datasets:
    """The datasets of one experiment, each read once."""

    def __init__(self, experiment: Layers) -> None:
        self._experiment = experiment
        self._loaded: dict[str, tuple[Path, Dataset]] = {}

    def load(self, entries: Any, model: Model | None) -> None:
        """Reads and checks every dataset that `entries` (the raw value of `datasets`) uses.

        model: what is to answer them; None where it could not be read itself.
        Raises ConfigError with the problems of all of them.
        """
        problems: list[Problem] = []
        names: dict[str, str] = {}
        for index, entry in enumerate(entries if isinstance(entries, list) else []):
            use = entry.get("use") if isinstance(entry, dict) else entry
            here = ("datasets", index, "use") if isinstance(entry, dict) else ("datasets", index)
            if not isinstance(use, str) or use in names.values():
                continue  # the experiment's own validation has reported it
            try:
                path = self._load(use, here, model)
            except ConfigError as error:
                problems += error.problems
                continue
            if path.stem in names:
                message = f"`{use}` and `{names[path.stem]}` are both named `{path.stem}`: rename one of the files"
                problems.append(self._experiment.problem(here, message))
            names.setdefault(path.stem, use)
        if problems:
            raise ConfigError(problems)

    def named(self, uses: list[str | DatasetUse], *, sampling: Sampling, limit: int | None) -> list[NamedDataset]:
        """The datasets as the run uses them, complete. Only after `load` found no fault."""
        return [self._named(use, sampling, limit) for use in uses]

    def _named(self, entry: str | DatasetUse, sampling: Sampling, limit: int | None) -> NamedDataset:
        use = DatasetUse(use=entry) if isinstance(entry, str) else entry
        path, dataset = self._loaded[use.use]
        own_limit = dataset.limit if use.limit is None else use.limit
        limits = [number for number in (own_limit, limit) if number is not None]
        max_tokens = dataset.max_tokens if use.max_tokens is None else use.max_tokens
        return NamedDataset(
            name=path.stem,
            config=dataset.model_copy(update={"limit": min(limits) if limits else None, "max_tokens": max_tokens}),
            sampling=sampling.model_copy(
                update={
                    "max_tokens": sampling.max_tokens if max_tokens is None else max_tokens,
                    "stop": dataset.stop or sampling.stop,
                }
            ),
            path=str(absolute_path(path)),
        )

    def _load(self, use: str, here: tuple[str | int, ...], model: Model | None) -> Path:
        at = self._experiment.place(here)
        origin = self._experiment.origin(here)
        itself = None if origin.file is None else origin.file.path
        path = find_config("dataset", use, base=origin.base, beside=self._experiment.home, at=at, not_itself=itself)
        if not is_name(path.stem):
            raise at.error(f"the dataset's file must have {NAME_RULE}, not `{path.name}`")
        file = read_yaml(path)
        layers = Layers([Layer(file.data, file)])
        problems: list[Problem] = []
        dataset = layers.validated(Dataset, file.data, problems)
        if dataset is None:
            raise ConfigError(problems)
        problems += dataset_problems(dataset, layers)
        if model is not None:
            problems += model_and_dataset_problems(model, dataset, layers)
        try:
            dataset = _with_absolute_paths(dataset, layers)
        except ConfigError as error:
            problems += error.problems
        if problems:
            raise ConfigError(problems)
        self._loaded[use] = (path, dataset)
        return path


def _with_absolute_paths(dataset: Dataset, layers: Layers) -> Dataset:
    changes: dict[str, Any] = {"source": _absolute_source(dataset.source, ("source", "path"), layers)}
    if dataset.few_shot.source is not None:
        source = _absolute_source(dataset.few_shot.source, ("few_shot", "source", "path"), layers)
        changes["few_shot"] = dataset.few_shot.model_copy(update={"source": source})
    if dataset.guide is not None and isinstance(dataset.guide.schema_, str):
        place = layers.place(("guide", "schema"))
        schema = _schema_file(dataset.guide.schema_, layers.layers[0].base, place)
        changes["guide"] = dataset.guide.model_copy(update={"schema_": str(schema)})
    return dataset.model_copy(update=changes)


def _absolute_source(source: DatasetSource, keypath: tuple[str, ...], layers: Layers) -> DatasetSource:
    if isinstance(source, HubDatasetSource):
        return source
    path = path_from(source.path, base=layers.layers[0].base, at=layers.place(keypath))
    return source.model_copy(update={"path": str(path)})


def _schema_file(reference: str, base: Path, at: Place) -> Path:
    """A schema's file: beside the dataset, else in the folder above it (`configs`), else in assay's own configs."""
    folders = [base, base / "..", packaged_configs()]
    paths = list(dict.fromkeys(path_from(reference, base=folder, at=at) for folder in folders))
    for path in paths:
        if is_file(path):
            return path
    hint = did_you_mean(paths[0].name, names_in(paths[0].parent))
    raise at.error(f"there is no file {relative_to_here(paths[0])}", hint)
