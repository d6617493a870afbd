"""The difference of two paired measurements: the same samples under a candidate and under a baseline.

Right or wrong, one answer a sample, no clusters: exact McNemar for the p value (McNemar 1947; the binomial test on
the flips), Tango's score interval for the difference (Tango 1998, Statistics in Medicine 17, 891-908). Otherwise, on
the samples' differences: the paired t; with clusters the cluster bootstrap with expanded percentiles, or the
clustered t where the effective number of clusters is under ten, of which a bootstrap has too few draws to tell.
Where the differences have no spread, none of these has an error to show: see tasks/score/stats/no_spread.py.
"""

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from tasks.score.stats.bootstrap import REPLICATES, bootstrap
from tasks.score.stats.clustered import clustered, effective_clusters
from tasks.score.stats.estimate import t_two_sided, z_value
from tasks.score.stats.mean_stderr import mean_stderr
from tasks.score.stats.no_spread import no_spread

FEW_CLUSTERS = 10
"""Below so many effective clusters the bootstrap says `better` or `worse` of equals too often."""

_ROUNDING = 1e-12
"""A standard error below that is one of rounding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedResult:
    """effect = mean(candidate) - mean(baseline), its interval and p value; None for what the pairs do not allow."""

    n: int
    effect: float | None
    lo: float | None
    hi: float | None
    p_value: float | None
    method: str
    wins: int
    losses: int
    ties: int


def mcnemar_exact(*, wins: int, losses: int) -> float:
    """The two-sided exact p value: 2 P(X <= min(wins, losses)), X binomial over the flips with 1/2; at most 1."""
    from scipy.special import bdtr  # noqa: PLC0415 - scipy is slow to import, and most commands need none of it

    flips = wins + losses
    if flips == 0:
        return 1.0
    return min(1.0, 2 * float(bdtr(min(wins, losses), flips, 0.5)))


def _tango_statistic(*, wins: int, losses: int, n: int, difference: float) -> float:
    """Tango's score statistic for a true difference of `difference`."""
    linear = -wins - losses + (2 * n - wins + losses) * difference
    constant = -losses * difference * (1 - difference)
    share = (math.sqrt(max(0.0, linear * linear - 8 * n * constant)) - linear) / (4 * n)
    variance = n * (2 * share + difference * (1 - difference))
    distance = wins - losses - n * difference
    if variance <= 0:
        return 0.0 if distance == 0 else math.copysign(math.inf, distance)
    return distance / math.sqrt(variance)


def tango(*, wins: int, losses: int, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """The score interval of (wins - losses) / n: all differences whose score statistic is within the normal quantile.

    Raises ValueError for counts that are no paired table.
    """
    if min(wins, losses) < 0 or n < max(1, wins + losses):
        raise ValueError(f"no paired table: {wins} wins and {losses} losses of {n}")
    z = z_value(confidence)
    estimate = (wins - losses) / n

    def edge(outer: float, wanted: float) -> float:
        inside, outside = estimate, outer
        for _ in range(100):
            middle = (inside + outside) / 2
            value = _tango_statistic(wins=wins, losses=losses, n=n, difference=middle)
            if abs(value) <= abs(wanted):
                inside = middle
            else:
                outside = middle
        return inside

    return edge(-1.0, z), edge(1.0, -z)


def paired(  # noqa: PLR0913 - what the values are takes three flags
    *,
    candidate: Sequence[float],
    baseline: Sequence[float],
    clusters: Sequence[Hashable] | None = None,
    lower_is_better: bool = False,
    averaged: bool = False,
    unbounded: bool = False,
    confidence: float = 0.95,
    seed: int = 0,
    replicates: int = REPLICATES,
) -> PairedResult:
    """Compares pair by pair. averaged: the values are means over repeats, so that the exact test does not apply.
    unbounded: they are no shares, though all of them may lie between 0 and 1. seed, replicates: of the bootstrap.

    wins are the samples on which the candidate is better. The effect keeps its sign: candidate minus baseline.
    """
    differences = [one - two for one, two in zip(candidate, baseline, strict=True)]
    n = len(differences)
    up = sum(difference > 0 for difference in differences)
    down = sum(difference < 0 for difference in differences)
    wins, losses = (down, up) if lower_is_better else (up, down)
    binary = all(value in (0, 1) for value in (*candidate, *baseline))
    bounded = not unbounded and all(0 <= value <= 1 for value in (*candidate, *baseline))
    if n and binary and clusters is None and not averaged:
        lo, hi = tango(wins=up, losses=down, n=n, confidence=confidence)
        found = _Test(lo=lo, hi=hi, p_value=mcnemar_exact(wins=up, losses=down), method="mcnemar_exact+tango")
    elif clusters is None:
        found = _independent(differences, confidence=confidence, bounded=bounded)
    else:
        few = _few_clusters(differences, clusters=clusters, confidence=confidence, bounded=bounded)
        found = few or _bootstrapped(
            differences, clusters=clusters, confidence=confidence, seed=seed, replicates=replicates
        )
    return PairedResult(
        n=n,
        effect=math.fsum(differences) / n if n else None,
        lo=found.lo,
        hi=found.hi,
        p_value=found.p_value,
        method=found.method,
        wins=wins,
        losses=losses,
        ties=n - up - down,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Test:
    """An interval and a p value; None for what the pairs do not allow."""

    lo: float | None = None
    hi: float | None = None
    p_value: float | None = None
    method: str = "none"


def _independent(differences: Sequence[float], *, confidence: float, bounded: bool) -> _Test:
    n = len(differences)
    if n < 2:
        return _Test()
    mean = mean_stderr(differences, confidence=confidence)
    if mean.value is None or mean.stderr is None or mean.stderr < _ROUNDING:
        return _no_spread(differences[0], units=n, confidence=confidence, bounded=bounded)
    p_value = t_two_sided(mean.value / mean.stderr, degrees=n - 1)
    return _Test(lo=mean.lo, hi=mean.hi, p_value=p_value, method="paired_t")


def _few_clusters(
    differences: Sequence[float], *, clusters: Sequence[Hashable], confidence: float, bounded: bool
) -> _Test | None:
    """The test where the clusters are too few or too much alike for the bootstrap; None where they are not."""
    sizes = Counter(clusters)
    if len(sizes) < 2:
        return _Test()
    estimate = clustered(differences, clusters=clusters, confidence=confidence)
    if estimate.value is not None and estimate.stderr is not None and estimate.stderr < _ROUNDING:
        return _no_spread(estimate.value, units=len(sizes), confidence=confidence, bounded=bounded)
    effective = effective_clusters(sizes.values())
    if effective >= FEW_CLUSTERS:
        return None
    few = clustered(differences, clusters=clusters, confidence=confidence, unequal=True)
    if few.value is None or few.stderr is None:
        return _Test()
    p_value = t_two_sided(few.value / few.stderr, degrees=effective - 1)
    return _Test(lo=few.lo, hi=few.hi, p_value=p_value, method=few.method)


def _bootstrapped(
    differences: Sequence[float], *, clusters: Sequence[Hashable], confidence: float, seed: int, replicates: int
) -> _Test:
    drawn = bootstrap(
        differences, clusters=clusters, seed=seed, confidence=confidence, expanded=True, replicates=replicates
    )
    found = drawn.estimate
    return _Test(lo=found.lo, hi=found.hi, p_value=drawn.p_value, method=found.method)


def _no_spread(difference: float, *, units: int, confidence: float, bounded: bool) -> _Test:
    """Without a spread only bounded differences have an interval: an unseen share of the samples may differ by all."""
    if not bounded:
        return _Test()
    value = 0.0 if abs(difference) < _ROUNDING else max(-1.0, min(1.0, difference))
    lo, hi = no_spread(value=value, n=units, lowest=-1, highest=1, confidence=confidence)
    p_value = 1.0 if value == 0 else mcnemar_exact(wins=units, losses=0)
    return _Test(lo=lo, hi=hi, p_value=p_value, method="no_spread")
