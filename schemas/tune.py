"""A tuning: which engine options are searched, for what, under which limits; and what comes of it."""

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from schemas.base import Config
from schemas.cell_figures import Slo
from schemas.experiment import Name

Goal = Literal["throughput", "latency", "goodput"]
LatencyFigure = Literal["e2e_ms.p50", "e2e_ms.p99", "ttft_ms.p50", "ttft_ms.p99", "tpot_ms.p50", "tpot_ms.p99"]
Number = int | float
Weight = Annotated[float, Field(gt=0)]
Choices = Annotated[list[Any], Field(min_length=1)]

ReferenceName = Literal["plan", "vllm"]
REFERENCES: tuple[ReferenceName, ...] = ("plan", "vllm")
"""What every tuning measures first, and its winner is confirmed against: the plan's own engine, and vLLM's defaults."""


class Range(Config):
    """Numbers from `low` to `high`, both of them too: whole ones where both are written without a point."""

    low: Number
    """The smallest value."""
    high: Number
    """The largest value."""
    log: bool = False
    """Whether a value twice as large is one step away: for sizes, of which 128 and 256 differ as 2048 and 4096 do."""
    step: Number | None = None
    """Only `low` and every `step`-th number after it."""

    @property
    def whole(self) -> bool:
        """Whether its values are whole numbers."""
        return all(isinstance(each, int) for each in (self.low, self.high, self.step) if each is not None)

    @model_validator(mode="after")
    def _is_one(self) -> "Range":
        if self.low >= self.high:
            raise ValueError(f"`low` must be less than `high`, not {self.low:g} and {self.high:g}")
        if self.log and self.low <= 0:
            raise ValueError("a range with `log: true` begins above 0")
        if self.log and self.step is not None:
            raise ValueError("`log` and `step` exclude each other")
        if self.step is not None and not 0 < self.step <= self.high - self.low:
            raise ValueError(f"`step` must be above 0 and at most {self.high - self.low:g}, not {self.step:g}")
        return self


class Confirm(Config):
    """How the winner is held against the plan and vLLM's defaults, under the full load."""

    rounds: Annotated[int, Field(ge=2, le=50)] = 3
    """How often each of the three runs, in turns. The interval of the difference rests on the rounds: with 2 only a
    large difference can be told from noise."""


class Tune(Config):
    """What is searched, for what, and for how long."""

    objective: Goal | Annotated[dict[Goal, Weight], Field(min_length=1)] = "throughput"
    """`throughput`: output tokens a second. `latency`: the figure that `latency` names. `goodput`: requests a second
    that meet the `slo`. Or weights, as in `{throughput: 1, latency: 0.5}`: the weighted geometric mean of how many
    times as good as the plan each is."""
    latency: LatencyFigure = "e2e_ms.p50"
    """The latency that the objective and the front of throughput against latency mean. All requests are there from the
    start, so that `e2e_ms` and `ttft_ms` contain the wait in the queue; `tpot_ms` does not."""
    slo: Slo | None = None
    """The latencies that a request may have. `goodput` counts the requests that meet them; with another objective a
    setting whose 99th percentiles miss them does not count."""
    trials: Annotated[int, Field(ge=3, le=10_000)] = 30
    """How many settings are run, the plan's own and vLLM's defaults among them. Settings that were measured before do
    not count."""
    time_limit_s: Annotated[float, Field(gt=0)] | None = None
    """Seconds of all trials together after which no further one begins. The confirmation comes on top."""
    trial_time_limit_s: Annotated[float, Field(gt=0)] = 1800.0
    """Seconds that a trial may take to start its engine, and again to answer; one that is over them does not count."""
    limit: Annotated[int, Field(ge=1)] | None = None
    """The most samples of each dataset in a trial; all of them if left out. The confirmation has all of them."""
    first_share: Annotated[float, Field(gt=0, le=1)] = 0.25
    """The share of a trial's samples that run first: a setting that is worse on them than half of the others were is
    given up. 1: every trial runs as a whole."""
    seed: Annotated[int, Field(ge=0, le=2**31 - 1)] = 0
    """What the search draws with: the same seed and the same figures make the same search."""
    confirm: Confirm = Confirm()
    space: Annotated[dict[str, Range | Choices], Field(min_length=1)]
    """Engine options by dotted key, each with a list of values or a range. `engine.prefill.threshold` brings `policy:
    fixed` with it."""

    @field_validator("space")
    @classmethod
    def _values_once(cls, value: dict[str, Range | list[Any]]) -> dict[str, Range | list[Any]]:
        for key, values in value.items():
            if isinstance(values, list):
                told = [f"{type(each).__name__} {each!r}" for each in values]
                if twice := [each for index, each in enumerate(values) if told[index] in told[:index]]:
                    raise ValueError(f"`{key}` has {twice[0]!r} twice")
        return value

    @field_validator("slo")
    @classmethod
    def _asks_for_something(cls, value: Slo | None) -> Slo | None:
        if value is not None and not value.asked:
            raise ValueError("asks for nothing: give at least one of `ttft_ms`, `tpot_ms` and `e2e_ms`")
        return value

    @model_validator(mode="after")
    def _goodput_needs_an_slo(self) -> "Tune":
        if "goodput" in self.goals and self.slo is None:
            raise ValueError("`goodput` counts the requests that meet an `slo`: say which, as in `slo: {ttft_ms: 500}`")
        return self

    @property
    def goals(self) -> dict[Goal, float]:
        """The objective's parts with their weights."""
        return {self.objective: 1.0} if isinstance(self.objective, str) else {**self.objective}


class TuneFile(Config):
    """The YAML file that `assay tune` takes: an experiment, and what of its engine is searched."""

    name: Name | None = None
    """What the tuning is called; without it, the name of its file."""
    description: str | None = None
    """Recorded with the tuning, for the reader."""
    base: str
    """The experiment: a name in configs/experiments or the path of a YAML file."""
    tune: Tune
    tags: dict[str, str] = Field(default_factory=dict)
    """Recorded with the run of every trial and in MLflow, to find them again."""


TrialState = Literal["running", "measured", "pruned", "infeasible", "repeated"]
SideName = Literal["winner", "plan", "vllm"]
Why = Literal["out_of_memory", "refused", "failed", "timeout", "slo", "not_measured"]


class Trial(Config):
    """One setting, and what was found."""

    number: int
    """From 0, in the order in which they began."""
    reference: ReferenceName | None = None
    """The plan's own engine or vLLM's defaults; None for what the search chose."""
    settings: dict[str, Any]
    """Values by dotted key, as they were set; empty for the plan's own."""
    state: TrialState
    """`measured`: ran as a whole. `pruned`: given up after its first samples. `infeasible`: does not run, or misses the
    SLO. `repeated`: was measured before, as trial `same_as`, whose figures it has."""
    why: Why | None = None
    """Why it is infeasible."""
    reason: str | None = None
    """The same in words; also why it was pruned, or whose figures it has."""
    same_as: int | None = None
    value: float | None = None
    """The objective's value, of the whole load of a trial."""
    first_value: float | None = None
    """The objective's value after the first samples."""
    figures: dict[str, float] = Field(default_factory=dict)
    """What was measured, of as much as it ran."""
    rungs: int = 0
    """Parts of its load that ran: 1 the first samples, 2 all of them."""
    run_ids: list[str] = Field(default_factory=list)
    """Its runs, one for each part."""
    seconds: float | None = None
    """Wall time of all of it, the engine's start too."""
    started_at: str | None = None
    """ISO 8601, UTC."""
    violations: dict[str, float] = Field(default_factory=dict)
    """What the search was told of its constraints: above 0 is violated, by so much."""

    @property
    def feasible(self) -> bool:
        """Whether it ran as a whole within the SLO, or is the same as one that did."""
        return self.value is not None and self.state in ("measured", "repeated")


class Side(Config):
    """One of those that the confirmation runs in turns."""

    name: SideName
    values: list[float | None]
    """The objective's value by round; None where it failed in that round."""
    figures: list[dict[str, float]]
    """What was measured, by round; empty where it failed."""
    run_ids: list[str | None]
    reasons: list[str | None]
    """Why it failed, by round."""


class Against(Config):
    """The winner against one of the others, over the rounds in which both were measured."""

    name: Literal["plan", "vllm"]
    rounds: int
    ratio: float | None
    """How many times as good the winner is: the geometric mean over the rounds; above 1 is better, also where less is
    better. None without a round that has both."""
    lo: float | None
    """The lower end of its 95 % interval; None with fewer than two rounds."""
    hi: float | None
    verdict: Literal["better", "worse", "undecided"]


class Confirmation(Config):
    """The winner of the search under the full load."""

    trial: int
    rounds: int
    sides: list[Side]
    against: list[Against]


class Tuned(Config):
    """What a tuning found."""

    run_id: str
    name: str
    goals: dict[Goal, float]
    objective: str
    """What the value is, in words."""
    direction: Literal["higher", "lower"]
    latency: LatencyFigure = "e2e_ms.p50"
    """The latency that `front` means."""
    trials: list[Trial]
    front: list[int]
    """Trials that no other one beats in both throughput and latency, by falling throughput."""
    importances: dict[str, float]
    """The share of each key in what tells good settings from bad ones; they sum to 1. Empty with too few trials."""
    importances_note: str
    """What they rest on, or why there are none."""
    winner: int | None
    """The best trial of the search; None if nothing is feasible."""
    confirmation: Confirmation | None
    verdict: Literal["use", "keep"]
    """`use` the winner, or `keep` the plan."""
    answer: str
    """The same in a sentence, with the reason."""
    ended: Literal["trials", "time", "space"]
    """Why the search ended: all trials ran, the time was over, or every setting of the space was measured."""
    engine: dict[str, Any]
    """What to set, by dotted key: the winner's where it is to be used, else empty."""


class TuneResult(Config):
    """How a tuning ended."""

    run_id: str
    name: str
    status: Literal["finished", "failed", "cancelled"]
    exit_code: int
    """0 where the search found a setting that runs, the plan's own or another; 1 where none did."""
    report: str | None
    engine_file: str
    """The engine to use, as a file for `assay run X --set engine=FILE`."""
    tuned: Tuned
    warnings: list[str] = Field(default_factory=list)
