"""What installed packages add to assay: entry points, found in the packages' metadata and imported when they are used.

Looking costs no import of theirs. Nothing in a config names a package: it is the user who installs one, and an
installed plugin is code that assay runs.
"""

import importlib.metadata
import importlib.util
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from schemas.errors import ConfigError

Group = Literal["assay.metrics", "assay.datasets", "assay.parsers"]


@dataclass(frozen=True, kw_only=True)
class Plugin:
    """One entry point. value: as the package declares it (`module:name`); source: the distribution and its version."""

    name: str
    value: str
    source: str
    entry: importlib.metadata.EntryPoint

    @property
    def place(self) -> str:
        """Where it lies, for messages: `acme-metrics 1.0 (acme.metrics:METRIC)`."""
        return f"{self.source} ({self.value})"


@cache
def plugins(group: Group) -> tuple[Plugin, ...]:
    """The entry points of a group, in the order of their names. Several may have the same name."""
    found = [_plugin(entry) for entry in importlib.metadata.entry_points(group=group)]
    return tuple(sorted(found, key=lambda plugin: (plugin.name, plugin.source)))


def _plugin(entry: importlib.metadata.EntryPoint) -> Plugin:
    distribution = entry.dist
    source = "a package without a name" if distribution is None else f"{distribution.name} {distribution.version}"
    return Plugin(name=entry.name, value=entry.value, source=source, entry=entry)


def plugins_named(group: Group, name: str) -> list[Plugin]:
    """Those of this name: none, one, or several that the caller must refuse."""
    return [plugin for plugin in plugins(group) if plugin.name == name]


def load(plugin: Plugin, *, what: str) -> Any:
    """The object behind an entry point. what: the word for it in messages, as in `metric`.

    Raises ConfigError, with the distribution's name, for whatever its import raises: that is the plugin's own code."""
    try:
        return plugin.entry.load()
    except Exception as error:
        raise ConfigError.one(
            f"the {what} `{plugin.name}` of the plugin {plugin.place} cannot be imported: "
            f"{type(error).__name__}: {error}",
            suggestion=_cure(plugin),
        ) from error


def unfit(plugin: Plugin, *, what: str, reason: str) -> ConfigError:
    """The error for an object that is not what the entry point's group promises."""
    return ConfigError.one(
        f"the {what} `{plugin.name}` of the plugin {plugin.place} cannot be used: {reason}", suggestion=_cure(plugin)
    )


def _cure(plugin: Plugin) -> str:
    name = plugin.source.rsplit(" ", 1)[0]
    return f"install a version of {name} that works, or take it out: pip uninstall {name}"


def twice(name: str, places: list[str], *, what: str) -> ConfigError:
    """The error for a name that is there more than once. places: every one of them."""
    return ConfigError.one(
        f"the {what} `{name}` is there {len(places)} times: in {' and in '.join(places)}",
        suggestion="rename the plugin's, or uninstall it",
    )


def dataset_folder(plugin: Plugin) -> Path:
    """The folder of YAML files that an entry point of `assay.datasets` names: a package, or a folder inside of one.

    It is found without an import of the package. It may not exist: a package may promise more than it has."""
    first, *rest = plugin.entry.module.split(".")
    try:
        spec = importlib.util.find_spec(first)
    except (ImportError, ValueError):
        spec = None
    found = [] if spec is None else list(spec.submodule_search_locations or [])
    folders = [Path(folder, *rest) for folder in found]
    if not folders and plugin.entry.dist is not None:
        folders = [Path(str(plugin.entry.dist.locate_file("/".join([first, *rest]))))]
    return next((folder for folder in folders if folder.is_dir()), folders[0] if folders else Path(*[first, *rest]))
