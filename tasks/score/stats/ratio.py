"""A ratio of sums over samples, R = sum of x_i / sum of u_i (nats over words, say), or exp(R), with its error.

R is no mean of samples, yet nearly one: of the y_i = R + n (x_i - R u_i) / sum of u. Their mean is R, and its error is
that of R as far as R is linear in the sums (Cochran 1977, "Sampling Techniques", 3rd edition, 6.4; Woodruff 1971, "A
Simple Method for Approximating the Variance of a Complicated Estimate", Journal of the American Statistical
Association 66, 411-414). So they take the place of the values wherever an error is made of values: Student's t,
clusters, pairs. Of exp(R) the interval is exp of that of R, and the error exp(R) times that of R.
"""

import math
from collections.abc import Hashable, Sequence
from dataclasses import replace

from tasks.score.stats.bootstrap import REPLICATES
from tasks.score.stats.clustered import clustered
from tasks.score.stats.estimate import Estimate
from tasks.score.stats.mean_stderr import mean_stderr
from tasks.score.stats.paired import PairedResult, paired

Sums = tuple[float, float]
"""Of one sample: what it adds above and below the line; the latter is above 0."""


def ratio(sums: Sequence[Sums]) -> float:
    """R. Raises ValueError without a sample, or where one adds nothing below the line."""
    if not sums or any(below <= 0 for _, below in sums):
        raise ValueError("a ratio needs samples, each with something to divide by")
    return math.fsum(above for above, _ in sums) / math.fsum(below for _, below in sums)


def raised(value: float) -> float | None:
    """exp(value); None where that is more than a number can be."""
    try:
        return math.exp(value)
    except OverflowError:
        return None


def linearized(sums: Sequence[Sums]) -> list[float]:
    """The y_i. Raises as `ratio` does."""
    whole = ratio(sums)
    scale = len(sums) / math.fsum(below for _, below in sums)
    return [whole + scale * (above - whole * below) for above, below in sums]


def pooled(
    sums: Sequence[Sums],
    *,
    exponential: bool = False,
    clusters: Sequence[Hashable] | None = None,
    confidence: float = 0.95,
) -> Estimate:
    """R, or exp(R), with its error and interval; None for what the samples do not allow, and for what is more than a
    number can be. Raises as `ratio` does, but for no sample at all, which has no value."""
    if not sums:
        return Estimate(value=None, n=0, stderr=None, lo=None, hi=None, method="none")
    values = linearized(sums)
    if clusters is None:
        found = mean_stderr(values, confidence=confidence)
    else:
        found = clustered(values, clusters=clusters, confidence=confidence)
    method = "none" if found.stderr is None else f"ratio_{found.method}"
    found = replace(found, value=ratio(sums), method=method)
    return _exponential(found) if exponential else found


def _exponential(found: Estimate) -> Estimate:
    value = None if found.value is None else raised(found.value)
    if value is None or found.stderr is None or found.lo is None or found.hi is None:
        return replace(found, value=value, stderr=None, lo=None, hi=None, method="none")
    return replace(found, value=value, stderr=value * found.stderr, lo=raised(found.lo), hi=raised(found.hi))


def paired_ratios(
    *,
    candidate: Sequence[Sums],
    baseline: Sequence[Sums],
    exponential: bool = False,
    clusters: Sequence[Hashable] | None = None,
    lower_is_better: bool = False,
    seed: int = 0,
    replicates: int = REPLICATES,
) -> PairedResult:
    """The difference of two such numbers over the same samples, each sample's y_i of exp(R) being exp(R) (1 + y_i - R).

    A win is a sample whose own ratio is the better one. Numbers that are too large have no effect to show. Raises as
    `ratio` does, but for no pair at all."""
    values = [_curve(side, exponential=exponential) for side in (candidate, baseline)]
    own = [[above / below for above, below in side] for side in (candidate, baseline)]
    up = sum(one > two for one, two in zip(*own, strict=True))
    down = sum(one < two for one, two in zip(*own, strict=True))
    wins, losses = (down, up) if lower_is_better else (up, down)
    ties = len(own[0]) - up - down
    ours, theirs = values
    if ours is None or theirs is None:
        return PairedResult(
            n=len(own[0]), effect=None, lo=None, hi=None, p_value=None, method="none",
            wins=wins, losses=losses, ties=ties,
        )  # fmt: skip
    found = paired(
        candidate=ours,
        baseline=theirs,
        clusters=clusters,
        lower_is_better=lower_is_better,
        averaged=True,
        unbounded=True,
        seed=seed,
        replicates=replicates,
    )
    method = found.method if found.method == "none" else f"ratio_{found.method}"
    return replace(found, method=method, wins=wins, losses=losses, ties=ties)


def _curve(sums: Sequence[Sums], *, exponential: bool) -> list[float] | None:
    if not sums:
        return []
    values = linearized(sums)
    if not exponential:
        return values
    whole = ratio(sums)
    top = raised(whole)
    return None if top is None else [top * (1 + value - whole) for value in values]
