"""What a metric is, what a score is, what an aggregate is."""

from dataclasses import dataclass, field
from typing import Any, Literal

NO_SCORES = (".form.", ".guide.", ".repair.")
"""What stands in the names of a dataset's numbers that are no scores of its answers: their form, what guiding does to
them and costs, what repairing costs."""


def is_score(name: str) -> bool:
    """Whether a dataset's number, by its whole name, is the mean of scores."""
    return not any(part in name for part in NO_SCORES)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricInfo:
    """A metric's name card. `needs` says which requests it reads: an answer, the log-likelihoods of the choices, or
    those of a document's rolling windows."""

    name: str
    version: int
    unit: str
    direction: Literal["higher", "lower"]
    needs: Literal["generate", "loglikelihood", "rolling"]
    is_rate: bool
    """Where every value is 0 or 1, its interval is Wilson's."""
    over_samples: Literal["mean", "ratio", "exp_ratio"] = "mean"
    """How a dataset's number comes of its samples: the mean of their values; the sum of their numerators over that of
    their denominators; or exp of that. The latter two need both in each score."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """One sample's value under one metric, arm and repeat. value None: not scored, and `reason` says why.

    metric: the name under which the dataset has it. base_metric: the metric that it is, where that is another name.
    numerator, denominator: what the sample adds to the sums of a metric that is a ratio of sums over samples."""

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
    base_metric: str | None = None
    numerator: float | None = None
    denominator: float | None = None


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
