"""What a comparison of two runs is made of."""

from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from schemas.metric import Comparison
from tasks.compare.read import PERF
from tasks.load.verdict import Verdict

Word = Literal["better", "same", "worse", "undecided"]
WORDS: tuple[Word, ...] = ("worse", "undecided", "better", "same")
"""The verdicts, what a reader must see first before the rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of the two: a run, with the arm where one was named (None: every arm that both have).

    answers: requests of the arms compared; reused: those of them whose answer an earlier run gave, which a gate must
    not count."""

    run_id: str
    name: str
    status: str
    started_at: datetime | None
    arm: str | None
    model: str | None
    answers: int
    reused: int

    @property
    def label(self) -> str:
        """`20261128T002120-909b0d:guided`."""
        return self.run_id if self.arm is None else f"{self.run_id}:{self.arm}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One dataset, metric and pair of arms: the comparison, and the samples that are in no pair.

    only_candidate, only_baseline: samples that the other side does not have at all. unscored_candidate,
    unscored_baseline: samples that both have and that got no value there. clusters: how many the pairs are in, None
    without any. repeats: the most answers that one sample has. prompts_changed: pairs whose prompts differ, None where
    a run has no record of them."""

    comparison: Comparison
    unit: str
    direction: Literal["higher", "lower"]
    metric_version: int
    only_candidate: int
    only_baseline: int
    unscored_candidate: int
    unscored_baseline: int
    clusters: int | None
    repeats: int
    prompts_changed: int | None

    @property
    def name(self) -> str:
        """`arithmetic.exact_match`."""
        return f"{self.comparison.dataset}.{self.comparison.metric}"

    @property
    def arms(self) -> str:
        """`free`, or `guided against free`."""
        own, other = self.comparison.candidate_arm, self.comparison.baseline_arm
        return own if own == other else f"{own} against {other}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """What else differs between the two. None: that side has none, or it was not recorded."""

    what: str
    candidate: str | None
    baseline: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedResult:
    """One number of one measured point, over its repeats. point_id: the candidate's; name: that of its load alone.
    metric: as in `perf.tpot_ms.p50`. paired: both arms of one run, measured in turns."""

    point_id: str
    name: str
    candidate_arm: str
    baseline_arm: str
    metric: str
    unit: str
    direction: Literal["higher", "lower"]
    found: Verdict
    margin: float
    paired: bool
    p_adjusted: float | None = None

    @property
    def figure(self) -> str:
        """`tpot_ms.p50`."""
        return self.metric.removeprefix(PERF)

    @property
    def arms(self) -> str:
        """`free`, or `guided against free`."""
        own, other = self.candidate_arm, self.baseline_arm
        return own if own == other else f"{own} against {other}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """One timing metric of the two, and candidate / baseline. Of one run each: no verdict follows."""

    name: str
    arm: str | None
    unit: str
    direction: str
    candidate: float | None
    baseline: float | None
    ratio: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One answer to a sample: value, what was taken from it, why it has no value, and its text where it is held."""

    repeat: int
    value: float | None
    extracted: str | None
    reason: str | None
    request_id: str | None
    output: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Flip:
    """One sample whose value differs. won: the candidate is better. candidate and baseline: the
    means over its repeats. target: JSON text, None where it was not recorded."""

    dataset: str
    metric: str
    candidate_arm: str
    baseline_arm: str
    sample_id: str
    change: Literal["won", "lost"]
    candidate: float
    baseline: float
    candidate_answers: tuple[Answer, ...]
    baseline_answers: tuple[Answer, ...]
    target: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunComparison:
    """Two runs compared. flips: every sample that changed, the largest loss first, then the largest gain, result by
    result; the first of them hold their answers' texts. notes: what a reader must know before trusting a verdict.
    speed: point by point; empty where the two have no measured load in common."""

    candidate: Side
    baseline: Side
    margin: float
    results: tuple[Result, ...]
    flips: tuple[Flip, ...]
    differences: tuple[Difference, ...]
    timings: tuple[Timing, ...]
    notes: tuple[str, ...]
    compared_at: datetime
    speed: tuple[SpeedResult, ...] = ()

    @property
    def verdicts(self) -> list[Word]:
        """Those of the answers, then those of speed."""
        return [*(each.comparison.verdict for each in self.results), *(each.found.word for each in self.speed)]

    @property
    def counts(self) -> dict[Word, int]:
        """How many results have each verdict; those of speed not among them."""
        found = Counter(result.comparison.verdict for result in self.results)
        return {word: found[word] for word in WORDS}

    @property
    def arms(self) -> str | None:
        """The arms compared, where all results are of the same; else None."""
        found = {result.arms for result in self.results}
        return found.pop() if len(found) == 1 else None

    def of(self, word: Word) -> list[Result]:
        """The results with this verdict."""
        return [result for result in self.results if result.comparison.verdict == word]

    def flips_of(self, result: Result) -> list[Flip]:
        """The samples that changed under one result's dataset, metric and arms."""
        own = result.comparison
        key = (own.dataset, own.metric, own.candidate_arm, own.baseline_arm)
        return [
            each for each in self.flips if (each.dataset, each.metric, each.candidate_arm, each.baseline_arm) == key
        ]
