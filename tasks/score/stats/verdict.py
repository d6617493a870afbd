"""From an interval to a word: better, same, worse or undecided.

`not_worse` with margin m, on the candidate's gain (its sign turned where lower is better): same or better iff the
interval's lower end is above -m, and better iff it is above 0; worse iff its upper end is below -m; undecided
otherwise.
"""

import math
from dataclasses import dataclass
from typing import Literal

_NO_NUMBER = 1e12
"""More samples than that, and the effect might as well be the margin itself."""

Word = Literal["better", "same", "worse", "undecided"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The word; for undecided also the number of samples that would decide it if effect and spread stay as they are
    (None where no number would)."""

    word: Word
    n_needed: int | None


def decide(
    *, effect: float | None, lo: float | None, hi: float | None, margin: float, n: int, lower_is_better: bool = False
) -> Decision:
    """The verdict on an effect (candidate - baseline) with its interval. Raises ValueError for a negative margin.

    n_needed scales the distance from the effect to the end of the interval that stands across -m by 1/sqrt(n).
    """
    if margin < 0:
        raise ValueError(f"a margin is 0 or more, not {margin}")
    if effect is None or lo is None or hi is None:
        return Decision(word="undecided", n_needed=None)
    if lower_is_better:
        effect, lo, hi = -effect, -hi, -lo
    if lo > 0:
        return Decision(word="better", n_needed=None)
    if lo > -margin:
        return Decision(word="same", n_needed=None)
    if hi < -margin:
        return Decision(word="worse", n_needed=None)
    distance = effect + margin
    half = effect - lo if distance > 0 else hi - effect
    return Decision(word="undecided", n_needed=samples_needed(n=n, half=half, distance=distance))


def samples_needed(*, n: int, half: float, distance: float) -> int | None:
    """How many samples make half an interval's width, of n samples, as small as the distance to what it must not hold;
    at least n + 1. None where no number would."""
    if math.sqrt(n) * half >= math.sqrt(_NO_NUMBER) * abs(distance):
        return None
    return max(n + 1, math.ceil(n * (half / distance) ** 2))
