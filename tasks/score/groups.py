"""One number for several datasets: the mean of their values, each weighing alike (macro) or by its samples (size).

value = sum of w_i v_i, with w_i = 1/K, or n_i over all n; stderr = sqrt(sum of w_i^2 se_i^2), for equal weights
sqrt(sum of se_i^2) / K. The datasets are taken as independent of each other.

Interval: where every dataset's value is a rate, Wilson's on the effective number of samples v (1 - v) / stderr^2, at
most 1 / (sum of w_i^2 / n_i), the number that equal rates would give (Korn and Graubard 1998 for the idea, "Confidence
intervals for proportions with small expected number of positive counts"); otherwise Student's t with Satterthwaite's
degrees of freedom, (sum of w_i^2 se_i^2)^2 / sum of (w_i^2 se_i^2)^2 / d_i, d_i being n_i - 1 or clusters - 1.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from schemas.experiment import Group
from schemas.metric import Aggregate
from tasks.score.stats.estimate import t_value
from tasks.score.stats.wilson import wilson

_RATES = ("wilson", "wilson_clustered")
_ROUNDING = 1e-12


def group_means(
    *, groups: Mapping[str, Group], metrics: Sequence[Aggregate], datasets: Sequence[str]
) -> list[Aggregate]:
    """One row of scope `group` per group and arm, named `<group>.<metric>`.

    metrics: the datasets' own, of `tasks.score.aggregate.aggregate`. datasets: all of the run, by name. An arm that one
    of the group's datasets lacks, or in which one has no value, has a row without a value that says which: a mean over
    fewer datasets would be another number.
    """
    own = {(row.name, row.arm): row for row in metrics if row.scope == "dataset"}
    rows: list[Aggregate] = []
    for name, group in groups.items():
        members = group.members(datasets)
        arms = dict.fromkeys(row.arm for member in members for row in metrics if row.name == f"{member}.{group.metric}")
        for arm in arms:
            found = {member: own.get((f"{member}.{group.metric}", arm)) for member in members}
            rows.append(_group_mean(name=name, group=group, arm=arm, found=found))
    return rows


def _group_mean(*, name: str, group: Group, arm: str | None, found: Mapping[str, Aggregate | None]) -> Aggregate:
    rows = [row for row in found.values() if row is not None]
    missing = [member for member, row in found.items() if row is None or row.value is None]
    details = {"datasets": list(found), "weight": group.weight} | ({"missing": missing} if missing else {})
    empty = Aggregate(
        scope="group",
        name=f"{name}.{group.metric}",
        arm=arm,
        value=None,
        unit=rows[0].unit,
        direction=rows[0].direction,
        n=sum(row.n for row in rows),
        n_failed=sum(row.n_failed for row in rows),
        method="none",
        details=details,
    )
    if missing:
        return empty
    total = empty.n
    weights = [row.n / total if group.weight == "size" else 1 / len(rows) for row in rows]
    value = _weighted(weights, [row.value for row in rows])
    squares = _weighted([weight**2 for weight in weights], [_square(row.stderr) for row in rows])
    if value is None or squares is None:
        return replace(empty, value=value)
    stderr = math.sqrt(squares)
    lo, hi, method = _interval(value, stderr, rows=rows, weights=weights)
    word = "weighted" if group.weight == "size" else "macro"
    return replace(empty, value=value, stderr=stderr, lo=lo, hi=hi, method=f"{method}_{word}")


def _weighted(weights: Sequence[float], values: Sequence[float | None]) -> float | None:
    """The sum of weight times value. None where one is missing: leaving it out would take it for 0."""
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None
    return math.fsum(weight * value for weight, value in zip(weights, known, strict=True))


def _square(value: float | None) -> float | None:
    return None if value is None else value**2


def _interval(
    value: float, stderr: float, *, rows: Sequence[Aggregate], weights: Sequence[float]
) -> tuple[float | None, float | None, str]:
    """Without any spread, and where not all are rates, the datasets' own ends are averaged: wider than need be."""
    if all(row.method in _RATES for row in rows):
        most = 1 / math.fsum(weight**2 / _units(row) for weight, row in zip(weights, rows, strict=True))
        rate = min(1.0, max(0.0, value))
        n = most if stderr < _ROUNDING else min(most, rate * (1 - rate) / stderr**2)
        return *wilson(rate=rate, n=n), "wilson"
    if stderr < _ROUNDING:
        return _weighted(weights, [row.lo for row in rows]), _weighted(weights, [row.hi for row in rows]), "no_spread"
    parts = [weight**2 * row.stderr**2 for weight, row in zip(weights, rows, strict=True) if row.stderr is not None]
    spread = math.fsum(part**2 / (_units(row) - 1) for part, row in zip(parts, rows, strict=True))
    half = t_value(0.95, degrees=math.fsum(parts) ** 2 / spread) * stderr
    return value - half, value + half, "t"


def _units(row: Aggregate) -> int:
    """What is independent in a dataset: its clusters where it has them, else its samples."""
    clusters = row.details.get("clusters")
    return row.n if clusters is None else int(clusters)
