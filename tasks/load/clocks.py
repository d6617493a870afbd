"""How far another machine's clock is from this one's, from questions and answers.

A question leaves at a, is answered at the reading r of the other clock, and the answer is here at b. At some moment
between a and b the other clock read r, so it is ahead by r - (a + b) / 2, wrong by (b - a) / 2 at most, whichever way
took longer. That is Cristian's algorithm; the quickest of many answers tells best, since what made the others slow was
waiting, not distance. Between a question and the moment that is asked about both clocks go on, each by its own quartz.
"""

import math
from collections import deque
from dataclasses import dataclass

DRIFT = 200e-6
"""Seconds that two clocks drift apart in one at most: cheap quartz is off by up to 100 millionths, each to its side."""
_KEPT = 600
_WINDOW_S = 1.0
"""Of so long only the best answer is kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offset:
    """seconds: what the other clock is ahead. error_s: by how much that is wrong at most."""

    seconds: float
    error_s: float


@dataclass(frozen=True, slots=True)
class _Answer:
    at: float
    """By the clock here, in the middle between question and answer."""
    offset: float
    error: float


class Clocks:
    """The other clock against the one here, over a while. All times are seconds."""

    def __init__(self) -> None:
        self._answers: deque[_Answer] = deque(maxlen=_KEPT)

    def told(self, *, reading: float, asked_at: float, heard_at: float) -> None:
        """Takes an answer: what the other clock read, and when that was asked and heard by the clock here.

        Raises ValueError where it was heard before it was asked."""
        if heard_at < asked_at:
            raise ValueError("an answer cannot come before its question")
        at = (asked_at + heard_at) / 2
        answer = _Answer(at, reading - at, (heard_at - asked_at) / 2)
        if self._answers and at - self._answers[-1].at < _WINDOW_S:
            if answer.error < self._answers[-1].error:
                self._answers[-1] = answer
        else:
            self._answers.append(answer)

    def over(self, begin: float, end: float) -> Offset:
        """The offset that holds from begin to end, two readings of the other clock. Raises ValueError where nothing was
        told yet."""
        if not self._answers:
            raise ValueError("the other clock has told nothing yet")
        best, least = self._answers[-1], math.inf
        for answer in self._answers:
            then = answer.at + answer.offset
            error = answer.error + DRIFT * max(abs(begin - then), abs(end - then))
            if error <= least:
                best, least = answer, error
        return Offset(seconds=best.offset, error_s=least)
