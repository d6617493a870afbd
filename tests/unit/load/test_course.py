"""How a load goes: its times, its places, and which of its requests are measured."""

import time
from random import Random
from typing import Any

import pytest
from pydantic import TypeAdapter

from schemas.benchmark import Load
from tasks.load.course import Course, course, expected_requests, warming


def load(**keys: Any) -> Load:
    return TypeAdapter(Load).validate_python(keys)  # type: ignore[no-any-return]


def of(cooldown: int = 0, **keys: Any) -> Course:
    return course(load(**keys), cooldown=cooldown, random=Random(3))


def test_a_closed_load_of_a_number_has_its_places_and_no_times() -> None:
    found = of(cooldown=2, kind="closed", concurrency=[4], requests=6)
    assert list(found.times) == [None] * 8
    assert found.at_once == 4
    assert [found.is_measured(number, 0.0) for number in range(8)] == [True] * 6 + [False] * 2


def test_a_closed_load_of_a_time_asks_until_it_is_over() -> None:
    found = of(kind="closed", concurrency=[4], seconds=0.2)
    began = time.monotonic()
    assert sum(1 for _ in found.times) > 10
    assert time.monotonic() - began == pytest.approx(0.2, abs=0.1)
    assert found.ask_for_s == 0.2
    assert (found.is_measured(0, 0.19), found.is_measured(0, 0.21)) == (True, False)


def test_an_open_load_of_a_time_cools_down_at_its_rate() -> None:
    found = of(cooldown=20, kind="open", rate=[50], seconds=10)
    times = [at for at in found.times if at is not None]
    measured = [at for number, at in enumerate(times) if found.is_measured(number, at)]
    assert max(measured) < 10 <= min(set(times) - set(measured))
    assert len(times) - len(measured) == 20
    assert len(measured) == pytest.approx(500, rel=0.2)


def test_an_open_load_of_a_number_has_that_number() -> None:
    found = of(cooldown=1, kind="open", rate=[5], requests=10, at_once=3)
    assert len(list(found.times)) == 11
    assert found.at_once == 3
    assert (found.is_measured(9, 99.0), found.is_measured(10, 0.0)) == (True, False)


def test_a_ramp_asks_ever_more_often() -> None:
    times = [at for at in of(kind="ramp", start=0, end=100, seconds=10).times if at is not None]
    assert len(times) == pytest.approx(500, rel=0.2)
    assert sum(at < 5 for at in times) / len(times) == pytest.approx(0.25, abs=0.08)


def test_stages_have_their_rates_and_a_pause_has_none() -> None:
    stages = [{"rate": 100, "seconds": 2}, {"rate": 0, "seconds": 3}, {"rate": 20, "seconds": 5}]
    times = [at for at in of(kind="staged", stages=stages).times if at is not None]
    assert not [at for at in times if 2 < at < 5]
    assert sum(at < 2 for at in times) == pytest.approx(200, rel=0.2)
    assert sum(at > 5 for at in times) == pytest.approx(100, rel=0.35)


def test_an_offline_load_has_a_place_for_every_request() -> None:
    found = of(cooldown=5, kind="offline", requests=7)
    assert (len(list(found.times)), found.at_once) == (7, 7)


def test_a_trace_is_replayed_at_its_speed() -> None:
    keys = load(kind="trace", path="x", format="csv", speed=2)
    assert list(course(keys, cooldown=0, random=Random(), trace_s=[0.0, 3.0, 8.0]).times) == [0.0, 1.5, 4.0]


@pytest.mark.parametrize(
    ("keys", "places"),
    [
        ({"kind": "closed", "concurrency": [4], "requests": 9}, 4),
        ({"kind": "latency"}, 1),
        ({"kind": "offline"}, 3),
        ({"kind": "open", "rate": [1000], "seconds": 5, "at_once": 2}, 2),
        ({"kind": "ramp", "start": 0, "end": 1000, "seconds": 5}, None),
    ],
)
def test_the_warm_up_is_under_the_same_load(keys: dict[str, Any], places: int | None) -> None:
    found = warming(load(**keys), warmup=3, random=Random(1))
    assert (len(list(found.times)), found.at_once) == (3, places)


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"kind": "closed", "concurrency": [4], "requests": 9}, 9),
        ({"kind": "closed", "concurrency": [4], "seconds": 9}, None),
        ({"kind": "open", "rate": [2.5], "seconds": 9}, 23),
        ({"kind": "ramp", "start": 0, "end": 10, "seconds": 9}, 45),
        ({"kind": "staged", "stages": [{"rate": 2, "seconds": 3}]}, 6),
        ({"kind": "saturate"}, None),
    ],
)
def test_how_many_requests_are_expected(keys: dict[str, Any], expected: int | None) -> None:
    assert expected_requests(load(**keys)) == expected


def test_the_same_seed_draws_the_same_times() -> None:
    keys = {"kind": "open", "rate": [5], "seconds": 20}
    assert list(of(**keys).times) == list(of(**keys).times)
