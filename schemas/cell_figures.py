"""What one run of a cell came to, in numbers, and what a candidate is worth against a control."""

from typing import Annotated, Literal

from pydantic import Field

from schemas.base import Config

Direction = Literal["higher", "lower", "none"]
"""Which is better; `none` where neither is."""
Verdict = Literal["better", "worse", "undecided", "same"]
LOAD = "load."
"""What the names of a measured load's figures begin with: `load.free-closed-8.tpot_ms.p50`."""
Milliseconds = Annotated[float, Field(gt=0)]


class Slo(Config):
    """The most that each latency of a request may be. What is left out is not asked for."""

    ttft_ms: Milliseconds | None = None
    """Milliseconds from sending a request to its first token."""
    tpot_ms: Milliseconds | None = None
    """Milliseconds of each token after the first, on average over the answer. An answer of one token has no such time,
    and keeps it."""
    e2e_ms: Milliseconds | None = None
    """Milliseconds from sending a request to its last token."""

    @property
    def asked(self) -> dict[str, float]:
        """The latencies that are asked for, by name, in milliseconds."""
        return {name: value for name, value in self if value is not None}


class Figure(Config):
    """One number of a run."""

    name: str
    value: float
    unit: str
    direction: Direction


class Repeated(Config):
    """One figure over the repeats of a cell: the geometric mean of a time, rate or size, the mean of anything else."""

    name: str
    unit: str
    direction: Direction
    value: float
    lo: float | None
    """Lower end of the 95 % interval of that mean (t, on the logarithms where the mean is geometric); None with one
    repeat."""
    hi: float | None
    n: int
    """Repeats that have it."""


class Effect(Config):
    """One figure of a candidate against the control's, over the rounds that both have it in."""

    figure: str
    unit: str
    direction: Direction
    control: float
    """Over the rounds: the geometric mean where there is a ratio, else the mean."""
    candidate: float
    ratio: float | None
    """candidate / control, the geometric mean over rounds; None for a figure that is compared by its difference."""
    difference: float | None
    """candidate - control, the mean; None for a figure that is compared by its ratio."""
    lo: float | None
    """Lower end of the 95 % interval of the ratio or difference; None where one round allows none."""
    hi: float | None
    rounds: int
    samples: int | None = None
    """Of a quality metric: the samples that both sides have a value of, which the interval rests on."""
    p_value: float | None = None
    """Of no effect, two-sided; None where there is no test."""
    p_adjusted: float | None = None
    """The same, adjusted over the candidates that are compared with the same control (Holm)."""
    method: str
    verdict: Verdict
    """better or worse where the interval lies on one side of no effect; same only where every value is equal."""


class TextsChanged(Config):
    """Of answers that two runs both gave: how many there were, and how many have not the same text."""

    samples: int
    changed: int


class Changed(TextsChanged):
    """The candidate's answers against the control's of the same round, every round counted."""

    control_samples: int | None = None
    """Answers of one round of the control that its next round gave too; None with one round."""
    control_changed: int | None = None
    """Of those, the ones with another text: what changes where nothing was changed. None with one round."""
    left_out: int
    """Answers that one of the two did not give."""
    arms: dict[str, TextsChanged]
    """The same by arm."""
