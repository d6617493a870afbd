"""A benchmark's block as points: their names, their order, what stands there twice."""

from typing import Any

import pytest
from pydantic import ValidationError

from schemas.benchmark import Benchmark, SaturateLoad
from schemas.points import below_knee, in_turns, measured_arms, points, probe, twice


def block(**keys: Any) -> Benchmark:
    return Benchmark(**{"load": {"kind": "closed", "concurrency": [1, 8]}, **keys})


def names(benchmark: Benchmark, *arms: str) -> list[str]:
    return [point.point_id for point in points(benchmark, arms=arms or ["free"])]


def test_each_number_is_a_point_and_the_arms_of_one_stand_side_by_side() -> None:
    assert names(block(), "free", "guided") == ["free-closed-1", "guided-closed-1", "free-closed-8", "guided-closed-8"]


@pytest.mark.parametrize(
    ("load", "expected"),
    [
        ({"kind": "open", "rate": [2, 2.5], "seconds": 3}, ["free-open-2", "free-open-2.5"]),
        ({"kind": "open", "rate": 2, "arrivals": "gamma", "burstiness": 0.5}, ["free-open-2-gamma0.5"]),
        ({"kind": "open", "rate": 2, "arrivals": "constant"}, ["free-open-2-constant"]),
        ({"kind": "ramp", "end": 20, "seconds": 3}, ["free-ramp-0-20"]),
        ({"kind": "staged", "stages": [{"rate": 1, "seconds": 2}, {"rate": 5, "seconds": 2}]}, ["free-staged-1-5"]),
        ({"kind": "offline"}, ["free-offline"]),
        ({"kind": "latency"}, ["free-latency"]),
    ],
)
def test_a_point_is_named_by_its_load(load: dict[str, Any], expected: list[str]) -> None:
    assert names(block(load=load)) == expected


def test_a_trace_is_named_by_its_file_and_speed() -> None:
    load = {"kind": "trace", "path": "/data/of monday.jsonl", "format": "mooncake", "speed": 2}
    assert names(block(load=load)) == ["free-trace-of_monday-x2"]


def test_every_other_turn_goes_backwards() -> None:
    order = [(repeat, point.concurrency) for repeat, point in in_turns(points(block(), arms=["free"]), repeats=3)]
    assert order == [(0, 1), (0, 8), (1, 8), (1, 1), (2, 1), (2, 8)]


def test_a_size_that_the_block_leaves_open_is_written_out() -> None:
    closed = points(block(), arms=["free"])
    assert [point.load.requests for point in closed] == [32, 32]  # type: ignore[union-attr]
    [many] = points(block(load={"kind": "closed", "concurrency": 100}), arms=["free"])
    assert many.load.requests == 400  # type: ignore[union-attr]
    [open_] = points(block(load={"kind": "open", "rate": 1}), arms=["free"])
    assert open_.load.seconds == 30  # type: ignore[union-attr]


def test_the_same_load_twice_is_found() -> None:
    assert twice(block(load={"kind": "closed", "concurrency": [4, 4]}), arms=["free"]) == ["free-closed-4"]
    assert twice(block(), arms=["free", "guided"]) == []


def test_drawn_prompts_have_no_guided_arm() -> None:
    drawn = {"kind": "random", "prompt_tokens": 10, "output_tokens": 5}
    assert measured_arms(block(), ["free", "guided", "free_matched", "repair"]) == ["free", "guided"]
    assert measured_arms(block(prompts=drawn), ["free", "guided"]) == ["free"]


def test_what_a_search_measures_is_named_by_its_share_of_the_knee() -> None:
    load = SaturateLoad(kind="saturate", sweep=[0.5, 0.9])
    assert [(point.point_id, point.rate) for point in below_knee(load, arm="free", knee=10)] == [
        ("free-knee-0.5", 5.0),
        ("free-knee-0.9", 9.0),
    ]
    asked = probe(load, arm="free", rate=3.14159265)
    assert (asked.name, asked.rate, asked.kind) == ("probe-3.142", 3.14159265, "probe")


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"load": {"kind": "closed", "concurrency": 4, "requests": 5, "seconds": 5}}, "`requests` or `seconds`"),
        ({"load": {"kind": "open", "rate": 4, "burstiness": 2}}, "`burstiness` goes with"),
        ({"load": {"kind": "saturate"}}, "set one"),
        ({"load": {"kind": "closed", "concurrency": []}}, "at least 1 item"),
        ({"load": []}, "at least 1 item"),
        ({"answers": "exact", "prompts": {"kind": "random", "prompt_tokens": 1, "output_tokens": 1}}, "exact answers"),
        ({"prompts": {"kind": "random", "prompt_tokens": {"kind": "normal", "mean": 5}, "output_tokens": 1}}, "`sd`"),
    ],
)
def test_what_does_not_fit_is_refused(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        block(**keys)
