"""The percentile bootstrap (Efron 1979) of a mean, over samples or over whole clusters."""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from tasks.score.stats.estimate import Estimate

REPLICATES = 10_000
_CELLS_AT_ONCE = 2_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Bootstrap:
    """An estimate, and the two-sided p value of a mean of 0: twice the smaller share of replicates on one side of it,
    one replicate added to each so that it is never 0."""

    estimate: Estimate
    p_value: float | None


def bootstrap(
    values: Sequence[float],
    *,
    clusters: Sequence[Hashable] | None = None,
    replicates: int = REPLICATES,
    seed: int = 0,
    confidence: float = 0.95,
) -> Bootstrap:
    """The mean, the standard deviation of the replicates as its error, and their percentiles as its interval.

    Samples, or with `clusters` whole clusters, are drawn with replacement; each replicate is the mean over all samples
    drawn. The same seed gives the same numbers. None instead of an error for fewer than two samples (clusters).
    """
    import numpy as np  # noqa: PLC0415 - only this part of assay's statistics needs arrays

    n = len(values)
    mean = math.fsum(values) / n if n else None
    keys = list(range(n)) if clusters is None else list(clusters)
    order = {key: index for index, key in enumerate(dict.fromkeys(keys))}
    count = len(order)
    if count < 2:
        return Bootstrap(estimate=Estimate(value=mean, n=n, stderr=None, lo=None, hi=None, method="none"), p_value=None)
    index = np.fromiter((order[key] for key in keys), dtype=np.int64, count=n)
    sums = np.bincount(index, weights=np.asarray(values, dtype=float), minlength=count)
    sizes = np.bincount(index, minlength=count)
    random = np.random.default_rng(seed)
    means: list[float] = []
    step = max(1, _CELLS_AT_ONCE // count)
    for start in range(0, replicates, step):
        drawn = random.integers(0, count, size=(min(step, replicates - start), count))
        means.extend((sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1)).tolist())
    tail = (1 - confidence) / 2
    lo, hi = (float(edge) for edge in np.quantile(means, [tail, 1 - tail]))
    side = min(sum(value <= 0 for value in means), sum(value >= 0 for value in means))
    method = f"{'cluster_' if clusters is not None else ''}bootstrap(B={replicates}, seed={seed})"
    estimate = Estimate(value=mean, n=n, stderr=float(np.std(means, ddof=1)), lo=lo, hi=hi, method=method)
    return Bootstrap(estimate=estimate, p_value=min(1.0, 2 * (side + 1) / (replicates + 1)))
