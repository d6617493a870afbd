"""A performance figure of a candidate over that of a baseline: the ratio of their medians over repeats.

Each repeat gives one number an arm (its tpot_ms p50, say), and the repeats of both are interleaved (A B B A), so that
a machine that warms up or slows down meets both alike. The interval is the percentile bootstrap (Efron 1979) over
repeats, each side's drawn by themselves. A median of few repeats takes few values, and its plain percentiles lie wider
apart than they claim: where nothing differs, 2.8 to 4.4 % of 95 % intervals leave out 1, for 5 to 20 repeats. So each
tail is 1.2 times as large (3 % for a 95 % interval), which makes that 3.4 to 5 %.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from tasks.score.stats.bootstrap import REPLICATES
from tasks.score.stats.verdict import Decision, decide

FEWEST_REPEATS = 5
"""Of fewer on a side the bootstrap's percentiles are the extremes, and equals are told apart too often: no verdict."""

_TAILS = 1.2
"""Each tail, by what it would be for plain percentiles. Calibrated by simulation: tests/unit/score/test_false_alarms.py
says whether it still holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RatioOfMedians:
    """ratio = median(candidate) / median(baseline), its interval, and the repeats of the side that has fewer. stderr:
    the standard deviation of the replicates. None for what the repeats do not allow."""

    ratio: float | None
    n: int
    stderr: float | None
    lo: float | None
    hi: float | None
    method: str


def ratio_of_medians(
    *,
    candidate: Sequence[float],
    baseline: Sequence[float],
    replicates: int = REPLICATES,
    seed: int = 0,
    confidence: float = 0.95,
) -> RatioOfMedians:
    """The ratio and its interval; no interval for fewer than FEWEST_REPEATS repeats on a side. The same seed gives the
    same numbers. Raises ValueError for a repeat that is not above 0: times, rates and bytes are."""
    if any(not 0 < value < math.inf for value in (*candidate, *baseline)):
        raise ValueError("a ratio of medians is of numbers above 0")
    n = min(len(candidate), len(baseline))
    ratio = statistics.median(candidate) / statistics.median(baseline) if n else None
    if n < FEWEST_REPEATS:
        return RatioOfMedians(ratio=ratio, n=n, stderr=None, lo=None, hi=None, method="none")
    import numpy as np  # noqa: PLC0415 - only this part of assay's statistics needs arrays

    random = np.random.default_rng(seed)
    ours, theirs = (
        np.median(np.asarray(side)[random.integers(0, len(side), size=(replicates, len(side)))], axis=1)
        for side in (candidate, baseline)
    )
    drawn = ours / theirs
    tail = _TAILS * (1 - confidence) / 2
    lo, hi = (float(edge) for edge in np.quantile(drawn, [tail, 1 - tail]))
    method = f"ratio_of_medians_bootstrap(B={replicates}, seed={seed})"
    return RatioOfMedians(ratio=ratio, n=n, stderr=float(np.std(drawn, ddof=1)), lo=lo, hi=hi, method=method)


def decide_ratio(found: RatioOfMedians, *, margin: float, lower_is_better: bool) -> Decision:
    """The verdict on a ratio, by the rule for differences on its logarithm. margin: the share by which the candidate
    may be worse and still count as `same` (0.05: up to 1.05 times the time, down to 1 / 1.05 of the rate).

    One repeat, and any number under FEWEST_REPEATS, is `undecided`, with that number as the one needed.
    """
    if found.ratio is None:
        return Decision(word="undecided", n_needed=None)
    if found.lo is None or found.hi is None:
        return Decision(word="undecided", n_needed=FEWEST_REPEATS)
    return decide(
        effect=math.log(found.ratio),
        lo=math.log(found.lo),
        hi=math.log(found.hi),
        margin=math.log1p(margin),
        n=found.n,
        lower_is_better=lower_is_better,
    )
