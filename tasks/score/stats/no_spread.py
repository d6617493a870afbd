"""The interval of a mean whose samples are all alike: no spread is no certainty.

Of n samples that all had the value v, none was otherwise. The share that would be otherwise is then at most
b = z^2 / (n + z^2), the upper end of Wilson's interval for 0 of n; at worst that share has the lowest (highest) value
there can be, and the rest has v. For zeros this is Wilson's own interval, for a difference of 0 between -1 and 1 it is
Tango's without flips.
"""

from tasks.score.stats.wilson import wilson


def no_spread(*, value: float, n: int, lowest: float, highest: float, confidence: float = 0.95) -> tuple[float, float]:
    """The interval of the mean of n samples (or clusters) that all had `value`, between `lowest` and `highest`.

    Raises ValueError for a value outside of those, or for no sample.
    """
    if not lowest <= value <= highest:
        raise ValueError(f"{value} is not between {lowest} and {highest}")
    unseen = wilson(rate=0.0, n=n, confidence=confidence)[1]
    return value - unseen * (value - lowest), value + unseen * (highest - value)
