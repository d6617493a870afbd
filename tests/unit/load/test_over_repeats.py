"""A point's numbers over its repeats."""

import pytest

from schemas.metric import Aggregate
from tasks.load.repeats import over_repeats


def metric(value: float | None, name: str = "perf.tpot_ms.p50") -> Aggregate:
    return Aggregate(
        scope="run",
        name=name,
        arm="free",
        value=value,
        unit="ms",
        direction="lower",
        n=10,
        n_failed=1,
        cell_id="a-cell",
    )


def test_the_value_is_the_median_and_the_interval_lies_around_it() -> None:
    [found] = over_repeats([[metric(value)] for value in (10.0, 30.0, 11.0, 12.0, 10.5)], point_id="free-closed-8")
    assert (found.value, found.n, found.n_failed, found.cell_id) == (11.0, 5, 5, "free-closed-8")
    assert found.lo is not None
    assert found.hi is not None
    assert found.lo < 11.0 < found.hi
    assert found.details == {"repeats": [10.0, 30.0, 11.0, 12.0, 10.5]}


def test_one_repeat_has_no_interval() -> None:
    [found] = over_repeats([[metric(10.0)]], point_id="p")
    assert (found.value, found.lo, found.hi, found.n) == (10.0, None, None, 1)


def test_a_repeat_without_the_number_is_told_and_left_out() -> None:
    [one, other] = over_repeats([[metric(10.0)], [metric(None), metric(7.0, "perf.x")], [metric(12.0)]], point_id="p")
    assert (one.value, one.n, one.details) == (11.0, 2, {"repeats": [10.0, None, 12.0]})
    assert (other.name, other.value, other.details) == ("perf.x", 7.0, {"repeats": [None, 7.0, None]})


def test_the_same_values_give_the_same_interval() -> None:
    repeats = [[metric(value)] for value in (10.0, 11.0, 12.0)]
    assert over_repeats(repeats, point_id="p") == over_repeats(repeats, point_id="p")


def test_equal_values_have_an_interval_of_no_width() -> None:
    [found] = over_repeats([[metric(10.0)]] * 3, point_id="p")
    assert (found.lo, found.hi) == (pytest.approx(10), pytest.approx(10))
