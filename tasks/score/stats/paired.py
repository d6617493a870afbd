"""The difference of two paired measurements: the same samples under a candidate and under a baseline.

Right or wrong, one answer a sample, no clusters: exact McNemar for the p value (McNemar 1947; the binomial test on
the flips), Tango's score interval for the difference (Tango 1998, Statistics in Medicine 17, 891-908). Otherwise the
paired t on the samples' differences, or the cluster bootstrap. Where no sample differs, neither of those two has an
error to show; the differences being within -1 and 1, Tango's interval for no flips bounds the mean then as well.
"""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from tasks.score.stats.bootstrap import bootstrap
from tasks.score.stats.estimate import t_two_sided, z_value
from tasks.score.stats.mean_stderr import mean_stderr


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


def _no_difference(*, effect: float, n: int, confidence: float) -> tuple[float, float]:
    half = z_value(confidence) ** 2
    bound = half / (n + half)
    return max(-1.0, effect - bound), min(1.0, effect + bound)


def paired(
    *,
    candidate: Sequence[float],
    baseline: Sequence[float],
    clusters: Sequence[Hashable] | None = None,
    lower_is_better: bool = False,
    averaged: bool = False,
    confidence: float = 0.95,
    seed: int = 0,
) -> PairedResult:
    """Compares pair by pair. averaged: the values are means over repeats, so that the exact test does not apply.

    wins are the samples on which the candidate is better. The effect keeps its sign: candidate minus baseline.
    """
    differences = [one - two for one, two in zip(candidate, baseline, strict=True)]
    n = len(differences)
    up = sum(difference > 0 for difference in differences)
    down = sum(difference < 0 for difference in differences)
    wins, losses = (down, up) if lower_is_better else (up, down)
    effect = math.fsum(differences) / n if n else None
    lo: float | None = None
    hi: float | None = None
    p_value: float | None = None
    method = "none"
    binary = all(value in (0, 1) for value in (*candidate, *baseline))
    bounded = all(0 <= value <= 1 for value in (*candidate, *baseline))
    units = n if clusters is None else len(set(clusters))
    if effect is None:
        pass
    elif binary and clusters is None and not averaged:
        lo, hi = tango(wins=up, losses=down, n=n, confidence=confidence)
        p_value, method = mcnemar_exact(wins=up, losses=down), "mcnemar_exact+tango"
    elif units >= 2 and len(set(differences)) == 1:
        if bounded and effect == 0:
            lo, hi = _no_difference(effect=effect, n=units, confidence=confidence)
            p_value, method = 1.0, "no_difference+tango"
    elif clusters is not None:
        drawn = bootstrap(differences, clusters=clusters, seed=seed, confidence=confidence)
        lo, hi, p_value, method = drawn.estimate.lo, drawn.estimate.hi, drawn.p_value, drawn.estimate.method
    elif n >= 2:
        mean = mean_stderr(differences, confidence=confidence)
        lo, hi, method = mean.lo, mean.hi, "paired_t"
        if mean.stderr:
            p_value = t_two_sided(effect / mean.stderr, degrees=n - 1)
    return PairedResult(
        n=n, effect=effect, lo=lo, hi=hi, p_value=p_value, method=method, wins=wins, losses=losses, ties=n - up - down
    )
