"""The values of one key of a space: as a user writes them, and as Optuna's sampler sees them.

Numbers in a list are seen by their place in it, the smallest first, so that the search learns that 64 lies between 32
and 128. Anything else in a list is seen as words without an order.
"""

import json
import math
import random
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import Trial

from schemas.tune import Range


def values_of(written: Range | Sequence[Any]) -> "Values":
    """The values that a file gives."""
    if isinstance(written, Range):
        return Numbers(written)
    numbers = all(isinstance(each, int | float) and not isinstance(each, bool) for each in written)
    return Places(sorted(written)) if numbers else Words(list(written))


class Values(ABC):
    """The values of one key."""

    @property
    @abstractmethod
    def distribution(self) -> BaseDistribution:
        """What Optuna draws from."""

    @abstractmethod
    def draw(self, key: str, trial: Trial) -> Any:
        """The value of a trial, as its sampler chooses it."""

    @abstractmethod
    def stored(self, value: Any) -> Any:
        """What Optuna keeps for a value."""

    @abstractmethod
    def holds(self, value: Any) -> bool:
        """Whether it is one of the values."""

    @abstractmethod
    def any(self, draw: random.Random) -> Any:
        """One of them, drawn evenly."""

    @abstractmethod
    def count(self) -> int | None:
        """How many there are; None for numbers without steps."""

    @abstractmethod
    def listed(self) -> list[Any]:
        """All of them, where they can be counted."""


class Words(Values):
    """A list of anything: texts, yes and no, blocks."""

    def __init__(self, values: list[Any]) -> None:
        self._values = values

    @property
    def distribution(self) -> BaseDistribution:
        return CategoricalDistribution([self.stored(value) for value in self._values])

    def draw(self, key: str, trial: Trial) -> Any:
        drawn = trial.suggest_categorical(key, [self.stored(value) for value in self._values])
        return next(value for value in self._values if _same(self.stored(value), drawn))

    def stored(self, value: Any) -> Any:
        return json.dumps(value, sort_keys=True) if isinstance(value, list | dict) else value

    def holds(self, value: Any) -> bool:
        return any(_same(value, each) for each in self._values)

    def any(self, draw: random.Random) -> Any:
        return draw.choice(self._values)

    def count(self) -> int | None:
        return len(self._values)

    def listed(self) -> list[Any]:
        return self._values


class Places(Words):
    """A list of numbers, the smallest first."""

    @property
    def distribution(self) -> BaseDistribution:
        return IntDistribution(0, len(self._values) - 1)

    def draw(self, key: str, trial: Trial) -> Any:
        return self._values[trial.suggest_int(key, 0, len(self._values) - 1)]

    def stored(self, value: Any) -> Any:
        return self._values.index(value)


class Numbers(Values):
    """A range."""

    def __init__(self, values: Range) -> None:
        self._low, self._high, self._step = values.low, values.high, values.step
        self._log, self._whole = values.log, values.whole
        if values.step is not None:  # Optuna warns of a last step that is cut
            self._high = self._low + math.floor((values.high - values.low) / values.step + 1e-9) * values.step

    @property
    def distribution(self) -> BaseDistribution:
        if self._whole:
            return IntDistribution(int(self._low), int(self._high), log=self._log, step=int(self._step or 1))
        return FloatDistribution(float(self._low), float(self._high), log=self._log, step=self._step)

    def draw(self, key: str, trial: Trial) -> Any:
        if self._whole:
            step = int(self._step or 1)
            return trial.suggest_int(key, int(self._low), int(self._high), step=step, log=self._log)
        return trial.suggest_float(key, float(self._low), float(self._high), step=self._step, log=self._log)

    def stored(self, value: Any) -> Any:
        return value

    def holds(self, value: Any) -> bool:
        number = isinstance(value, int) or (isinstance(value, float) and not self._whole)
        if not number or isinstance(value, bool) or not self._low <= value <= self._high:
            return False
        return self._step is None or math.isclose(math.remainder(value - self._low, self._step), 0, abs_tol=1e-9)

    def any(self, draw: random.Random) -> Any:
        count = self.count()
        if count is not None and not self._log:
            return self._low + draw.randrange(count) * (self._step or 1)
        low, high = (math.log(each) if self._log else each for each in (self._low, self._high))
        drawn = draw.uniform(low, high)
        number = math.exp(drawn) if self._log else drawn
        return min(max(round(number) if self._whole else number, self._low), self._high)

    def count(self) -> int | None:
        if self._step is not None:
            return round((self._high - self._low) / self._step) + 1
        return int(self._high) - int(self._low) + 1 if self._whole else None

    def listed(self) -> list[Any]:
        return [self._low + index * (self._step or 1) for index in range(self.count() or 0)]


def _same(value: Any, other: Any) -> bool:
    """Equal, and not only as 1 and true are."""
    return bool(value == other) and isinstance(value, bool) == isinstance(other, bool)
