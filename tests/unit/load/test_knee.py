"""The search for the knee, against servers whose knee is known."""

import itertools
import math
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.load.knee import Knee, Probe, Search, falling


def share_at(rate: float, *, knee: float) -> float:
    """Of requests that meet the SLO: 0.99 at the knee, and falling steeply after it, as queues do."""
    return 1 / (1 + 0.01 / 0.99 * (rate / knee) ** 24)


def found(*, knee: float, start: float, asked: int, seed: int) -> Knee:
    random = Random(seed)
    search = Search(start=start)
    while (rate := search.next()) is not None:
        share = share_at(rate, knee=knee)
        met = sum(random.random() < share for _ in range(asked))
        search.took(Probe(rate=rate, met=met, asked=asked))
    return search.knee


def test_the_knee_is_between_its_ends() -> None:
    search = Search(start=8.0)
    asked = []
    while (rate := search.next()) is not None:
        asked.append(rate)
        search.took(Probe(rate=rate, met=1000 if rate <= 11 else 0, asked=1000))
    knee = search.knee
    assert knee.rate is not None and knee.above is not None
    assert knee.rate <= 11 < knee.above <= knee.rate * 1.05
    assert knee.decided and knee.probes == len(asked) <= 7
    assert asked[:3] == pytest.approx([8, 16, math.sqrt(128)])


@pytest.mark.parametrize("start", [0.3, 1.0, 2.5])
def test_with_the_noise_of_counts_it_is_found_in_ten_probes(start: float) -> None:
    ratios = []
    for seed in range(60):
        knee = found(knee=40.0, start=40.0 * start, asked=1500, seed=seed)
        assert knee.probes <= 10 and knee.rate is not None
        ratios.append(knee.rate / 40.0)
    near = sum(0.9 < ratio < 1.1 for ratio in ratios)
    assert near >= 57


def test_what_no_rate_keeps_and_what_every_rate_keeps() -> None:
    for met, rate, above in ((0, None, 1 / 512), (1000, 512.0, None)):
        search = Search(start=1.0)
        while (asked := search.next()) is not None:
            search.took(Probe(rate=asked, met=met, asked=1000))
        assert search.knee == Knee(rate=rate, above=above, decided=False, probes=10)


def test_an_end_that_is_not_decided_is_asked_again_and_its_counts_put_together() -> None:
    search = Search(start=10.0, tolerance=2.0)
    search.took(Probe(rate=10.0, met=100, asked=100))
    search.took(Probe(rate=20.0, met=0, asked=100))
    assert search.next() == 10.0  # 100 of 100 leave 0.963 to 1
    search.took(Probe(rate=10.0, met=900, asked=900))
    assert search.next() is None
    assert search.knee == Knee(rate=10.0, above=20.0, decided=True, probes=3)


def test_one_lucky_probe_does_not_lead_astray() -> None:
    search = Search(start=10.0)
    search.took(Probe(rate=10.0, met=995, asked=1000))
    search.took(Probe(rate=20.0, met=900, asked=1000))
    search.took(Probe(rate=40.0, met=200, asked=200))
    assert search.knee.rate == 10.0


@given(st.lists(st.tuples(st.floats(0, 1), st.integers(1, 50)), min_size=1, max_size=12))
def test_smoothed_values_fall_and_keep_their_mean(pairs: list[tuple[float, int]]) -> None:
    values, weights = [value for value, _ in pairs], [weight for _, weight in pairs]
    smooth = falling(values, weights=weights)
    assert all(later <= sooner + 1e-12 for sooner, later in itertools.pairwise(smooth))
    mean = sum(value * weight for value, weight in zip(values, weights, strict=True))
    assert sum(value * weight for value, weight in zip(smooth, weights, strict=True)) == pytest.approx(mean)
    if values == sorted(values, reverse=True):
        assert smooth == pytest.approx(values)


@pytest.mark.parametrize("wrong", [{"start": 0}, {"start": 1, "share": 1}, {"start": 1, "most": 0}])
def test_what_is_no_search(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="above 0"):
        Search(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(("met", "asked"), [(1, 0), (2, 1), (-1, 1)])
def test_what_is_no_probe(met: int, asked: int) -> None:
    with pytest.raises(ValueError, match="a probe has requests"):
        Search(start=1).took(Probe(rate=1, met=met, asked=asked))
