"""A group of datasets, two runs: the difference of its mean, from the paired differences of its datasets.

The effect is the weighted mean of the datasets' effects, which are independent of each other. Its interval is made of
their intervals by recovering the variance at either end (MOVER; Zou and Donner 2008, Statistics in Medicine 27,
1693-1702): lower = effect - sqrt(sum of w_i^2 (effect_i - lo_i)^2), upper likewise. So it is as good as theirs, for
right and wrong as for means, and has a width where no sample changed.
"""

import math
from collections.abc import Sequence

from schemas.metric import Comparison
from tasks.score.stats.estimate import normal_tail, z_value


def combined(
    parts: Sequence[Comparison], *, name: str, metric: str, weight: str, confidence: float = 0.95
) -> Comparison:
    """The datasets' comparisons as one. weight: `equal`, or `size`: by pairs. What the parts do not have (an interval,
    say), the whole does not have either. Raises ValueError for no parts."""
    if not parts:
        raise ValueError(f"{name} has no datasets")
    total = sum(part.n_pairs for part in parts)
    weights = [part.n_pairs / total if weight == "size" and total else 1 / len(parts) for part in parts]
    effect = _mean(weights, [part.effect for part in parts])
    lo = _end(weights, parts, effect=effect, sign=-1)
    hi = _end(weights, parts, effect=effect, sign=1)
    first = parts[0]
    return Comparison(
        dataset=name,
        metric=metric,
        candidate_arm=first.candidate_arm,
        baseline_arm=first.baseline_arm,
        n_pairs=total,
        prompts_differ=any(part.prompts_differ for part in parts),
        candidate=_mean(weights, [part.candidate for part in parts]),
        baseline=_mean(weights, [part.baseline for part in parts]),
        effect=effect,
        lo=lo,
        hi=hi,
        p_value=_p_value(effect, lo, hi, confidence=confidence),
        p_adjusted=None,
        method=f"mover_{'weighted' if weight == 'size' else 'macro'}",
        margin=None,
        verdict="undecided",
        n_needed=None,
        wins=sum(part.wins for part in parts),
        losses=sum(part.losses for part in parts),
        ties=sum(part.ties for part in parts),
    )


def _mean(weights: Sequence[float], values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None
    return math.fsum(weight * value for weight, value in zip(weights, known, strict=True))


def _end(weights: Sequence[float], parts: Sequence[Comparison], *, effect: float | None, sign: int) -> float | None:
    squares = []
    for weight, part in zip(weights, parts, strict=True):
        end = part.lo if sign < 0 else part.hi
        if part.effect is None or end is None:
            return None
        squares.append((weight * (end - part.effect)) ** 2)
    return None if effect is None else effect + sign * math.sqrt(math.fsum(squares))


def _p_value(effect: float | None, lo: float | None, hi: float | None, *, confidence: float) -> float | None:
    """Of the normal distribution whose error is that of the end toward 0."""
    if effect is None or lo is None or hi is None:
        return None
    error = (effect - lo if effect > 0 else hi - effect) / z_value(confidence)
    return None if error <= 0 else min(1.0, 2 * normal_tail(abs(effect) / error))
