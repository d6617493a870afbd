"""The error of a mean whose samples come in clusters (several questions about one text, say).

se = sqrt(C/(C-1) * sum over clusters of (sum of x_i - mean)^2) / n, with C clusters: the cluster-robust variance with
the usual small-sample factor (Liang and Zeger 1986); Student's t with C-1 degrees of freedom.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence

from tasks.score.stats.estimate import Estimate, t_value


def effective_clusters(sizes: Iterable[int]) -> float:
    """How many clusters of one size would weigh as these do: (sum of n_c)^2 / sum of n_c^2 (Kish 1965). Sizes that are
    all the same give their number. Raises ValueError without a sample."""
    counts = list(sizes)
    total = sum(counts)
    if total == 0:
        raise ValueError("there is no cluster with a sample in it")
    return total**2 / sum(size**2 for size in counts)


def clustered(
    values: Sequence[float], *, clusters: Sequence[Hashable], confidence: float = 0.95, unequal: bool = False
) -> Estimate:
    """The mean with its clustered error; error and interval are None for a single cluster. n counts samples.

    unequal: takes the effective number of clusters for C, in the factor and in the degrees of freedom. Where a few
    clusters are much larger than the others, C itself makes the interval too narrow. Below two effective clusters
    there is no interval then.
    """
    n = len(values)
    if n == 0:
        return Estimate(value=None, n=0, stderr=None, lo=None, hi=None, method="none")
    mean = math.fsum(values) / n
    sums: defaultdict[Hashable, list[float]] = defaultdict(list)
    for value, cluster in zip(values, clusters, strict=True):
        sums[cluster].append(value - mean)
    count: float = len(sums)
    if unequal:
        count = effective_clusters(Counter(clusters).values())
    if len(sums) == 1 or count < 2:
        return Estimate(value=mean, n=n, stderr=None, lo=None, hi=None, method="none")
    squares = math.fsum(math.fsum(parts) ** 2 for parts in sums.values())
    stderr = math.sqrt(count / (count - 1) * squares) / n
    half = t_value(confidence, degrees=count - 1) * stderr
    method = "t_clustered_unequal" if unequal else "t_clustered"
    return Estimate(value=mean, n=n, stderr=stderr, lo=mean - half, hi=mean + half, method=method)
