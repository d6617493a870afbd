"""What a metric is, what a score is, what an aggregate is."""

from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricInfo:
    """A metric's name card. `needs` says which requests it reads: an answer, or the choices' log-likelihoods."""

    name: str
    version: int
    unit: str
    direction: Literal["higher", "lower"]
    needs: Literal["generate", "loglikelihood"]
    is_rate: bool
    """Every value is 0 or 1, so that its interval is Wilson's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """One sample's value under one metric, arm and repeat. value None: not scored, and `reason` says why."""

    dataset: str
    sample_id: str
    arm: str
    repeat: int
    metric: str
    metric_version: int
    value: float | None
    request_id: str | None = None
    extracted: str | None = None
    ties: int | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate:
    """One number of a run: a row of the table `metrics`."""

    scope: Literal["dataset", "group", "run", "engine"]
    name: str
    arm: str | None
    value: float | None
    unit: str
    direction: Literal["higher", "lower"]
    n: int
    n_failed: int
    stderr: float | None = None
    lo: float | None = None
    hi: float | None = None
    method: str = ""
    cell_id: str | None = None
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two arms (or two runs) on the same samples: a row of the table `comparisons`. effect = candidate - baseline."""

    dataset: str
    metric: str
    candidate_arm: str
    baseline_arm: str
    n_pairs: int
    prompts_differ: bool
    candidate: float | None
    baseline: float | None
    effect: float | None
    lo: float | None
    hi: float | None
    p_value: float | None
    p_adjusted: float | None
    method: str
    margin: float | None
    verdict: Literal["better", "same", "worse", "undecided"]
    n_needed: int | None
    wins: int
    losses: int
    ties: int
