"""Lengths of prompts and answers, drawn from a distribution."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Literal, assert_never

MOST_DRAWS = 1_000


@dataclass(frozen=True, kw_only=True)
class Lengths:
    """Tokens. mean and sd: of the distribution before it is cut at least and most (both included). What falls outside
    is drawn again, so that no heap lies at the bounds; the mean of what comes is then not quite `mean`.

    uniform: between least and most. lognormal: mean and sd are those of the lengths, not of their logarithms."""

    kind: Literal["fixed", "uniform", "normal", "lognormal"]
    mean: float = 0.0
    sd: float = 0.0
    least: int = 1
    most: int = 1 << 20

    def draw(self, random: Random) -> Iterator[int]:
        """Lengths, for ever. Raises ValueError where the bounds leave nothing that the distribution would give."""
        while True:
            drawn = next((length for length in self._some(random) if self.least <= length <= self.most), None)
            if drawn is None:
                raise ValueError(f"no length of {MOST_DRAWS} lies from {self.least} to {self.most} tokens")
            yield drawn

    def _some(self, random: Random) -> Iterator[int]:
        for _ in range(MOST_DRAWS):
            match self.kind:
                case "fixed":
                    yield round(self.mean)
                case "uniform":
                    yield random.randint(self.least, self.most)
                case "normal":
                    yield round(random.gauss(self.mean, self.sd))
                case "lognormal":
                    spread = math.sqrt(math.log1p((self.sd / self.mean) ** 2))
                    yield round(random.lognormvariate(math.log(self.mean) - spread * spread / 2, spread))
                case _:
                    assert_never(self.kind)
