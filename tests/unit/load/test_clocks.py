"""The other clock's offset, held against clocks whose offset and drift are known."""

from random import Random

import pytest

from tasks.load.clocks import DRIFT, Clocks


class Other:
    """A clock that is ahead by so much and goes so much faster; the way there and the way back take what they take."""

    def __init__(self, *, ahead_s: float, drift: float = 0.0) -> None:
        self._ahead_s, self._drift = ahead_s, drift

    def reads(self, at: float) -> float:
        return at * (1 + self._drift) + self._ahead_s

    def tell(self, clocks: Clocks, at: float, *, there_s: float, back_s: float) -> None:
        clocks.told(reading=self.reads(at + there_s), asked_at=at, heard_at=at + there_s + back_s)


@pytest.mark.parametrize("ahead_s", [0.0, 12345.678, -99.5])
def test_the_offset_is_found_within_what_it_says(ahead_s: float) -> None:
    other, clocks, random = Other(ahead_s=ahead_s), Clocks(), Random(1)
    for number in range(50):
        other.tell(clocks, number * 0.25, there_s=random.uniform(1e-4, 5e-3), back_s=random.uniform(1e-4, 5e-3))
    found = clocks.over(other.reads(10.0), other.reads(11.0))
    assert abs(found.seconds - ahead_s) <= found.error_s < 0.002


def test_ways_that_are_not_alike_are_in_the_error() -> None:
    other, clocks = Other(ahead_s=7.0), Clocks()
    other.tell(clocks, 0.0, there_s=0.010, back_s=0.0)
    found = clocks.over(other.reads(0.0), other.reads(0.0))
    assert found.seconds == pytest.approx(7.005)
    assert found.error_s == pytest.approx(0.005, rel=0.01)


def test_the_quickest_answer_counts_though_others_are_nearer() -> None:
    other, clocks = Other(ahead_s=1.0), Clocks()
    other.tell(clocks, 0.0, there_s=1e-4, back_s=1e-4)
    other.tell(clocks, 2.0, there_s=0.2, back_s=1e-4)
    found = clocks.over(other.reads(2.0), other.reads(2.2))
    assert found.seconds == pytest.approx(1.0, abs=1e-6)
    assert found.error_s == pytest.approx(1e-4 + DRIFT * 2.2, rel=0.01)


@pytest.mark.parametrize("drift", [100e-6, -100e-6, 199e-6])
def test_clocks_that_drift_apart_are_followed(drift: float) -> None:
    other, clocks, random = Other(ahead_s=500.0, drift=drift), Clocks(), Random(2)
    for number in range(2400):
        other.tell(clocks, number * 0.25, there_s=random.uniform(1e-4, 1e-3), back_s=random.uniform(1e-4, 1e-3))
    for at in (5.0, 100.0, 599.0):
        begin, end = other.reads(at), other.reads(at + 0.8)
        found = clocks.over(begin, end)
        assert abs((begin - found.seconds) - at) <= found.error_s < 0.001
        assert abs((end - found.seconds) - (at + 0.8)) <= found.error_s


def test_what_was_told_long_ago_says_less() -> None:
    other, clocks = Other(ahead_s=3.0), Clocks()
    other.tell(clocks, 0.0, there_s=1e-4, back_s=1e-4)
    assert clocks.over(other.reads(0.0), other.reads(0.0)).error_s < 2e-4
    assert clocks.over(other.reads(0.0), other.reads(100.0)).error_s == pytest.approx(100 * DRIFT, rel=0.02)


def test_nothing_told_and_nonsense() -> None:
    clocks = Clocks()
    with pytest.raises(ValueError, match="told nothing"):
        clocks.over(0.0, 1.0)
    with pytest.raises(ValueError, match="before its question"):
        clocks.told(reading=0.0, asked_at=1.0, heard_at=0.5)
