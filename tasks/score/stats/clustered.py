"""The error of a mean whose samples come in clusters (several questions about one text, say).

se = sqrt(C/(C-1) * sum over clusters of (sum of x_i - mean)^2) / n, with C clusters: the cluster-robust variance with
the usual small-sample factor (Liang and Zeger 1986); Student's t with C-1 degrees of freedom.
"""

import math
from collections import defaultdict
from collections.abc import Hashable, Sequence

from tasks.score.stats.estimate import Estimate, t_value


def clustered(values: Sequence[float], *, clusters: Sequence[Hashable], confidence: float = 0.95) -> Estimate:
    """The mean with its clustered error; error and interval are None for a single cluster. n counts samples."""
    n = len(values)
    if n == 0:
        return Estimate(value=None, n=0, stderr=None, lo=None, hi=None, method="none")
    mean = math.fsum(values) / n
    sums: defaultdict[Hashable, list[float]] = defaultdict(list)
    for value, cluster in zip(values, clusters, strict=True):
        sums[cluster].append(value - mean)
    count = len(sums)
    if count == 1:
        return Estimate(value=mean, n=n, stderr=None, lo=None, hi=None, method="none")
    squares = math.fsum(math.fsum(parts) ** 2 for parts in sums.values())
    stderr = math.sqrt(count / (count - 1) * squares) / n
    half = t_value(confidence, degrees=count - 1) * stderr
    return Estimate(value=mean, n=n, stderr=stderr, lo=mean - half, hi=mean + half, method="t_clustered")
