"""The metrics by name. Every module in tasks/score/metrics is one: a new file is a new metric, no more.

Installed packages add theirs by entry points of the group `assay.metrics`; a name can be there only once. A module is
imported when its metric is asked for; the list of names costs no import.
"""

import difflib
import importlib
import pkgutil
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tasks.plugins import Plugin, load, plugins, plugins_named, twice, unfit

if TYPE_CHECKING:
    from tasks.score.metric import Metric

_FOLDER = Path(__file__).parent / "metrics"


class MetricError(ValueError):
    """A metric or an option that does not exist or is wrong. key: what the user wrote (a path below the metric's
    `options`), message: what is wrong with it, suggestion: what may be meant."""

    def __init__(self, *, key: str, message: str, suggestion: str | None = None) -> None:
        self.key, self.message, self.suggestion = key, message, suggestion
        super().__init__(f"{key}: {message}" + (f" ({suggestion})" if suggestion else ""))


def _nearest(word: str, *, among: list[str]) -> str | None:
    close = difflib.get_close_matches(word, among, n=1, cutoff=0.5)
    return f"did you mean {close[0]}?" if close else None


@cache
def _names() -> tuple[str, ...]:
    found = (module.name for module in pkgutil.iter_modules([str(_FOLDER)]))
    return tuple(sorted(name for name in found if not name.startswith("_")))


def builtin_names() -> list[str]:
    """The names of assay's own metrics, sorted."""
    return list(_names())


def metric_names() -> list[str]:
    """The names of all metrics, those of plugins too, sorted."""
    return sorted({*_names(), *(plugin.name for plugin in plugins("assay.metrics"))})


def metric_source(name: str) -> str:
    """Who brings a metric: `assay`, or a distribution with its version (several, where the name is there twice)."""
    own = ["assay"] if name in _names() else []
    return ", ".join([*own, *(plugin.source for plugin in plugins_named("assay.metrics", name))])


def metric_doc(name: str) -> str:
    """What a metric says of itself: the first paragraph of its module's docstring. Raises as `metric` does."""
    metric(name)
    added = plugins_named("assay.metrics", name)
    module = sys.modules[added[0].entry.module if added else f"tasks.score.metrics.{name}"]
    first = (module.__doc__ or "").strip().split("\n\n")[0]
    return " ".join(first.split()).removeprefix(f"{name}: ")


@cache
def metric(name: str) -> "Metric":
    """The metric of that name. Raises MetricError (a ValueError) with the nearest name for one that does not exist, and
    ConfigError for a name that is there twice, or a plugin's that cannot be imported or is no metric."""
    added = plugins_named("assay.metrics", name)
    own = [f"assay's own tasks/score/metrics/{name}.py"] if name in _names() else []
    if added and len(own) + len(added) > 1:
        raise twice(name, [*own, *(plugin.place for plugin in added)], what="metric")
    if added:
        return _of_plugin(added[0])
    if not own:
        names = metric_names()
        hint = _nearest(name, among=names) or f"there are {', '.join(names)}"
        raise MetricError(key=name, message="there is no such metric", suggestion=hint)
    found: Metric = importlib.import_module(f"tasks.score.metrics.{name}").METRIC
    return found


def _of_plugin(plugin: Plugin) -> "Metric":
    from tasks.score.metric import Metric  # noqa: PLC0415 - the list of names must not pay for pydantic

    found = load(plugin, what="metric")
    found = getattr(found, "METRIC", found)
    if not isinstance(found, Metric):
        reason = f"it is of the type {type(found).__name__}, not a tasks.score.metric.Metric"
        raise unfit(plugin, what="metric", reason=reason)
    if found.info.name != plugin.name:
        raise unfit(plugin, what="metric", reason=f"its own name is `{found.info.name}`")
    return found


def check_options(name: str, options: dict[str, Any]) -> None:
    """Raises MetricError (a ValueError) for a metric that does not exist, an option that it does not have (with the
    nearest one), or a value that the option does not take."""
    from pydantic import ValidationError  # noqa: PLC0415 - the list of names must not pay for pydantic

    model = metric(name).Options
    known = list(model.model_fields)
    for key in options:
        if key not in known:
            hint = _nearest(key, among=known) or (f"it has {', '.join(known)}" if known else "it has none")
            raise MetricError(key=key, message=f"{name} has no such option", suggestion=hint)
    try:
        model(**options)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(step) for step in first["loc"]) or name
        raise MetricError(key=key, message=first["msg"]) from error
