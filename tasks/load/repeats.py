"""A point's numbers over its repeats."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from schemas.metric import Aggregate

REPLICATES = 2000


def over_repeats(repeats: Sequence[Iterable[Aggregate]], *, point_id: str, seed: int = 0) -> list[Aggregate]:
    """Of each metric that a point's cells have, the median over them, under the point's name in place of a cell's.

    repeats: the metrics of each cell, in the order of the repeats. The interval is a bootstrap's over the repeats
    (percentiles of the median, 95 %); one repeat has none. details: the values themselves, None where a repeat has no
    such number, which is left out of the median."""
    by_name: dict[str, list[Aggregate | None]] = {}
    for index, metrics in enumerate(repeats):
        for metric in metrics:
            by_name.setdefault(metric.name, [None] * len(repeats))[index] = metric
    random = np.random.default_rng(seed)
    return [_pooled(each, point_id=point_id, random=random) for each in by_name.values()]


def _pooled(each: Sequence[Aggregate | None], *, point_id: str, random: np.random.Generator) -> Aggregate:
    known = [metric for metric in each if metric is not None]
    values = [metric.value for metric in known if metric.value is not None]
    lo = hi = None
    if len(values) > 1:
        drawn = random.choice(np.asarray(values), size=(REPLICATES, len(values)))
        lo, hi = (float(end) for end in np.percentile(np.median(drawn, axis=1), [2.5, 97.5]))
    return replace(
        known[0],
        value=float(np.median(values)) if values else None,
        n=len(values),
        n_failed=sum(metric.n_failed for metric in known),
        lo=lo,
        hi=hi,
        method=f"median over repeats, bootstrap, B = {REPLICATES}" if len(values) > 1 else "one repeat, no interval",
        cell_id=point_id,
        details={"repeats": [None if metric is None else metric.value for metric in each]},
    )
