"""Is a load point faster or slower than another, and by more than its repeats differ among themselves?

Each repeat gives one number (its tpot_ms p50, say). What is told is the ratio of the two medians, candidate over
baseline. Its interval is Student's t on the logarithms of the repeats: of the differences of each pair where both
points were measured in turns in one run (A B B A), so that what drifts meanwhile is in neither; Welch's (1947) where
they are of two runs. A slow-down multiplies, and so does noise: on logarithms both add. The interval always holds the
ratio. Why no bootstrap: docs/decisions/015-verdicts-on-speed.md, with the numbers of `python -m tests.bench.detection`.
"""

import math
import statistics
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tasks.cells.spread import t_test
from tasks.score.stats.estimate import t_two_sided, t_value
from tasks.score.stats.mean_stderr import mean_stderr

Word = Literal["better", "same", "worse", "undecided"]
Direction = Literal["higher", "lower"]

ALIKE = 0.02
"""A loss that is shown to be smaller than this share, and not shown to be one, is `same`."""
REPEATS = 5
"""What is suggested where there is one repeat: it tells 5 % at a spread of 1.5 %."""
MOST = 1000
"""The most repeats that a benchmark may ask for; what needs more cannot be decided."""
ONE_RUN = f"one run gives no verdict: repeats: {REPEATS}"
_CONFIDENCE = 0.95
_POWER = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class Shift:
    """How far apart two points are, or how far one is from 1, on the scale that its interval is made on.

    mean: of the repeats; half: half of the 95 % interval's width. spread: the standard deviation of one repeat (of a
    pair, of the difference of one repeat of each side). freedom: degrees of freedom for each repeat after the first: 1,
    with two sides up to 2. p_value: of no shift; None without any spread."""

    mean: float
    half: float
    n: int
    spread: float
    freedom: float
    p_value: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What came of two points, under one metric. ratio: candidate / baseline, of their medians over the repeats; lo and
    hi: its 95 % interval. repeats: of the side that has fewer, or pairs. n_needed: repeats of each side that would
    decide it (see `repeats_needed`); None where it is decided, or where no number would. reason: why there is no
    interval."""

    word: Word
    ratio: float | None
    lo: float | None
    hi: float | None
    candidate: float | None
    baseline: float | None
    repeats: int
    n_needed: int | None
    p_value: float | None
    method: str
    reason: str | None = None
    shift: Shift | None = None

    @property
    def effect(self) -> float | None:
        """ratio - 1: 0.05 is 5 % more than the baseline."""
        return None if self.ratio is None else self.ratio - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Middle:
    """One point's median over its repeats, with its 95 % interval."""

    value: float | None
    lo: float | None
    hi: float | None
    repeats: int
    method: str
    shift: Shift | None = None


def verdict(
    *,
    candidate: Sequence[float | None],
    baseline: Sequence[float | None],
    direction: Direction,
    paired: bool,
    margin: float = 0.0,
    alike: float = ALIKE,
) -> Verdict:
    """Is the candidate better, worse, the same?

    candidate, baseline: a number a repeat, in the order of the repeats, None where a repeat has none (it counts on
    neither side of a pair). paired: repeat by repeat, both measured in turns in one run; else as two runs. margin: the
    share of a loss that is no `worse` yet (0.05: up to 1.05 times the time, down to 1 / 1.05 of the rate).

    With the interval of the gain: `better` where it lies above 0; `worse` below -margin; `same` where neither, and its
    lower end is above -margin or -alike, whichever is further; else `undecided`. One repeat is always `undecided`.
    Raises ValueError for a negative margin, a number below 0 or none, and pairs of unequal length."""
    if margin < 0 or alike < 0:
        raise ValueError(f"a margin is 0 or more, not {min(margin, alike)}")
    ours, theirs = _known(candidate, baseline, paired=paired)
    medians = [statistics.median(side) if side else None for side in (ours, theirs)]
    unable = _unable(ours, theirs)
    if unable is not None:
        word, reason = unable
        return Verdict(
            word=word,
            ratio=medians[0] / medians[1] if medians[0] is not None and medians[1] else None,
            lo=None,
            hi=None,
            candidate=medians[0],
            baseline=medians[1],
            repeats=min(len(ours), len(theirs)),
            n_needed=REPEATS if reason == ONE_RUN else None,
            p_value=None,
            method="none",
            reason=reason,
        )
    own, other = statistics.median(ours), statistics.median(theirs)
    scale = _Scale(logs=min(*ours, *theirs) > 0, unit=other)
    sides = [[scale.of_value(value) for value in side] for side in (ours, theirs)]
    found = _paired(*sides) if paired else _apart(*sides)
    lo = min(own / other, scale.ratio(found.mean - found.half))
    hi = max(own / other, scale.ratio(found.mean + found.half))
    allowed = [math.log1p(share) if scale.logs else share for share in (margin, max(margin, alike))]
    ends = scale.of_ratio(lo), scale.of_ratio(hi)
    word, needed = _decided(found, ends=ends, lower_is_better=direction == "lower", margin=allowed[0], near=allowed[1])
    return Verdict(
        word=word,
        ratio=own / other,
        lo=lo,
        hi=hi,
        candidate=own,
        baseline=other,
        repeats=found.n,
        n_needed=needed,
        p_value=found.p_value,
        method=f"{'log' if scale.logs else 'share'}_{'paired_t' if paired else 'welch_t'}",
        shift=found,
    )


def middle(values: Sequence[float | None]) -> Middle:
    """One point's median with an interval: Student's t on the logarithms, on the numbers themselves where one is 0. It
    always holds the median. None of fewer than two repeats. Raises ValueError for a number below 0 or none."""
    known = _numbers(values)
    value = statistics.median(known) if known else None
    if value is None or len(known) == 1:
        return Middle(value=value, lo=None, hi=None, repeats=len(known), method="none")
    logs = min(known) > 0
    found = _of_one([math.log(each) for each in known] if logs else known)
    lo, hi = found.mean - found.half, found.mean + found.half
    if logs:
        lo, hi = math.exp(lo), math.exp(hi)
    return Middle(
        value=value,
        lo=max(0.0, min(value, lo)),
        hi=max(value, hi),
        repeats=len(known),
        method="log_t" if logs else "t",
        shift=found,
    )


def repeats_needed(shift: Shift, *, distance: float) -> int | None:
    """The repeats that would tell it from something so far away, if mean and spread stay as they are: the fewest, more
    than there were, whose interval leaves it out in 4 of 5 such runs. None where more than MOST would be needed.

    (t(0.975) + t(0.8)) spread / sqrt(n) <= distance, with freedom (n - 1) degrees: the usual power calculation."""

    def is_enough(n: int) -> bool:
        degrees = shift.freedom * (n - 1)
        reach = t_value(_CONFIDENCE, degrees=degrees) + t_value(2 * _POWER - 1, degrees=degrees)
        return reach * shift.spread <= abs(distance) * math.sqrt(n)

    fewest = max(shift.n + 1, 2)
    if fewest > MOST or not is_enough(MOST):
        return None
    return fewest + bisect_left(range(fewest, MOST + 1), True, key=is_enough)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scale:
    """Where the interval of a ratio is made: on logarithms; where a repeat is 0, on shares of `unit`, the baseline's
    median."""

    logs: bool
    unit: float

    def of_value(self, value: float) -> float:
        return math.log(value) if self.logs else value / self.unit

    def of_ratio(self, ratio: float) -> float:
        return math.log(ratio) if self.logs else ratio - 1

    def ratio(self, shift: float) -> float:
        return math.exp(shift) if self.logs else 1 + shift


def _known(
    candidate: Sequence[float | None], baseline: Sequence[float | None], *, paired: bool
) -> tuple[list[float], list[float]]:
    if not paired:
        return _numbers(candidate), _numbers(baseline)
    both = [pair for pair in zip(candidate, baseline, strict=True) if None not in pair]
    return _numbers([pair[0] for pair in both]), _numbers([pair[1] for pair in both])


def _numbers(values: Sequence[float | None]) -> list[float]:
    known = [value for value in values if value is not None]
    if any(not 0 <= value < math.inf for value in known):
        raise ValueError("times and rates are numbers of 0 or more")
    return known


def _unable(ours: Sequence[float], theirs: Sequence[float]) -> tuple[Word, str] | None:
    """Why two sides have no interval."""
    if not ours or not theirs:
        return "undecided", "no repeat has this number on both sides"
    if min(len(ours), len(theirs)) == 1:
        return "undecided", ONE_RUN
    if not any(ours) and not any(theirs):
        return "same", "every repeat of both is 0"
    if statistics.median(theirs) == 0:
        return "undecided", "the baseline's median is 0: there is no ratio"
    return None


def _of_one(values: Sequence[float]) -> Shift:
    found = mean_stderr(values)
    assert found.value is not None and found.stderr is not None and found.hi is not None  # noqa: S101 - two or more
    return Shift(
        mean=found.value,
        half=found.hi - found.value,
        n=found.n,
        spread=found.stderr * math.sqrt(found.n),
        freedom=1.0,
        p_value=t_test(found.value, found.stderr, n=found.n),
    )


def _paired(ours: Sequence[float], theirs: Sequence[float]) -> Shift:
    return _of_one([own - other for own, other in zip(ours, theirs, strict=True)])


def _apart(ours: Sequence[float], theirs: Sequence[float]) -> Shift:
    """Welch's: each side has a spread of its own."""
    variances = [statistics.variance(side) for side in (ours, theirs)]
    squares = [variance / len(side) for variance, side in zip(variances, (ours, theirs), strict=True)]
    mean, stderr = statistics.fmean(ours) - statistics.fmean(theirs), math.sqrt(sum(squares))
    n = min(len(ours), len(theirs))
    if stderr == 0:
        return Shift(mean=mean, half=0.0, n=n, spread=0.0, freedom=2.0, p_value=None)
    parts = [square**2 / (len(side) - 1) for square, side in zip(squares, (ours, theirs), strict=True)]
    degrees = sum(squares) ** 2 / sum(parts)
    return Shift(
        mean=mean,
        half=t_value(_CONFIDENCE, degrees=degrees) * stderr,
        n=n,
        spread=math.sqrt(sum(variances)),
        freedom=sum(variances) ** 2 / sum(variance**2 for variance in variances),
        p_value=t_two_sided(mean / stderr, degrees=degrees),
    )


def _decided(
    found: Shift, *, ends: tuple[float, float], lower_is_better: bool, margin: float, near: float
) -> tuple[Word, int | None]:
    """The word; for undecided, the fewest repeats that would make it another one. ends, margin and near are on the
    scale of the shift."""
    low, high, gain = *ends, found.mean
    if lower_is_better:
        low, high, gain = -high, -low, -gain
    if low > 0:
        return "better", None
    if high < -margin:
        return "worse", None
    if low > -near or low == high == 0:
        return "same", None
    distances = [distance for distance in (gain, -margin - gain, gain + near) if distance > 0]
    needed = [repeats_needed(found, distance=distance) for distance in distances]
    return "undecided", min((n for n in needed if n is not None), default=None)
