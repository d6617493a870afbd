"""Error bars and tests, against closed forms, published values and scipy."""

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as reference

from tasks.score.stats.bootstrap import bootstrap
from tasks.score.stats.clustered import clustered, effective_clusters
from tasks.score.stats.holm import holm
from tasks.score.stats.mean_stderr import mean_stderr
from tasks.score.stats.no_spread import no_spread
from tasks.score.stats.paired import FEW_CLUSTERS, mcnemar_exact, paired, tango
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


def test_clustered_is_statsmodels() -> None:
    """statsmodels 0.15.0: OLS of a constant, cov_type="cluster", use_t=True."""
    values = [-0.652, 0.025, 1.864, 1.059, -1.241, 0.395, -0.023, 0.749, -1.008, 0.842, 1.035, 2.376, 1.117, 1.311]
    values += [-0.693, 3.253, -0.916, 2.102, 0.67, 0.119, 0.344, 0.528, 1.58, 1.09, 2.683, -0.63, 1.197, 0.308]
    values += [1.976, -0.918]
    clusters = [cluster for cluster, size in enumerate([1, 2, 3, 4, 5, 6, 9]) for _ in range(size)]
    estimate = clustered(values, clusters=clusters)
    assert estimate.stderr == near(0.15288069, abs=1e-8)
    assert (estimate.lo, estimate.hi) == (near(0.31064777, abs=1e-7), near(1.0588189, abs=1e-7))


def test_effective_clusters() -> None:
    assert effective_clusters([7, 7, 7]) == 3
    assert effective_clusters([1, 1, 1, 97]) == near(10_000 / 9412)
    with pytest.raises(ValueError, match="no cluster"):
        effective_clusters([])


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(1, 50), min_size=1, max_size=30))
def test_effective_clusters_are_at_most_all(sizes: list[int]) -> None:
    assert 1 - 1e-9 <= effective_clusters(sizes) <= len(sizes) + 1e-9


def test_unequal_clusters_have_the_wider_interval() -> None:
    clusters = [0] * 20 + [1] * 2 + [2] * 2 + [3] * 2
    values = [float(i % 3) for i in range(26)]
    plain, careful = clustered(values, clusters=clusters), clustered(values, clusters=clusters, unequal=True)
    assert plain.lo is not None
    assert careful.lo is None  # 1.6 effective clusters: hardly more than one
    clusters = [i % 4 if i < 16 else 0 for i in range(26)]
    plain, careful = clustered(values, clusters=clusters), clustered(values, clusters=clusters, unequal=True)
    assert plain.lo is not None
    assert careful.lo is not None
    assert careful.lo < plain.lo


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
    known = (reference.norm.ppf(0.975) / reference.t.ppf(0.975, 9)) ** 2
    assert effective_n(values, clusters=clusters) == near(9.0 * known)  # pairs of copies: C-1 of C pairs
    assert effective_n([1.0] * 20, clusters=clusters) == 10
    assert effective_n([1.0, 0.0] * 10, clusters=clusters) == 10  # every cluster alike: nothing to learn from that
    wide, narrow = rate_interval(values, clusters=clusters), rate_interval(values)
    assert wide.lo is not None
    assert narrow.lo is not None
    assert wide.lo < narrow.lo
    assert wide.method == "wilson_clustered"


def test_clustered_rates_cover() -> None:
    """Ten samples in each of eight clusters that differ: a 95 % interval holds the truth in about 95 of 100 draws."""
    source = random.Random(3)
    clusters = [i // 10 for i in range(80)]
    inside = 0
    for _ in range(500):
        chances = [source.betavariate(2, 2) for _ in range(8)]
        estimate = rate_interval([float(source.random() < chances[c]) for c in clusters], clusters=clusters)
        assert estimate.lo is not None
        assert estimate.hi is not None
        inside += estimate.lo <= 0.5 <= estimate.hi
    assert 0.93 <= inside / 500 <= 0.98


def test_bootstrap_is_seeded_and_agrees_with_the_formula() -> None:
    values = [random.Random(5).gauss(0, 1) + i % 7 for i in range(200)]
    first, again, other = bootstrap(values, seed=1), bootstrap(values, seed=1), bootstrap(values, seed=2)
    assert first == again
    assert first != other
    assert first.estimate.stderr == near(mean_stderr(values).stderr, rel=0.05)
    assert "B=10000" in first.estimate.method


def test_bootstrap_is_scipys() -> None:
    """Same distribution, other draws: the ends and the error agree to what 10,000 replicates leave open."""
    values = [random.Random(6).expovariate(1) + i % 5 for i in range(150)]
    ours = bootstrap(values).estimate
    theirs = reference.bootstrap((values,), statistic=lambda x, axis: x.mean(axis=axis), method="percentile", rng=1)
    assert ours.stderr == near(theirs.standard_error, rel=0.03)
    assert ours.lo == near(theirs.confidence_interval.low, abs=0.01)
    assert ours.hi == near(theirs.confidence_interval.high, abs=0.01)


def test_drawing_alike_samples_by_number_is_the_same_bootstrap() -> None:
    """Rights and wrongs are drawn by how many there are of each; a trace of difference makes them all distinct."""
    alike = [1.0] * 60 + [0.0] * 120 + [-1.0] * 20
    apart = [value + index * 1e-9 for index, value in enumerate(alike)]
    quick, slow = bootstrap(alike).estimate, bootstrap(apart).estimate
    assert quick.stderr == near(slow.stderr, rel=0.03)
    assert (quick.lo, quick.hi) == (near(slow.lo, abs=0.006), near(slow.hi, abs=0.006))


def test_chunks_do_not_show() -> None:
    """More draws than are held at once: every replicate is still of all samples."""
    values = [float(i) + 0.1 * (i % 7) for i in range(3000)]
    assert bootstrap(values, replicates=1000).estimate.stderr == near(mean_stderr(values).stderr, rel=0.08)


def test_expanded_percentiles_are_wider_and_agree_with_their_p_value() -> None:
    source = random.Random(8)
    clusters = [i // 5 for i in range(60)]
    for shift in (0.0, 0.2, 0.35, 0.5):
        values = [source.gauss(shift, 1) for _ in range(60)]
        plain, wide = (bootstrap(values, clusters=clusters, expanded=flag) for flag in (False, True))
        assert plain.estimate.lo is not None
        assert plain.estimate.hi is not None
        assert wide.estimate.lo is not None
        assert wide.estimate.hi is not None
        assert wide.estimate.lo < plain.estimate.lo < plain.estimate.hi < wide.estimate.hi
        assert wide.p_value is not None
        assert (wide.p_value < 0.05) == (not wide.estimate.lo <= 0 <= wide.estimate.hi)
        assert "expanded" in wide.estimate.method
    lopsided = bootstrap([float(i % 2) for i in range(60)], clusters=[i // 58 for i in range(60)], expanded=True)
    assert (lopsided.estimate.lo, lopsided.p_value) == (None, None)


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


def _thirds_and_quarters(n: int) -> tuple[list[float], list[float]]:
    return [float(i % 3 > 0) for i in range(n)], [float(i % 4 > 1) for i in range(n)]


def test_paired_clusters_use_the_bootstrap() -> None:
    ours, theirs = _thirds_and_quarters(72)
    result = paired(candidate=ours, baseline=theirs, clusters=[i // 5 for i in range(72)], seed=3)
    assert result.method == "cluster_bootstrap(B=10000, seed=3, expanded)"
    assert result.lo is not None
    assert result.hi is not None
    assert result.effect is not None
    assert result.lo <= result.effect <= result.hi
    assert result == paired(candidate=ours, baseline=theirs, clusters=[i // 5 for i in range(72)], seed=3)


def test_paired_few_clusters_use_the_clustered_t() -> None:
    ours, theirs = _thirds_and_quarters(66)
    clusters = [i // 11 for i in range(66)]
    assert len(set(clusters)) < FEW_CLUSTERS
    result = paired(candidate=ours, baseline=theirs, clusters=clusters)
    differences = [one - two for one, two in zip(ours, theirs, strict=True)]
    expected = clustered(differences, clusters=clusters)  # of one size: nothing is unequal
    assert (result.method, result.lo, result.hi) == ("t_clustered_unequal", near(expected.lo), near(expected.hi))
    assert expected.value is not None
    assert expected.stderr is not None
    assert result.p_value == near(2 * reference.t.sf(expected.value / expected.stderr, 5))


def test_one_cluster_says_nothing() -> None:
    result = paired(candidate=[1.0, 0.0, 1.0], baseline=[0.0, 0.0, 1.0], clusters=["a"] * 3)
    assert (result.lo, result.p_value, result.method) == (None, None, "none")
    lopsided = paired(candidate=[1.0, 0.0, 1.0] * 9, baseline=[0.0] * 27, clusters=["a"] * 26 + ["b"])
    assert (lopsided.lo, lopsided.p_value, lopsided.method) == (None, None, "none")


def test_clusters_without_a_spread_are_no_certainty() -> None:
    """In each cluster one sample won and one lost: the clusters agree on 0, and 12 of them leave a quarter open."""
    ours, theirs = [1.0, 0.0] * 12, [0.0, 1.0] * 12
    result = paired(candidate=ours, baseline=theirs, clusters=[i // 2 for i in range(24)])
    assert (result.method, result.effect, result.p_value) == ("no_spread", 0, 1)
    assert (result.lo, result.hi) == (near(-0.2425, abs=1e-4), near(0.2425, abs=1e-4))


def test_the_same_gain_everywhere_is_better_and_no_certainty() -> None:
    result = paired(candidate=[1.0] * 30, baseline=[0.0] * 30, averaged=True)
    assert (result.method, result.effect, result.hi) == ("no_spread", 1, 1)
    assert result.lo == near(0.773, abs=1e-3)
    assert result.p_value == near(2 * 0.5**30)


@settings(deadline=None, max_examples=50)
@given(st.floats(0, 1), st.integers(1, 500))
def test_no_spread_holds_the_value(value: float, n: int) -> None:
    lo, hi = no_spread(value=value, n=n, lowest=0, highest=1)
    assert 0 <= lo <= value <= hi <= 1
    assert no_spread(value=0, n=n, lowest=0, highest=1) == wilson(rate=0, n=n)
    assert no_spread(value=0, n=n, lowest=-1, highest=1) == near(tango(wins=0, losses=0, n=n), abs=1e-9)
    with pytest.raises(ValueError, match="not between"):
        no_spread(value=1.1, n=n, lowest=0, highest=1)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1), st.integers(0, 5)), min_size=1, max_size=40),
    st.sampled_from(["none", "averaged", "clusters"]),
)
def test_paired_turned_round_is_its_mirror(pairs: list[tuple[float, float, int]], kind: str) -> None:
    ours, theirs, where = ([pair[i] for pair in pairs] for i in range(3))
    clusters = where if kind == "clusters" else None
    one = paired(candidate=ours, baseline=theirs, clusters=clusters, averaged=kind == "averaged", replicates=100)
    two = paired(candidate=theirs, baseline=ours, clusters=clusters, averaged=kind == "averaged", replicates=100)
    assert (one.wins, one.losses, one.ties) == (two.losses, two.wins, two.ties)
    assert one.effect is not None
    assert two.effect is not None
    assert one.effect == near(-two.effect, abs=1e-12)
    assert (one.lo is None) == (two.lo is None)
    if one.lo is not None and two.lo is not None and one.hi is not None and two.hi is not None:
        assert (one.lo, one.hi) == (near(-two.hi, abs=1e-9), near(-two.lo, abs=1e-9))
        assert one.lo - 1e-9 <= one.effect <= one.hi + 1e-9


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
    assert decide(effect=1e-300, lo=-0.02, hi=0.02, margin=0.0, n=100).n_needed is None
    with pytest.raises(ValueError, match="margin"):
        decide(effect=0.0, lo=-0.1, hi=0.1, margin=-0.01, n=10)


@settings(deadline=None, max_examples=200)
@given(
    effect=st.floats(-0.3, 0.3),
    below=st.floats(0.001, 0.3),
    above=st.floats(0.001, 0.3),
    margin=st.sampled_from([0.0, 0.01, 0.02, 0.05]),
    n=st.integers(20, 2000),
)
def test_verdict_properties(effect: float, below: float, above: float, margin: float, n: int) -> None:
    decision = decide(effect=effect, lo=effect - below, hi=effect + above, margin=margin, n=n)
    mirrored = decide(effect=-effect, lo=-effect - above, hi=-effect + below, margin=margin, n=n, lower_is_better=True)
    assert mirrored == decision
    assert (decision.n_needed is None) or decision.word == "undecided"
    if decision.n_needed is not None:
        assert decision.n_needed > n
        shrink = math.sqrt(n / decision.n_needed) * 0.9999
        later = decide(effect=effect, lo=effect - below * shrink, hi=effect + above * shrink, margin=margin, n=n)
        assert later.word != "undecided"


def test_what_a_margin_can_decide_at_five_percent_flips() -> None:
    lo, hi = tango(wins=33, losses=33, n=1319)
    assert decide(effect=0.0, lo=lo, hi=hi, margin=0.01, n=1319).word == "undecided"
    assert decide(effect=0.0, lo=lo, hi=hi, margin=0.02, n=1319).word == "same"
