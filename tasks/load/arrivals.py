"""When the requests of an open load are due: any process of gaps, at a rate that may change.

A process gives gaps of mean 1, counted in requests that are expected. The rate turns them into seconds: the request
after the next 1.7 expected ones is due when the area under the rate has grown by 1.7. So a ramp of Poisson arrivals is
an exact one, not steps of constant rate, and gaps are never stretched until a planned number fits into a planned time:
a Poisson process whose gaps were made to fit is none.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal, assert_never

Process = Literal["poisson", "gamma", "constant"]


@dataclass(frozen=True, kw_only=True)
class Stretch:
    """seconds during which the rate goes in a straight line from one to another, both in requests a second."""

    start: float
    end: float
    seconds: float = math.inf

    def __post_init__(self) -> None:
        if self.start < 0 or self.end < 0 or not self.seconds > 0:
            raise ValueError("a rate is not below 0, and a stretch has some length")
        if math.isinf(self.seconds) and self.start != self.end:
            raise ValueError("a rate that changes needs a length to change in")

    @property
    def expected(self) -> float:
        """Requests expected in all of it."""
        return 0.0 if self.start == self.end == 0 else (self.start + self.end) / 2 * self.seconds

    def after(self, expected: float) -> float:
        """The seconds from its start until so many requests are expected; at most all of them.

        The root of start * t + (end - start) / (2 * seconds) * t² = expected, in the form that loses nothing where the
        rate hardly changes."""
        if self.start == self.end:
            return expected / self.start
        slope = (self.end - self.start) / self.seconds
        inside = max(0.0, self.start * self.start + 2 * slope * expected)
        return min(self.seconds, 2 * expected / (self.start + math.sqrt(inside))) if expected else 0.0


def gaps(process: Process, *, random: Random, burstiness: float = 1.0) -> Iterator[float]:
    """Gaps of mean 1, for ever.

    gamma: of shape `burstiness`, so that their standard deviation is 1/sqrt(burstiness): below 1 requests come in
    bursts, 1 is Poisson, above it they come more evenly. Raises ValueError for a burstiness that is not above 0."""
    if not burstiness > 0:
        raise ValueError("burstiness is above 0")
    match process:
        case "constant":
            while True:
                yield 1.0
        case "poisson":
            while True:
                yield random.expovariate(1.0)
        case "gamma":
            while True:
                yield random.gammavariate(burstiness, 1.0 / burstiness)
        case _:
            assert_never(process)


def due(stretches: Sequence[Stretch], each_gap: Iterator[float]) -> Iterator[float]:
    """Seconds from the start at which a request is due, in order; ends with the last stretch.

    The first one is due a gap after the start, so that a load's beginning is like any other moment of it."""
    began, used = 0.0, 0.0
    left = iter(stretches)
    stretch = next(left, None)
    for gap in each_gap:
        used += gap
        while stretch is not None and used > stretch.expected:
            used -= stretch.expected
            began += stretch.seconds
            stretch = next(left, None)
        if stretch is None:
            return
        yield began + stretch.after(used)
