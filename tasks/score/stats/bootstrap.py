"""The percentile bootstrap (Efron 1979) of a mean, over samples or over whole clusters.

With few clusters percentiles lie too close together: they take the spread with C instead of C - 1, and the normal
quantile instead of Student's. `expanded` moves them outward (Hesterberg 2015, "What Teachers Should Know About the
Bootstrap", The American Statistician 69, 371-386): the tail alpha becomes Phi(-sqrt(c / (c - 1)) t(alpha, c - 1)), with
c the effective number of clusters, so that unequal sizes count as what they are.
"""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tasks.score.stats.clustered import effective_clusters
from tasks.score.stats.estimate import Estimate, normal_quantile, normal_tail, t_two_sided, t_value

if TYPE_CHECKING:
    import numpy as np

    Floats = np.ndarray[Any, np.dtype[np.float64]]

REPLICATES = 10_000
_CELLS_AT_ONCE = 1_000_000
"""Draws held at a time: about 20 MB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bootstrap:
    """An estimate, and the two-sided p value of a mean of 0: twice the smaller share of replicates on one side of it,
    one replicate added to each so that it is never 0. Where the percentiles are expanded, the p value is too: it is
    under 0.05 where the 95 % interval leaves 0 out."""

    estimate: Estimate
    p_value: float | None


def bootstrap(
    values: Sequence[float],
    *,
    clusters: Sequence[Hashable] | None = None,
    replicates: int = REPLICATES,
    seed: int = 0,
    confidence: float = 0.95,
    expanded: bool = False,
) -> Bootstrap:
    """The mean, the standard deviation of the replicates as its error, and their percentiles as its interval.

    Samples, or with `clusters` whole clusters, are drawn with replacement; each replicate is the mean over all samples
    drawn. The same seed gives the same numbers. None instead of an error for fewer than two samples (clusters), and
    instead of an expanded interval for fewer than two effective ones.
    """
    import numpy as np  # noqa: PLC0415 - only this part of assay's statistics needs arrays

    n = len(values)
    mean = math.fsum(values) / n if n else None
    keys: Sequence[Hashable] = range(n) if clusters is None else list(clusters)
    order = {key: index for index, key in enumerate(dict.fromkeys(keys))}
    count = len(order)
    if count < 2:
        return Bootstrap(estimate=Estimate(value=mean, n=n, stderr=None, lo=None, hi=None, method="none"), p_value=None)
    index = np.fromiter((order[key] for key in keys), dtype=np.int64, count=n)
    sums = np.bincount(index, weights=np.asarray(values, dtype=float), minlength=count).astype(np.float64)
    sizes = np.bincount(index, minlength=count)
    means = _replicates(sums=sums, sizes=sizes, replicates=replicates, random=np.random.default_rng(seed))
    effective = effective_clusters(sizes.tolist()) if expanded else math.inf
    tail = _tail(confidence=confidence, effective=effective)
    lo, hi = (None, None) if tail is None else (float(edge) for edge in np.quantile(means, [tail, 1 - tail]))
    side = min(int(np.count_nonzero(means <= 0)), int(np.count_nonzero(means >= 0)))
    kind = "bootstrap" if clusters is None else "cluster_bootstrap"
    method = f"{kind}(B={replicates}, seed={seed}{', expanded' if expanded else ''})"
    estimate = Estimate(value=mean, n=n, stderr=float(np.std(means, ddof=1)), lo=lo, hi=hi, method=method)
    return Bootstrap(
        estimate=estimate, p_value=_expanded_p(min(1.0, 2 * (side + 1) / (replicates + 1)), effective=effective)
    )


def _tail(*, confidence: float, effective: float) -> float | None:
    """The share of replicates outside each end of the interval."""
    if math.isinf(effective):
        return (1 - confidence) / 2
    if effective < 2:
        return None
    return normal_tail(math.sqrt(effective / (effective - 1)) * t_value(confidence, degrees=effective - 1))


def _expanded_p(p_value: float, *, effective: float) -> float | None:
    if math.isinf(effective) or p_value == 1:
        return p_value
    if effective < 2:
        return None
    statistic = normal_quantile(1 - p_value / 2) / math.sqrt(effective / (effective - 1))
    return t_two_sided(statistic, degrees=effective - 1)


def _replicates(*, sums: "Floats", sizes: Any, replicates: int, random: Any) -> "Floats":
    """The mean of each replicate: its units' sums over their sizes.

    Units that are alike (as right and wrong answers are) are drawn by how many of each kind there are, which is the
    same distribution and takes a fraction of the time. Otherwise a chunk of draws is held at a time.
    """
    import numpy as np  # noqa: PLC0415 - as above

    count = len(sums)
    kinds, numbers = np.unique(np.stack([sums, sizes]), axis=1, return_counts=True)
    if kinds.shape[1] * 16 <= count:
        drawn = random.multinomial(count, numbers / count, size=replicates)
        found: Floats = (drawn @ kinds[0]) / (drawn @ kinds[1])
        return found
    alike = bool((sizes == sizes[0]).all())
    dtype = np.uint16 if count <= 1 << 16 else np.uint32
    means = np.empty(replicates)
    step = max(1, _CELLS_AT_ONCE // count)
    for start in range(0, replicates, step):
        chosen = random.integers(0, count, size=(min(step, replicates - start), count), dtype=dtype)
        total = sums.take(chosen).sum(axis=1)
        means[start : start + len(chosen)] = total / (count * sizes[0] if alike else sizes.take(chosen).sum(axis=1))
    return means
