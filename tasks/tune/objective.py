"""What a tuning looks for, as a number of each trial, and what it must keep to count."""

import math
from collections.abc import Mapping
from typing import Literal

from schemas.tune import Goal, Tune

Figures = Mapping[str, float]

THROUGHPUT = "throughput.output_tokens_per_s"
GOODPUT = "goodput.requests_per_s"
_WORDS = {
    THROUGHPUT: "output tokens/s",
    GOODPUT: "requests/s within the SLO",
    "e2e_ms": "ms from sent to the last token",
    "ttft_ms": "ms from sent to the first token",
    "tpot_ms": "ms a token after the first",
}
_HOPELESS = 2.0
"""First samples that miss the SLO by this factor are enough to know."""


class Objective:
    """The goals of a tuning with their weights, over the figures that a run comes to."""

    def __init__(self, tune: Tune) -> None:
        self.goals = tune.goals
        self.latency = tune.latency
        self._slo = {} if tune.slo is None else tune.slo.asked

    @property
    def direction(self) -> Literal["higher", "lower"]:
        """Which values are better."""
        return "lower" if list(self.goals) == ["latency"] else "higher"

    def figure(self, goal: Goal) -> str:
        """The name of the figure that a goal means."""
        return {"throughput": THROUGHPUT, "goodput": GOODPUT, "latency": self.latency}[goal]

    def in_words(self) -> str:
        """What the value is."""
        words = {goal: self._words(self.figure(goal)) for goal in self.goals}
        if len(words) == 1:
            return next(iter(words.values()))
        parts = ", ".join(f"{words[goal]} with weight {weight:g}" for goal, weight in self.goals.items())
        return f"times as good as the plan: {parts}"

    def missing(self, figures: Figures) -> list[str]:
        """The figures that the value needs and that were not measured."""
        return [name for name in map(self.figure, self.goals) if name not in figures]

    def value(self, figures: Figures, base: Figures | None) -> float:
        """The value. base: the figures that weighted goals are held against; None: these are the first ones, worth
        1."""
        if len(self.goals) == 1:
            return figures[self.figure(next(iter(self.goals)))]
        return 1.0 if base is None else math.exp(self.log_ratio(figures, base))

    def log_ratio(self, figures: Figures, other: Figures) -> float:
        """The logarithm of how many times as good the first are, by the weights; above 0 is better."""
        total = sum(self.goals.values())
        return sum(
            weight / total * (-1 if goal == "latency" else 1) * math.log(figures[name] / other[name])
            for goal, weight in self.goals.items()
            for name in [self.figure(goal)]
        )

    def violations(self, figures: Figures) -> dict[str, float]:
        """How far each bound is missed, as a share of it: above 0 is missed. With `goodput` among the goals the
        requests that miss the SLO are counted there, and only a setting in which all of them do is no good."""
        if "goodput" in self.goals:
            if figures.get(GOODPUT) != 0:
                return {}
            over = [figures[f"{name}.p50"] / bound - 1 for name, bound in self._slo.items() if f"{name}.p50" in figures]
            return {"goodput": max([0.01, *over])}
        return {
            name: figures[f"{name}.p99"] / bound - 1 for name, bound in self._slo.items() if f"{name}.p99" in figures
        }

    def hopeless(self, figures: Figures) -> bool:
        """Whether the first samples miss the SLO by so much that the rest need not run."""
        return any(over >= _HOPELESS - 1 for over in self.violations(figures).values())

    def missed(self, figures: Figures) -> str:
        """In words, which bounds are missed and by what."""
        if "goodput" in self.violations(figures):
            return f"no request met the SLO ({', '.join(f'{name} {bound:g}' for name, bound in self._slo.items())})"
        return ", ".join(
            f"the 99th percentile of {name} is {figures[f'{name}.p99']:.4g}, of at most {self._slo[name]:g}"
            for name, over in self.violations(figures).items()
            if over > 0
        )

    def _words(self, figure: str) -> str:
        name, _, percentile = figure.partition(".")
        return _WORDS[figure] if figure in _WORDS else f"{_WORDS[name]}, {percentile.replace('p', '')}th percentile"
