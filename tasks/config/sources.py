"""The paths of a dataset made absolute, and the rows that an experiment gives in place of its own."""

from pathlib import Path
from typing import Any

from schemas.dataset import Dataset
from schemas.experiment import DatasetUse
from schemas.source import DatasetSource, HubDatasetSource, JsonlSource, NeedleSource
from tasks.config.disk import is_dir, is_file, is_pattern, names_in
from tasks.config.guides import whole_guide
from tasks.config.layers import Layers
from tasks.config.locate import path_from, relative_to_here
from tasks.config.nearest import did_you_mean

KeyPath = tuple[str | int, ...]


def absolute_source(source: DatasetSource, *, base: Path, keypath: KeyPath, layers: Layers) -> DatasetSource:
    """The source with its paths from the folder `base`. keypath: of the source. Raises ConfigError for no path."""

    def whole(text: str, *keys: str) -> str:
        return str(path_from(text, base=base, at=layers.place((*keypath, *keys))))

    if isinstance(source, NeedleSource):
        return source
    if isinstance(source, HubDatasetSource):
        return source if source.folder is None else source.model_copy(update={"folder": whole(source.folder, "folder")})
    changes: dict[str, Any] = {"path": whole(source.path, "path")}
    if isinstance(source, JsonlSource) and source.join is not None:
        changes["join"] = source.join.model_copy(update={"path": whole(source.join.path, "join", "path")})
    return source.model_copy(update=changes)


def has_relative_path(source: DatasetSource | None) -> bool:
    """Whether a source reads files whose place is not given whole."""
    path = getattr(source, "path", None)
    return path is not None and not Path(path).expanduser().is_absolute()


def with_absolute_paths(dataset: Dataset, layers: Layers, *, data: Path | None = None) -> Dataset:
    """The dataset with its paths made whole. data: the folder that its rows' paths start from, in place of the YAML
    file's own. Raises ConfigError for a guide's file that is not there."""
    home = layers.layers[0].base
    base = home if data is None else data
    source = absolute_source(dataset.source, base=base, keypath=("source",), layers=layers)
    changes: dict[str, Any] = {"source": source}
    if dataset.few_shot.source is not None:
        shots = absolute_source(dataset.few_shot.source, base=base, keypath=("few_shot", "source"), layers=layers)
        changes["few_shot"] = dataset.few_shot.model_copy(update={"source": shots})
    if dataset.guide is not None:
        changes["guide"] = whole_guide(dataset.guide, layers, home=home)
    return dataset.model_copy(update=changes)


def with_given_rows(dataset: Dataset, use: DatasetUse, *, here: KeyPath, experiment: Layers, alone: bool) -> Dataset:
    """The dataset with the rows that an experiment gives in place of its own.

    here: the entry's key path in the experiment, whose file's folder the paths start from. alone: it is the only
    dataset that the entry stands for, so that a folder without its subset is a copy of that subset."""
    changes: dict[str, Any] = {}
    if use.folder is not None:
        folder = given_folder(use.folder, here=here, experiment=experiment)
        changes["source"] = _in_folder(dataset.source, folder, alone=alone)
        shots = dataset.few_shot.source
        if shots is not None:
            changes["few_shot"] = dataset.few_shot.model_copy(update={"source": _in_folder(shots, folder, alone=alone)})
    if use.source is not None:
        changes["source"] = _given(use.source, (*here, "source"), experiment)
    if use.few_shot_source is not None:
        shots = _given(use.few_shot_source, (*here, "few_shot_source"), experiment)
        changes["few_shot"] = dataset.few_shot.model_copy(update={"source": shots})
    return dataset.model_copy(update=changes)


def given_folder(folder: str, *, here: KeyPath, experiment: Layers) -> Path:
    """The folder that an entry gives. Raises ConfigError, at the entry's line, for one that is not there."""
    at = experiment.place((*here, "folder"))
    found = path_from(folder, base=experiment.origin((*here, "folder")).base, at=at)
    if not is_dir(found):
        raise at.error(
            f"there is no folder {relative_to_here(found)}", did_you_mean(found.name, names_in(found.parent))
        )
    return found


def _given(source: DatasetSource, keypath: KeyPath, experiment: Layers) -> DatasetSource:
    """Raises ConfigError at the experiment's own line for what is not there: looked for later, it would be told of the
    dataset's file, which names other rows."""
    base = experiment.origin((*keypath, "kind")).base
    given = absolute_source(source, base=base, keypath=keypath, layers=experiment)
    path = getattr(given, "path", None)
    if path is not None and not is_pattern(path) and not is_file(Path(path)) and not is_dir(Path(path)):
        hint = did_you_mean(Path(path).name, names_in(Path(path).parent))
        raise experiment.place((*keypath, "path")).error(f"there is no file {relative_to_here(Path(path))}", hint)
    return given


def _in_folder(source: DatasetSource, folder: Path, *, alone: bool) -> DatasetSource:
    if not isinstance(source, HubDatasetSource):
        return source
    changes: dict[str, Any] = {"folder": str(folder)}
    if alone and source.subset is not None and not (folder / source.subset).is_dir():
        changes["subset"] = None
    return source.model_copy(update=changes)
