"""A verdict on speed: the numbers by hand and by scipy, the words, and how often they are right."""

import math

import numpy as np
import pytest
from scipy import stats

from tasks.load.verdict import MOST, ONE_RUN, Shift, middle, repeats_needed, verdict
from tests.bench.detection import Case, seen

BASE = [40.9, 41.5, 41.1, 40.8, 41.6]
SLOWER = [43.3, 42.9, 43.6, 43.1, 42.8]
TRIALS = 2000


def test_two_runs_are_welchs_test_on_logarithms_and_the_ratio_of_medians() -> None:
    found = verdict(candidate=SLOWER, baseline=BASE, direction="lower", paired=False)
    expected = stats.ttest_ind(np.log(SLOWER), np.log(BASE), equal_var=False)
    interval = expected.confidence_interval()
    assert found.ratio == pytest.approx(43.1 / 41.1)
    assert found.effect == pytest.approx(43.1 / 41.1 - 1)
    assert (found.lo, found.hi) == (pytest.approx(math.exp(interval.low)), pytest.approx(math.exp(interval.high)))
    assert found.p_value == pytest.approx(expected.pvalue)
    assert (found.word, found.repeats, found.method, found.n_needed) == ("worse", 5, "log_welch_t", None)


def test_one_run_is_paired_repeat_by_repeat() -> None:
    """Both get slower by half on the way: only pairs can tell."""
    drift = [1.0, 1.1, 1.2, 1.35, 1.5]
    ours = [value * way for value, way in zip(SLOWER, drift, strict=True)]
    theirs = [value * way for value, way in zip(BASE, drift, strict=True)]
    apart = verdict(candidate=ours, baseline=theirs, direction="lower", paired=False)
    found = verdict(candidate=ours, baseline=theirs, direction="lower", paired=True)
    expected = stats.ttest_rel(np.log(ours), np.log(theirs))
    assert (apart.word, found.word, found.method) == ("undecided", "worse", "log_paired_t")
    assert found.p_value == pytest.approx(expected.pvalue)
    assert found.lo is not None and found.ratio is not None and found.hi is not None
    assert found.lo <= found.ratio <= found.hi


def test_of_a_rate_more_is_better() -> None:
    words = [
        verdict(candidate=SLOWER, baseline=BASE, direction="higher", paired=False).word,
        verdict(candidate=BASE, baseline=SLOWER, direction="higher", paired=False).word,
        verdict(candidate=BASE, baseline=SLOWER, direction="lower", paired=False).word,
    ]
    assert words == ["better", "worse", "better"]


def test_the_word_same_takes_a_loss_that_is_ruled_out() -> None:
    near = [value * 1.001 for value in reversed(BASE)]
    noisy = [40.0, 42.6, 40.9, 39.8, 42.4]
    assert verdict(candidate=near, baseline=BASE, direction="lower", paired=False).word == "same"
    found = verdict(candidate=noisy, baseline=BASE, direction="lower", paired=False)
    assert found.word == "undecided"
    assert found.n_needed is not None and 5 < found.n_needed < 50
    assert verdict(candidate=noisy, baseline=BASE, direction="lower", paired=False, margin=0.1).word == "same"


def test_a_loss_within_the_margin_is_not_worse() -> None:
    def word(margin: float) -> str:
        return verdict(candidate=SLOWER, baseline=BASE, direction="lower", paired=False, margin=margin).word

    assert [word(0.0), word(0.02), word(0.05), word(0.1)] == ["worse", "worse", "undecided", "same"]
    with pytest.raises(ValueError, match=r"a margin is 0 or more, not -0\.1"):
        word(-0.1)


@pytest.mark.parametrize(("ours", "theirs"), [([43.0], BASE), (SLOWER, [41.0]), ([43.0], [41.0])])
def test_one_repeat_gives_no_verdict(ours: list[float], theirs: list[float]) -> None:
    found = verdict(candidate=ours, baseline=theirs, direction="lower", paired=False)
    assert (found.word, found.reason, found.n_needed) == ("undecided", ONE_RUN, 5)
    assert (found.lo, found.hi, found.p_value, found.method) == (None, None, None, "none")
    assert found.ratio is not None and found.ratio > 1


def test_a_repeat_without_a_number_counts_on_neither_side_of_a_pair() -> None:
    ours: list[float | None] = [None, *SLOWER]
    theirs: list[float | None] = [99.0, *BASE]
    with_gap = verdict(candidate=ours, baseline=theirs, direction="lower", paired=True)
    assert with_gap == verdict(candidate=SLOWER, baseline=BASE, direction="lower", paired=True)
    nothing = verdict(candidate=[None, None], baseline=BASE, direction="lower", paired=False)
    assert (nothing.word, nothing.ratio, nothing.reason) == (
        "undecided", None, "no repeat has this number on both sides"
    )  # fmt: skip


def test_a_rate_that_falls_to_nothing_is_worse() -> None:
    found = verdict(candidate=[0.0] * 5, baseline=[2.9, 3.1, 3.0, 3.2, 2.8], direction="higher", paired=False)
    assert (found.word, found.ratio, found.method) == ("worse", 0.0, "share_welch_t")
    assert found.lo is not None and found.lo < 0.1
    both = verdict(candidate=[0.0] * 5, baseline=[0.0] * 5, direction="higher", paired=False)
    assert (both.word, both.reason) == ("same", "every repeat of both is 0")
    up = verdict(candidate=[1.0, 1.2], baseline=[0.0, 0.0], direction="higher", paired=False)
    assert (up.word, up.ratio, up.reason) == ("undecided", None, "the baseline's median is 0: there is no ratio")


def test_repeats_that_are_all_alike_are_decided() -> None:
    def word(ours: float) -> str:
        return verdict(candidate=[ours] * 3, baseline=[41.0] * 3, direction="lower", paired=False).word

    assert [word(41.0), word(41.5), word(40.5)] == ["same", "worse", "better"]


@pytest.mark.parametrize("value", [-1.0, math.nan, math.inf])
def test_what_is_no_time_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="times and rates are numbers of 0 or more"):
        verdict(candidate=[value, 1.0], baseline=BASE, direction="lower", paired=False)
    with pytest.raises(ValueError, match="times and rates are numbers of 0 or more"):
        middle([value, 1.0])


def test_pairs_are_of_equal_length() -> None:
    with pytest.raises(ValueError, match="shorter"):
        verdict(candidate=BASE, baseline=BASE[1:], direction="lower", paired=True)


def shift(*, spread: float, n: int = 5, freedom: float = 1.0) -> Shift:
    return Shift(mean=0.0, half=1.0, n=n, spread=spread, freedom=freedom, p_value=None)


def test_the_repeats_needed_are_those_of_a_power_calculation() -> None:
    """One-sample t: half a spread away, 34 for a power of 80 % at 5 % (any table of sample sizes)."""
    assert repeats_needed(shift(spread=2.0), distance=1.0) == pytest.approx(34, abs=1)
    assert repeats_needed(shift(spread=1.0), distance=1.0) == pytest.approx(10, abs=1)
    assert repeats_needed(shift(spread=0.01), distance=1.0) == 6  # more than there were
    assert repeats_needed(shift(spread=1.0), distance=0.0) is None
    assert repeats_needed(shift(spread=100.0), distance=1.0) is None
    assert repeats_needed(shift(spread=1.0, n=MOST), distance=1.0) is None


def test_that_many_repeats_decide_four_times_of_five() -> None:
    needed = repeats_needed(shift(spread=0.05 * math.sqrt(2), freedom=2.0), distance=math.log(1.05))
    assert needed == pytest.approx(18, abs=1)
    share = seen(Case(spread=0.05, slower=0.05, repeats=needed), paired=False, number=TRIALS).shares["worse"]
    assert share == pytest.approx(0.8, abs=0.04)


def test_the_middle_of_one_point() -> None:
    found = middle(BASE)
    expected = stats.t.interval(0.95, 4, loc=np.mean(np.log(BASE)), scale=stats.sem(np.log(BASE)))
    assert found.value == 41.1
    assert (found.lo, found.hi) == tuple(pytest.approx(math.exp(end)) for end in expected)
    assert middle([3.0]).lo is None
    assert (middle([None]).value, middle([None]).repeats) == (None, 0)
    with_zero = middle([0.0, 0.0, 0.1])
    assert (with_zero.method, with_zero.value, with_zero.lo) == ("t", 0.0, 0.0)


def test_a_middle_holds_its_median_as_often_as_it_claims() -> None:
    """Of five repeats, and of three: percentiles of a bootstrap hold it in 94 % and in 76 %."""
    random = np.random.default_rng(3)
    for repeats in (3, 5):
        drawn = 40 * np.exp(random.normal(0, 0.015, size=(TRIALS, repeats)))
        found = [middle(values) for values in drawn.tolist()]
        held = sum(each.lo is not None and each.hi is not None and each.lo <= 40 <= each.hi for each in found)
        assert 0.935 < held / TRIALS < 0.975


@pytest.mark.parametrize("paired", [False, True])
@pytest.mark.parametrize("spread", [0.005, 0.01, 0.015])
def test_five_repeats_tell_five_percent_and_raise_no_alarm(spread: float, paired: bool) -> None:
    slower = seen(Case(spread=spread, slower=0.05, repeats=5), paired=paired, number=TRIALS)
    assert slower.shares["worse"] >= 0.9
    equal = seen(Case(spread=spread, slower=0.0, repeats=5), paired=paired, number=TRIALS)
    assert equal.shares["worse"] <= 0.05 and equal.shares["better"] <= 0.05


def test_above_that_spread_it_is_not_decided_and_says_what_would() -> None:
    slower = seen(Case(spread=0.05, slower=0.05, repeats=5), paired=False, number=TRIALS)
    assert slower.shares["undecided"] > 0.5 and slower.shares["same"] < 0.01
    assert slower.n_needed is not None and 10 <= slower.n_needed <= 50
    equal = seen(Case(spread=0.05, slower=0.0, repeats=5), paired=False, number=TRIALS)
    assert equal.shares["worse"] <= 0.05 and equal.shares["undecided"] > 0.8
    assert equal.n_needed is not None and 20 <= equal.n_needed <= 100
