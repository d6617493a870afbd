"""A point's numbers over its repeats."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from schemas.metric import Aggregate
from tasks.load.verdict import middle


def over_repeats(repeats: Sequence[Iterable[Aggregate]], *, point_id: str) -> list[Aggregate]:
    """Of each metric that a point's cells have, the median over them, under the point's name in place of a cell's.

    repeats: the metrics of each cell, in the order of the repeats. The interval is that of `tasks.load.verdict.middle`:
    a bootstrap's over two or three repeats would hold the median half of the time. One repeat has none. details: the
    values themselves, None where a repeat has no such number, which is left out of the median."""
    by_name: dict[str, list[Aggregate | None]] = {}
    for index, metrics in enumerate(repeats):
        for metric in metrics:
            by_name.setdefault(metric.name, [None] * len(repeats))[index] = metric
    return [_pooled(each, point_id=point_id) for each in by_name.values()]


def _pooled(each: Sequence[Aggregate | None], *, point_id: str) -> Aggregate:
    known = [metric for metric in each if metric is not None]
    found = middle([metric.value for metric in known])
    return replace(
        known[0],
        value=found.value,
        n=found.repeats,
        n_failed=sum(metric.n_failed for metric in known),
        lo=found.lo,
        hi=None if found.hi is None else min(1.0, found.hi) if known[0].unit == "share" else found.hi,
        method=f"median over repeats, {found.method}" if found.repeats > 1 else "one repeat, no interval",
        cell_id=point_id,
        details={"repeats": [None if metric is None else metric.value for metric in each]},
    )
