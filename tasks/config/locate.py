"""Finds the file that a name in a config stands for.

A name is looked for beside the file that names it, then in the project's `configs/`, then in the configs that are
packaged with assay, and a dataset's at last in the installed plugins that bring some. A path (it contains a separator,
or ends with .yaml) is taken relative to the file that names it.
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import configs
from schemas.errors import AssayError, ConfigError, Problem
from tasks.config.disk import is_file, names_in
from tasks.config.explain import NAME_RULE, shown
from tasks.config.nearest import did_you_mean_or_list
from tasks.config.yaml_file import missing_file, read_yaml
from tasks.plugins import dataset_folder, plugins

Kind = Literal["experiment", "dataset", "suite", "model", "engine", "sweep", "tuning", "corpus"]
SUFFIXES = (".yaml", ".yml")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_PROJECT = Path("configs")


@dataclass(frozen=True, kw_only=True)
class NamedFile:
    """One config file that a name stands for. `description` is its own `description` key."""

    name: str
    path: Path
    description: str | None


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where in the user's input a name stands: what an error about it points at."""

    file: Path | None = None
    line: int | None = None
    key: str | None = None

    def error(self, message: str, suggestion: str | None = None) -> ConfigError:
        """The error for what stands here."""
        return ConfigError.one(message, file=self.file, line=self.line, key=self.key, suggestion=suggestion)


def relative_to_here(path: Path) -> Path:
    """The path as messages show it: from the working folder where it lies inside, else absolute."""
    absolute = absolute_path(path)
    here = Path.cwd()
    return absolute.relative_to(here) if absolute.is_relative_to(here) else absolute


def absolute_path(path: Path) -> Path:
    """Absolute and without `..`, symbolic links left as they are."""
    return Path(os.path.abspath(path.expanduser()))  # noqa: PTH100 - Path.resolve() would follow links


def is_path(reference: str) -> bool:
    """Whether a reference is written as a path rather than as a name."""
    return "/" in reference or "\\" in reference or reference.endswith(SUFFIXES)


def is_name(reference: str) -> bool:
    """Whether a reference can be a name: it may become part of a path, so no separators and no leading dot."""
    return _NAME.fullmatch(reference) is not None


def path_from(reference: str, *, base: Path, at: Place) -> Path:
    """The path that a config writes, taken from the folder `base`. Raises ConfigError for what no path can be."""
    if not reference or any(character < " " or "\ud800" <= character <= "\udfff" for character in reference):
        raise at.error(f"must be a path, not {shown(reference)}")
    try:
        return absolute_path(base / Path(reference).expanduser())
    except RuntimeError as error:  # `~name` of a user that does not exist
        raise at.error(f"no such folder: {error}") from error


def find_config(
    kind: Kind, reference: str, *, base: Path, beside: Path | None, at: Place, not_itself: Path | None = None
) -> Path:
    """The YAML file of a model, dataset, engine or experiment.

    base: the folder that a path starts from. beside: the folder of the file that names it (None for an experiment,
    which no file names). not_itself: that file, which no name inside it stands for (so that an engine file `vllm.yaml`
    can extend the packaged `vllm`).
    Raises ConfigError with the nearest name and where was looked.
    """
    if is_path(reference):
        path = path_from(reference, base=base, at=at)
        if path.suffix not in SUFFIXES:
            raise at.error(f"must be a name or the path of a .yaml file, not {shown(reference)}")
        if not is_file(path):
            raise at.error(*_missing(path))
        return relative_to_here(path)
    if not is_name(reference):
        raise at.error(f"must be {NAME_RULE}, not {shown(reference)}")
    folders = _folders(kind, beside)
    itself = None if not_itself is None else absolute_path(not_itself)
    for folder in folders.values():
        for suffix in SUFFIXES:
            path = folder / f"{reference}{suffix}"
            if is_file(path) and absolute_path(path) != itself:
                return relative_to_here(path)
    added = _plugin_folders(kind)
    in_plugins = _in_plugins(added, reference)
    if len(in_plugins) > 1:
        places = " and ".join(str(path) for path in in_plugins)
        raise at.error(f"two plugins bring a {kind} `{reference}`: {places}", "write the path of the one you mean")
    if in_plugins:
        return relative_to_here(in_plugins[0])
    folders |= added
    known = {path.stem for place, folder in folders.items() if place != "beside the file" for path in _yamls(folder)}
    *first, last = folders
    looked = f"{', '.join(first)} or {last}"
    raise at.error(f"there is no {kind} `{reference}` {looked}", did_you_mean_or_list(reference, known))


def _missing(path: Path) -> tuple[str, str | None]:
    problem = missing_file(relative_to_here(path)).problems[0]
    return f"there is no file {problem.file}", problem.suggestion


def _folders(kind: Kind, beside: Path | None) -> dict[str, Path]:
    """Where a name is looked for, in order, each under the words that a message has for it."""
    folders = {} if beside is None else {"beside the file": beside}
    plural = "corpora" if kind == "corpus" else f"{kind}s"
    folders[f"in {_PROJECT / plural}"] = _PROJECT / plural
    folders[f"in assay's own {plural}"] = packaged_configs() / plural
    return folders


def _plugin_folders(kind: Kind) -> dict[str, Path]:
    """The folders that installed plugins bring, under the words that a message has for them."""
    if kind != "dataset":
        return {}
    found = {}
    for plugin in plugins("assay.datasets"):
        folder = dataset_folder(plugin)
        lost = "" if folder.is_dir() else ", whose folder is not there"
        found[f"in {plugin.place}{lost}"] = folder
    return found


def _in_plugins(folders: dict[str, Path], name: str) -> list[Path]:
    paths = {folder / f"{name}{suffix}" for folder in folders.values() for suffix in SUFFIXES}
    return sorted(path for path in paths if is_file(path))


def packaged_configs() -> Path:
    """The folder of the configs that come with assay."""
    return Path(configs.__path__[0])


def _yamls(folder: Path) -> list[Path]:
    paths = [folder / name for name in names_in(folder)]
    return [path for path in paths if path.suffix in SUFFIXES and is_file(path)]


def known_config_files(kind: Kind) -> list[Path]:
    """Every file that a name of this kind can stand for here: the project's own, the packaged ones, those of plugins.

    An earlier one hides a later one of the same name.
    """
    found: dict[str, Path] = {}
    for folder in (_folders(kind, None) | _plugin_folders(kind)).values():
        for path in _yamls(folder):
            found.setdefault(path.stem, relative_to_here(path))
    return [found[name] for name in sorted(found)]


def list_names(kind: Kind) -> list[NamedFile]:
    """The names of this kind that can be used here.

    A file that cannot be read is listed too, with its fault as its description.
    """
    if kind not in get_args(Kind):
        raise ConfigError([Problem(message=f"{kind!r} is no kind of config", suggestion=", ".join(get_args(Kind)))])
    return [NamedFile(name=path.stem, path=path, description=_description(path)) for path in known_config_files(kind)]


def _description(path: Path) -> str | None:
    try:
        text = read_yaml(path).data.get("description")
    except AssayError as error:
        return f"cannot be read: {str(error).splitlines()[0]}"
    return text if isinstance(text, str) else None
