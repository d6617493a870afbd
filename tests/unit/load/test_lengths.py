"""Lengths drawn from a distribution."""

import itertools
import statistics
from random import Random

import pytest

from tasks.load.lengths import Lengths


def drawn(lengths: Lengths, n: int = 20_000) -> list[int]:
    return list(itertools.islice(lengths.draw(Random(1)), n))


def test_fixed() -> None:
    assert set(drawn(Lengths(kind="fixed", mean=128), n=50)) == {128}


def test_uniform_has_both_its_bounds() -> None:
    found = drawn(Lengths(kind="uniform", least=3, most=7))
    assert {each: found.count(each) for each in set(found)} == pytest.approx(
        dict.fromkeys(range(3, 8), 4_000), rel=0.06
    )


@pytest.mark.parametrize("kind", ["normal", "lognormal"])
def test_mean_and_sd_are_those_of_the_lengths(kind: str) -> None:
    found = drawn(Lengths(kind=kind, mean=600, sd=150))  # type: ignore[arg-type]
    assert statistics.fmean(found) == pytest.approx(600, rel=0.01)
    assert statistics.stdev(found) == pytest.approx(150, rel=0.03)
    skewed = statistics.fmean(found) - statistics.median(found)
    assert (skewed > 10) == (kind == "lognormal")


def test_what_falls_outside_is_drawn_again_and_heaps_up_nowhere() -> None:
    found = drawn(Lengths(kind="normal", mean=100, sd=100, least=50, most=150))
    assert min(found) == 50 and max(found) == 150
    assert found.count(50) < 2 * found.count(51) + 50


def test_bounds_that_leave_nothing_are_told() -> None:
    with pytest.raises(ValueError, match="no length of 1000 lies from 10 to 20 tokens"):
        drawn(Lengths(kind="fixed", mean=5, least=10, most=20))
