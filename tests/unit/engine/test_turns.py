"""Who is asked next after a death, and who is blamed: whatever the window, three restarts find the one that kills."""

import random

import pytest

from schemas.sample import Request
from tasks.engine.turns import Turns


def request(number: int) -> Request:
    return Request(
        request_id=f"r{number}",
        dataset="d",
        sample_id=f"s{number}",
        arm="free",
        kind="generate",
        prompt_token_ids=[1],
        max_tokens=1,
        stop=[],
    )


def play(total: int, *, window: int, killers: set[int], seed: int) -> tuple[list[str], list[str], int]:
    """An engine that answers in any order and dies as soon as it works on a killer: who was answered, who was blamed,
    how often it died."""
    draw = random.Random(seed)
    turns = Turns([request(number) for number in range(total)], window=window)
    bad = {f"r{number}" for number in killers}
    answered, blamed, deaths = [], [], 0
    while turns:
        turns.next()
        assert 0 < len(turns.in_flight) <= window
        chosen = draw.choice(list(turns.in_flight))
        if chosen not in bad:
            turns.answered(chosen)
            answered.append(chosen)
            continue
        deaths += 1
        blame = turns.died()
        if blame is not None:
            blamed.append(blame.request_id)
    return answered, blamed, deaths


@pytest.mark.parametrize("window", [1, 2, 3, 16, 512])
@pytest.mark.parametrize("seed", range(5))
def test_one_killer_is_found_with_three_deaths_and_everyone_else_is_answered_once(window: int, seed: int) -> None:
    answered, blamed, deaths = play(700, window=window, killers={333}, seed=seed)
    assert blamed == ["r333"]
    assert deaths <= 3
    assert sorted(answered) == sorted(f"r{number}" for number in range(700) if number != 333)


@pytest.mark.parametrize("seed", range(5))
def test_several_killers_are_found_one_by_one_and_nobody_else_is_blamed(seed: int) -> None:
    killers = {0, 40, 41, 99}
    answered, blamed, _ = play(100, window=16, killers=killers, seed=seed)
    assert sorted(blamed) == sorted(f"r{number}" for number in killers)
    assert len(answered) == len(set(answered)) == 96


def test_what_was_in_flight_is_asked_again_first_in_small_groups_and_then_the_rest_as_before() -> None:
    turns = Turns([request(number) for number in range(20)], window=9)
    assert len(turns.next()) == 9
    assert turns.died() is None
    groups = []
    for _ in range(3):
        batch = turns.next()
        assert turns.next() == [], "no one else beside suspects"
        groups.append([each.request_id for each in batch])
        for each in batch:
            turns.answered(each.request_id)
    assert groups == [["r0", "r1", "r2"], ["r3", "r4", "r5"], ["r6", "r7", "r8"]]
    assert [each.request_id for each in turns.next()] == [f"r{number}" for number in range(9, 18)]


def test_an_engine_that_lacked_memory_blames_nobody() -> None:
    turns = Turns([request(number) for number in range(6)], window=4)
    turns.next()
    turns.answered("r1")
    turns.put_back()
    turns.window = 2
    assert [each.request_id for each in turns.next()] == ["r0", "r2"]
    assert [each.request_id for each in turns.waiting] == ["r3", "r4", "r5"]
