"""Error bars and tests, against closed forms, published values and scipy."""

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as reference

from tasks.score.stats.bootstrap import bootstrap
from tasks.score.stats.clustered import clustered
from tasks.score.stats.holm import holm
from tasks.score.stats.mean_stderr import mean_stderr
from tasks.score.stats.paired import mcnemar_exact, paired, tango
from tasks.score.stats.verdict import decide
from tasks.score.stats.wilson import effective_n, rate_interval, wilson

near = pytest.approx


def test_mean_by_hand_and_by_scipy() -> None:
    estimate = mean_stderr([1.0, 2.0, 3.0, 6.0])
    assert estimate.value == 3
    assert estimate.stderr == near(math.sqrt(14 / 3 / 4))
    lo, hi = reference.t.interval(0.95, 3, loc=3, scale=math.sqrt(14 / 3 / 4))
    assert (estimate.lo, estimate.hi) == (near(lo), near(hi))


def test_too_few_values_have_no_error() -> None:
    assert mean_stderr([]).value is None
    one = mean_stderr([0.5])
    assert (one.value, one.n, one.stderr, one.lo) == (0.5, 1, None, None)


def test_wilson_published() -> None:
    """Newcombe 1998 (Statistics in Medicine 17, 857-872), table I: the score method without continuity correction."""
    for hits, n, lo, hi in [
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ]:
        assert wilson(rate=hits / n, n=n) == (near(lo, abs=5e-5), near(hi, abs=5e-5))


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_is_scipys_and_mirrors(counts: tuple[int, int]) -> None:
    hits, n = counts
    lo, hi = wilson(rate=hits / n, n=n)
    expected = reference.binomtest(hits, n).proportion_ci(method="wilson")
    assert (lo, hi) == (near(expected.low, abs=1e-9), near(expected.high, abs=1e-9))
    assert 0 <= lo <= hits / n <= hi <= 1
    mirrored = wilson(rate=1 - hits / n, n=n)
    assert (1 - mirrored[1], 1 - mirrored[0]) == (near(lo, abs=1e-9), near(hi, abs=1e-9))


@pytest.mark.parametrize(("rate", "n"), [(1.1, 5), (0.5, 0)])
def test_wilson_refuses_what_is_no_rate(rate: float, n: float) -> None:
    with pytest.raises(ValueError, match="no rate"):
        wilson(rate=rate, n=n)


def test_clustered_by_hand() -> None:
    values = [1.0, 1.0, 0.0, 0.0, 1.0, 0.0]
    estimate = clustered(values, clusters=["a", "a", "b", "b", "c", "c"])
    assert estimate.value == 0.5
    assert estimate.stderr == near(math.sqrt(3 / 2 * (1 + 1 + 0)) / 6)
    half = reference.t.ppf(0.975, 2) * estimate.stderr
    assert (estimate.lo, estimate.hi) == (near(0.5 - half), near(0.5 + half))


def test_one_cluster_has_no_error() -> None:
    estimate = clustered([0.0, 1.0], clusters=["a", "a"])
    assert (estimate.value, estimate.stderr, estimate.lo) == (0.5, None, None)
    assert rate_interval([0.0, 1.0], clusters=["a", "a"]).lo is None


@settings(deadline=None, max_examples=50)
@given(st.lists(st.floats(-100, 100), min_size=2, max_size=40))
def test_clusters_of_one_are_no_clusters(values: list[float]) -> None:
    assert clustered(values, clusters=range(len(values))).stderr == near(mean_stderr(values).stderr, abs=1e-9)


def test_effective_n() -> None:
    values, clusters = [1.0] * 10 + [0.0] * 10, [i // 2 for i in range(20)]
    assert effective_n(values, clusters=clusters) == near(9.0)  # pairs of copies: C-1 of C pairs
    assert effective_n([1.0] * 20, clusters=clusters) == 10
    assert effective_n([1.0, 0.0] * 10, clusters=clusters) == 10  # every cluster alike: nothing to learn from that
    wide, narrow = rate_interval(values, clusters=clusters), rate_interval(values)
    assert wide.lo is not None
    assert narrow.lo is not None
    assert wide.lo < narrow.lo
    assert wide.method == "wilson_clustered"


def test_bootstrap_is_seeded_and_agrees_with_the_formula() -> None:
    values = [random.Random(5).gauss(0, 1) + i % 7 for i in range(200)]
    first, again, other = bootstrap(values, seed=1), bootstrap(values, seed=1), bootstrap(values, seed=2)
    assert first == again
    assert first != other
    assert first.estimate.stderr == near(mean_stderr(values).stderr, rel=0.05)
    assert "B=10000" in first.estimate.method


def test_bootstrap_over_clusters_sees_them() -> None:
    values = [float(i // 20 % 2) for i in range(400)]
    clusters = [i // 20 for i in range(400)]
    alone, together = bootstrap(values).estimate, bootstrap(values, clusters=clusters).estimate
    assert alone.stderr is not None
    assert together.stderr == near(clustered(values, clusters=clusters).stderr, rel=0.05)
    assert together.stderr > 3 * alone.stderr
    assert bootstrap(values, clusters=["one"] * 400).estimate.lo is None


def test_bootstrap_covers() -> None:
    """A 95 % interval holds the truth in about 95 of 100 draws (200 of them here, 40 values each)."""
    source = random.Random(0)
    inside = 0
    for trial in range(200):
        drawn = bootstrap([source.expovariate(1) for _ in range(40)], replicates=500, seed=trial).estimate
        assert drawn.lo is not None
        assert drawn.hi is not None
        inside += drawn.lo <= 1 <= drawn.hi
    assert 0.86 <= inside / 200 <= 0.99


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 300), st.integers(0, 300))
def test_mcnemar_is_the_binomial_test(wins: int, losses: int) -> None:
    flips = wins + losses
    expected = reference.binomtest(wins, flips).pvalue if flips else 1.0
    assert mcnemar_exact(wins=wins, losses=losses) == near(expected, rel=1e-6, abs=1e-12)


@pytest.mark.parametrize(
    ("wins", "losses", "n", "lo", "hi"),
    [
        (1, 7, 21, -0.517, -0.026),  # Fagerland, Lydersen and Laake 2014: airway hyper-responsiveness
        (0, 1, 44, -0.118, 0.059),  # Tango 1998: disinfection of contact lenses
        (12, 2, 50, 0.0611, 0.3447),
    ],
)
def test_tango(wins: int, losses: int, n: int, lo: float, hi: float) -> None:
    assert tango(wins=wins, losses=losses, n=n) == (near(lo, abs=5e-4), near(hi, abs=5e-4))


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 400))
def test_tango_without_flips_has_a_closed_form(n: int) -> None:
    bound = 1.959963984540054**2 / (n + 1.959963984540054**2)
    assert tango(wins=0, losses=0, n=n) == (near(-bound, abs=1e-9), near(bound, abs=1e-9))


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 60), st.integers(0, 60), st.integers(0, 60))
def test_tango_mirrors_and_holds_the_estimate(wins: int, losses: int, same: int) -> None:
    n = wins + losses + same
    if n == 0:
        return
    lo, hi = tango(wins=wins, losses=losses, n=n)
    assert -1 <= lo <= (wins - losses) / n <= hi <= 1
    assert tango(wins=losses, losses=wins, n=n) == (near(-hi, abs=1e-9), near(-lo, abs=1e-9))


def test_tango_covers() -> None:
    """Over all tables of 20 pairs with 20 % wins and 10 % losses, the interval holds 0.1 with about 95 %."""
    covered = 0.0
    for wins in range(21):
        for losses in range(21 - wins):
            lo, hi = tango(wins=wins, losses=losses, n=20)
            if lo <= 0.1 <= hi:
                covered += float(reference.multinomial.pmf([wins, losses, 20 - wins - losses], 20, [0.2, 0.1, 0.7]))
    assert 0.93 <= covered <= 0.98


def test_paired_right_and_wrong() -> None:
    result = paired(candidate=[1, 1, 1, 0, 1, 0], baseline=[0, 0, 1, 1, 0, 0])
    assert (result.wins, result.losses, result.ties, result.n) == (3, 1, 2, 6)
    assert result.effect == near(2 / 6)
    assert result.p_value == near(reference.binomtest(3, 4).pvalue)
    assert (result.lo, result.hi) == tango(wins=3, losses=1, n=6)


def test_paired_shares_use_the_paired_t() -> None:
    ours, theirs = [0.5, 0.75, 1.0, 0.25, 0.6], [0.25, 0.5, 1.0, 0.5, 0.1]
    result = paired(candidate=ours, baseline=theirs)
    expected = reference.ttest_rel(ours, theirs)
    interval = expected.confidence_interval(0.95)
    assert result.method == "paired_t"
    assert result.p_value == near(expected.pvalue)
    assert (result.lo, result.hi) == (near(interval.low), near(interval.high))


def test_paired_means_over_repeats_are_no_coin_flips() -> None:
    assert paired(candidate=[1, 0, 1], baseline=[0, 0, 1], averaged=True).method == "paired_t"


def test_no_difference_is_no_certainty() -> None:
    for result in (
        paired(candidate=[0.5] * 30, baseline=[0.5] * 30),
        paired(candidate=[0, 1] * 15, baseline=[0, 1] * 15),
    ):
        assert (result.effect, result.p_value) == (0, 1)
        assert (result.lo, result.hi) == (near(-0.1135, abs=1e-4), near(0.1135, abs=1e-4))
    few = paired(candidate=[0, 1] * 15, baseline=[0, 1] * 15, clusters=[i // 10 for i in range(30)])
    assert few.lo == near(-0.5615, abs=1e-4)
    unbounded = paired(candidate=[5.0, 5.0], baseline=[4.0, 4.0])
    assert (unbounded.lo, unbounded.p_value) == (None, None)


def test_paired_clusters_use_the_bootstrap() -> None:
    ours = [float(i % 3 > 0) for i in range(60)]
    theirs = [float(i % 4 > 1) for i in range(60)]
    result = paired(candidate=ours, baseline=theirs, clusters=[i // 6 for i in range(60)], seed=3)
    assert result.method.startswith("cluster_bootstrap")
    assert result.lo is not None
    assert result.hi is not None
    assert result.effect is not None
    assert result.lo <= result.effect <= result.hi
    assert result == paired(candidate=ours, baseline=theirs, clusters=[i // 6 for i in range(60)], seed=3)


def test_lower_is_better_turns_wins_only() -> None:
    result = paired(candidate=[0.1, 0.2, 0.3], baseline=[0.4, 0.4, 0.2], lower_is_better=True)
    assert (result.wins, result.losses) == (2, 1)
    assert result.effect is not None
    assert result.effect < 0


def test_nothing_to_pair() -> None:
    result = paired(candidate=[], baseline=[])
    assert (result.n, result.effect, result.p_value, result.method) == (0, None, None, "none")


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == [near(0.03), near(0.06), near(0.06), near(0.02)]
    assert holm([0.5, None, 0.4]) == [near(0.8), None, near(0.8)]
    assert holm([]) == []


@settings(deadline=None, max_examples=50)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_holm_properties(p_values: list[float]) -> None:
    adjusted = holm(p_values)
    for raw, value in zip(p_values, adjusted, strict=True):
        assert value is not None
        assert raw <= value <= 1
    by_raw = [value for _, value in sorted(zip(p_values, adjusted, strict=True))]
    assert by_raw == sorted(by_raw)


@pytest.mark.parametrize(
    ("effect", "lo", "hi", "lower", "word"),
    [
        (0.05, 0.01, 0.09, False, "better"),
        (0.0, -0.015, 0.015, False, "same"),
        (-0.01, -0.0199, -0.001, False, "same"),
        (0.0, -0.02, 0.02, False, "undecided"),
        (-0.05, -0.08, -0.021, False, "worse"),
        (-0.05, -0.08, -0.02, False, "undecided"),
        (-0.05, -0.09, -0.01, True, "better"),
        (0.05, 0.03, 0.07, True, "worse"),
        (None, None, None, False, "undecided"),
    ],
)
def test_verdicts(effect: float | None, lo: float | None, hi: float | None, lower: bool, word: str) -> None:
    assert decide(effect=effect, lo=lo, hi=hi, margin=0.02, n=100, lower_is_better=lower).word == word


def test_n_that_would_decide() -> None:
    decision = decide(effect=0.0, lo=-0.04, hi=0.04, margin=0.02, n=100)
    assert (decision.word, decision.n_needed) == ("undecided", 400)
    assert decide(effect=-0.02, lo=-0.06, hi=0.02, margin=0.02, n=100).n_needed is None
    assert decide(effect=0.0, lo=-0.02, hi=0.02, margin=0.02, n=100).n_needed == 101
    with pytest.raises(ValueError, match="margin"):
        decide(effect=0.0, lo=-0.1, hi=0.1, margin=-0.01, n=10)


def test_what_a_margin_can_decide_at_five_percent_flips() -> None:
    lo, hi = tango(wins=33, losses=33, n=1319)
    assert decide(effect=0.0, lo=lo, hi=hi, margin=0.01, n=1319).word == "undecided"
    assert decide(effect=0.0, lo=lo, hi=hi, margin=0.02, n=1319).word == "same"
