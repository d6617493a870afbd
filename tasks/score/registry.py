"""The metrics by name. Every module in tasks/score/metrics is one: a new file is a new metric, no more.

A module is imported when its metric is asked for; the list of names costs no import.
"""

import difflib
import importlib
import pkgutil
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

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


def metric_names() -> list[str]:
    """The names of all metrics, sorted."""
    return list(_names())


@cache
def metric(name: str) -> "Metric":
    """The metric of that name. Raises MetricError (a ValueError) with the nearest name for one that does not exist."""
    if name not in _names():
        hint = _nearest(name, among=list(_names())) or f"there are {', '.join(_names())}"
        raise MetricError(key=name, message="there is no such metric", suggestion=hint)
    found: Metric = importlib.import_module(f"tasks.score.metrics.{name}").METRIC
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
