"""When the requests of an open load are due."""

import itertools
import math
import statistics
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.load.arrivals import Process, Stretch, due, gaps

RATES = st.floats(min_value=0, max_value=50, allow_subnormal=False)
STRETCHES = st.lists(
    st.builds(Stretch, start=RATES, end=RATES, seconds=st.floats(min_value=0.01, max_value=20)), min_size=1, max_size=5
)


def times(stretches: list[Stretch], process: Process, *, seed: int = 0, burstiness: float = 1.0) -> list[float]:
    return list(itertools.islice(due(stretches, gaps(process, random=Random(seed), burstiness=burstiness)), 20_000))


def test_a_constant_rate_is_even() -> None:
    assert times([Stretch(start=4, end=4, seconds=1.6)], "constant") == pytest.approx([0.25, 0.5, 0.75, 1.0, 1.25, 1.5])


@pytest.mark.parametrize(("process", "burstiness"), [("poisson", 1.0), ("gamma", 0.25), ("gamma", 4.0)])
def test_gaps_have_the_mean_of_the_rate_and_the_spread_of_the_process(process: Process, burstiness: float) -> None:
    found = times([Stretch(start=10, end=10)], process, burstiness=burstiness)
    apart = [later - sooner for sooner, later in itertools.pairwise(found)]
    mean = statistics.fmean(apart)
    assert mean == pytest.approx(0.1, rel=4 / math.sqrt(burstiness * len(apart)))
    assert statistics.stdev(apart) / mean == pytest.approx(1 / math.sqrt(burstiness), rel=0.1)


def test_gaps_are_not_stretched_to_fit_a_number_into_a_time() -> None:
    counts = [len(times([Stretch(start=20, end=20, seconds=5)], "poisson", seed=seed)) for seed in range(400)]
    assert statistics.fmean(counts) == pytest.approx(100, abs=2)
    assert statistics.stdev(counts) == pytest.approx(10, rel=0.15)  # a Poisson number's, not 0


def test_a_ramp_is_an_exact_one() -> None:
    found = times([Stretch(start=0, end=200, seconds=10)], "constant")
    assert len(found) == 1000
    assert found[:3] == pytest.approx([math.sqrt(n / 10) for n in (1, 2, 3)])
    assert sum(each <= 5 for each in found) == 250


def test_stages_come_one_after_the_other_and_a_pause_is_one() -> None:
    stages = [
        Stretch(start=2, end=2, seconds=2),
        Stretch(start=0, end=0, seconds=3),
        Stretch(start=1, end=1, seconds=2.5),
    ]
    assert times(stages, "constant") == pytest.approx([0.5, 1.0, 1.5, 2.0, 6.0, 7.0])


def test_the_same_seed_is_the_same_load() -> None:
    ramp = [Stretch(start=1, end=50, seconds=9)]
    assert times(ramp, "poisson", seed=3) == times(ramp, "poisson", seed=3) != times(ramp, "poisson", seed=4)


@settings(deadline=None, max_examples=60)
@given(STRETCHES, st.sampled_from(["poisson", "constant"]), st.integers(0, 9))
def test_times_rise_and_stay_within_the_load(stretches: list[Stretch], process: Process, seed: int) -> None:
    found = times(stretches, process, seed=seed)
    assert found == sorted(found)
    assert all(0 <= each <= sum(stretch.seconds for stretch in stretches) * (1 + 1e-9) for each in found)
    if process == "constant":
        assert len(found) == pytest.approx(sum(stretch.expected for stretch in stretches), abs=1.001)


@pytest.mark.parametrize(
    "wrong",
    [
        {"start": -1, "end": 1, "seconds": 1},
        {"start": 1, "end": 1, "seconds": 0},
        {"start": 1, "end": 2},
        {"start": 1, "end": math.nan, "seconds": math.nan},
    ],
)
def test_what_is_no_stretch(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"stretch has some length|needs a length"):
        Stretch(**wrong)


def test_what_is_no_burstiness() -> None:
    with pytest.raises(ValueError, match="above 0"):
        next(gaps("gamma", random=Random(0), burstiness=0))
