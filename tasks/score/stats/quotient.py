"""The quotient of two sums over the same samples, sum of x_i / sum of u_i, where an x_i or u_i may well be 0: failures
with a grammar over failures without one, seconds over seconds.

Interval: the percentile bootstrap (Efron 1979) over the samples, or over whole clusters; a replicate without anything
below the line has no quotient, and is left out. Where nothing is above the line in any sample, every replicate is 0,
which says nothing of how sure that is: of shares, the upper end is then Wilson's of 0 of n, over the share below.
"""

import math
from collections.abc import Hashable, Sequence

from tasks.score.stats.bootstrap import REPLICATES
from tasks.score.stats.estimate import Estimate
from tasks.score.stats.wilson import wilson

_FEWEST_DRAWN = 0.95
"""Where more replicates than the rest have no quotient, those that have one are no fair sample of them."""


def quotient(
    above: Sequence[float],
    below: Sequence[float],
    *,
    shares: bool = False,
    clusters: Sequence[Hashable] | None = None,
    replicates: int = REPLICATES,
    seed: int = 0,
    confidence: float = 0.95,
) -> Estimate:
    """The quotient and its interval. shares: each number lies between 0 and 1. None where nothing is below the line,
    and no interval for fewer than two samples (clusters). The same seed gives the same numbers."""
    n, top, bottom = len(above), math.fsum(above), math.fsum(below)
    if not n or bottom <= 0:
        return Estimate(value=None, n=n, stderr=None, lo=None, hi=None, method="none")
    keys: Sequence[Hashable] = range(n) if clusters is None else list(clusters)
    order = {key: index for index, key in enumerate(dict.fromkeys(keys))}
    units = len(order)
    if units < 2:
        return Estimate(value=top / bottom, n=n, stderr=None, lo=None, hi=None, method="none")
    if shares and top == 0:
        hi = wilson(rate=0.0, n=units, confidence=confidence)[1] / (bottom / n)
        return Estimate(value=0.0, n=n, stderr=None, lo=0.0, hi=hi, method="wilson of none, over the share below")
    import numpy as np  # noqa: PLC0415 - only this part of assay's statistics needs arrays

    index = np.fromiter((order[key] for key in keys), dtype=np.int64, count=n)
    sums = [np.bincount(index, weights=np.asarray(side, dtype=float), minlength=units) for side in (above, below)]
    random = np.random.default_rng(seed)
    found = []
    step = max(1, 1_000_000 // units)
    for start in range(0, replicates, step):
        chosen = random.integers(0, units, size=(min(step, replicates - start), units), dtype=np.int64)
        tops, bottoms = (side.take(chosen).sum(axis=1) for side in sums)
        found.append(tops[bottoms > 0] / bottoms[bottoms > 0])
    drawn = np.concatenate(found)
    if len(drawn) < _FEWEST_DRAWN * replicates:
        return Estimate(value=top / bottom, n=n, stderr=None, lo=None, hi=None, method="none")
    tail = (1 - confidence) / 2
    lo, hi = (float(edge) for edge in np.quantile(drawn, [tail, 1 - tail]))
    kind = "bootstrap" if clusters is None else "cluster_bootstrap"
    return Estimate(
        value=top / bottom,
        n=n,
        stderr=float(np.std(drawn, ddof=1)),
        lo=lo,
        hi=hi,
        method=f"{kind}(B={replicates}, seed={seed})",
    )
