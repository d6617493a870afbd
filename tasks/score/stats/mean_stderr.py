"""A mean of independent samples: sd with n-1 over sqrt(n), and Student's t for the interval."""

import math
from collections.abc import Sequence

from tasks.score.stats.estimate import Estimate, t_value


def mean_stderr(values: Sequence[float], *, confidence: float = 0.95) -> Estimate:
    """The mean, its standard error and its t interval with n-1 degrees of freedom. Error and interval are None for
    n < 2. The values are taken as they are: leave out what was not scored before."""
    n = len(values)
    if n == 0:
        return Estimate(value=None, n=0, stderr=None, lo=None, hi=None, method="none")
    mean = math.fsum(values) / n
    if n == 1:
        return Estimate(value=mean, n=1, stderr=None, lo=None, hi=None, method="none")
    variance = math.fsum((value - mean) ** 2 for value in values) / (n - 1)
    stderr = math.sqrt(variance / n)
    half = t_value(confidence, degrees=n - 1) * stderr
    return Estimate(value=mean, n=n, stderr=stderr, lo=mean - half, hi=mean + half, method="t")
