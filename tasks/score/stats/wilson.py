"""The interval of a rate: Wilson's score interval (Wilson 1927), with clusters on the effective number of samples.

That number is what would have the clustered error, times (z / t with C-1 degrees)^2, since few clusters know that error
only roughly (Korn and Graubard 1998, "Confidence intervals for proportions with small expected number of positive
counts estimated from survey data", Survey Methodology 24, 193-201). Without the factor a 95 % interval over 8 clusters
holds the truth 9 times of 10.
"""

import math
from collections.abc import Hashable, Sequence
from dataclasses import replace

from tasks.score.stats.clustered import clustered
from tasks.score.stats.estimate import Estimate, t_value, z_value
from tasks.score.stats.mean_stderr import mean_stderr


def wilson(*, rate: float, n: float, confidence: float = 0.95) -> tuple[float, float]:
    """The interval of a rate seen in n trials. n may be a fraction: an effective number. Raises ValueError for a rate
    outside 0 to 1 or for n <= 0."""
    if not 0 <= rate <= 1 or n <= 0:
        raise ValueError(f"no rate: {rate} of {n}")
    z = z_value(confidence)
    shrink = 1 + z * z / n
    middle = (rate + z * z / (2 * n)) / shrink
    half = z * math.sqrt(rate * (1 - rate) / n + z * z / (4 * n * n)) / shrink
    return (0.0 if rate == 0 else middle - half), (1.0 if rate == 1 else middle + half)


def effective_n(values: Sequence[float], *, clusters: Sequence[Hashable], confidence: float = 0.95) -> float | None:
    """How many independent samples would tell as much: p (1-p) / se^2 with the clustered se, times (z / t)^2; at most
    n. Values that are all alike say nothing about that: then it is the number of clusters. None for one cluster."""
    count = len(set(clusters))
    estimate = clustered(values, clusters=clusters)
    if estimate.value is None or estimate.stderr is None:
        return None
    if estimate.stderr == 0:
        return float(count)
    known = (z_value(confidence) / t_value(confidence, degrees=count - 1)) ** 2
    return min(float(len(values)), known * estimate.value * (1 - estimate.value) / estimate.stderr**2)


def rate_interval(
    values: Sequence[float], *, clusters: Sequence[Hashable] | None = None, confidence: float = 0.95
) -> Estimate:
    """The mean of zeros and ones with its standard error and its Wilson interval; with clusters, on the effective n."""
    if clusters is None:
        estimate = mean_stderr(values, confidence=confidence)
        n: float | None = estimate.n or None
        method = "wilson"
    else:
        estimate = clustered(values, clusters=clusters, confidence=confidence)
        n = effective_n(values, clusters=clusters, confidence=confidence)
        method = "wilson_clustered"
    if estimate.value is None or n is None:
        return replace(estimate, lo=None, hi=None, method="none")
    lo, hi = wilson(rate=estimate.value, n=n, confidence=confidence)
    return replace(estimate, lo=lo, hi=hi, method=method)
