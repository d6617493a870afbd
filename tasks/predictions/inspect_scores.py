"""The scores of a log of Inspect as numbers, and the numbers of its results beside assay's own over its samples."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from schemas.metric import Aggregate, Score
from tasks.score.arrange import SampleMeans, arrange
from tasks.score.stats.estimate import Estimate
from tasks.score.stats.mean_stderr import mean_stderr
from tasks.score.stats.wilson import rate_interval

_LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
"""Correct, partly correct, incorrect, no answer; as inspect_ai's `value_to_float` maps them by default."""
_WORDS = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
_MEANS = ("accuracy", "mean")
_SAME = 1e-9

Row = Mapping[str, Any]


def as_number(value: Any) -> float | None:
    """A score's value as Inspect makes a number of it; None for NaN (its word for not scored) and for other texts."""
    if isinstance(value, str):
        known = _LETTERS.get(value, _WORDS.get(value.lower()))
        if known is not None:
            return known
        try:
            value = float(value)
        except ValueError:
            return None
    if not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def named_values(scores: Mapping[str, Row]) -> dict[str, dict[str, Any]]:
    """By metric: value, what was extracted, and why. A value of several gives a metric for each."""
    found: dict[str, dict[str, Any]] = {}
    for metric, value, score in _each(scores):
        number = as_number(value)
        why = score.get("reason") or score.get("explanation")
        if number is None and why is None:
            why = "the scorer gave no value" if value is None else f"the value {value!r} is no number"
        answer = score.get("answer")
        found[metric] = {
            "value": number,
            "extracted": None if answer is None else str(answer),
            "reason": None if why is None else str(why),
        }
    return found


def unreadable(scores: Mapping[str, Row]) -> Iterator[str]:
    """The metrics and values, as JSON, of texts that are no numbers."""
    for metric, value, _ in _each(scores):
        if isinstance(value, str) and as_number(value) is None:
            yield json.dumps([metric, value])


def _each(scores: Mapping[str, Row]) -> Iterator[tuple[str, Any, Row]]:
    for scorer, score in scores.items():
        value = score["value"]
        several = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
        if several is None:
            yield f"inspect.{scorer}", value, score
        else:
            for name, one in several:
                yield f"inspect.{scorer}.{name}", one, score


def log_metrics(results: Row, *, scores: Sequence[Score], dataset: str) -> tuple[list[Aggregate], list[str]]:
    """The log's numbers, and warnings. Where one is the mean of the samples it has assay's interval; where it is not,
    it has none, and a warning says so. Scores without a number in the log get one."""
    groups = {metric: group for (_, metric, _), group in arrange(scores).items()}
    made: dict[str, Aggregate] = {}
    warnings: list[str] = []
    for given in results.get("scores") or []:
        metric = _metric_of(given, known=groups)
        values = {key: each["value"] for key, each in (given.get("metrics") or {}).items()}
        main = next((key for key in _MEANS if key in values), None)
        reducer = given.get("reducer")
        behind = "" if reducer in (None, "mean") else f",{reducer}"
        for key, value in values.items():
            if key == "stderr" and main is not None:
                continue
            name = f"{dataset}.{metric}{behind}" if key == main else f"{dataset}.{metric}{behind},{key}"
            group = groups.get(metric) if key == main and not behind else None
            row = _row(name, value, group=group, scores=scores, metric=metric, stderr=values.get("stderr"))
            if group is not None and row.method == "inspect" and value is not None:
                mean = _estimate(group).value
                warnings.append(
                    f"{name}: the results say {value:.6g}, the mean of its samples is {mean}: it is no mean, or samples"
                    " are missing"
                )
            made.setdefault(name, row)
    for metric, group in groups.items():
        name = f"{dataset}.{metric}"
        if name not in made:
            own = _estimate(group).value
            made[name] = _row(name, own, group=group, scores=scores, metric=metric, stderr=None)
    return list(made.values()), warnings


def _metric_of(given: Row, *, known: Mapping[str, Any]) -> str:
    """The metric of the samples' scores that an entry of the results is about."""
    scorer, name = given.get("scorer") or given["name"], given["name"]
    for metric in (f"inspect.{scorer}.{name}", f"inspect.{name}", f"inspect.{scorer}"):
        if metric in known:
            return metric
    return f"inspect.{scorer}" if scorer == name else f"inspect.{scorer}.{name}"


def _estimate(group: SampleMeans) -> Estimate:
    values = list(group.means.values())
    return rate_interval(values) if all(value in (0, 1) for value in values) else mean_stderr(values)


def _row(
    name: str, value: float | None, *, group: SampleMeans | None, scores: Sequence[Score], metric: str, stderr: Any
) -> Aggregate:
    mine = [score.value for score in scores if score.metric == metric and score.value is not None]
    own = None if group is None else _estimate(group)
    same = (
        own is not None
        and own.value is not None
        and value is not None
        and abs(own.value - value) <= _SAME * max(1.0, abs(value))
    )
    details: dict[str, Any] = {"metric_version": 1}
    if stderr is not None:
        details["stderr_inspect"] = stderr
    if group is not None and group.most_repeats > 1:
        details["repeats"] = group.most_repeats
    whole = own if own is not None and (same or value is None) else None
    return Aggregate(
        scope="dataset",
        name=name,
        arm="free",
        value=value,
        unit="share" if mine and group is not None and all(each in (0, 0.5, 1) for each in mine) else "the metric's",
        direction="higher",
        n=len(mine) if group is None else len(group.means),
        n_failed=0 if group is None else len(group.failed),
        stderr=stderr if whole is None else whole.stderr,
        lo=None if whole is None else whole.lo,
        hi=None if whole is None else whole.hi,
        method="inspect" if whole is None else whole.method,
        details=details,
    )
