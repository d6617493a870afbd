"""Seeded draws whose results stay the same in every Python version."""

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Draw:
    """Draws from one seed. Rests on `random.Random.random` alone, the one method whose sequence Python guarantees."""

    def __init__(self, *, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311 - data is made here, no secrets

    def share(self) -> float:
        """A number in [0, 1)."""
        return self._random.random()

    def between(self, low: int, high: int) -> int:
        """A whole number from `low` to `high`, both included."""
        return low + int(self._random.random() * (high - low + 1))

    def pick(self, values: Sequence[T]) -> T:
        """One of the values."""
        return values[self.between(0, len(values) - 1)]

    def shuffled(self, values: Sequence[T]) -> list[T]:
        """The values in a drawn order (Fisher and Yates)."""
        result = list(values)
        for last in range(len(result) - 1, 0, -1):
            other = self.between(0, last)
            result[last], result[other] = result[other], result[last]
        return result

    def several(self, values: Sequence[T], count: int) -> list[T]:
        """`count` different places of the sequence, in a drawn order."""
        return self.shuffled(values)[:count]
