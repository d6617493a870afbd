"""Prompts of an exact number of tokens, and what they have in common."""

import os
import subprocess
import sys

import pytest

from tasks.load.prompts import drawn, of_trace, sharing
from tasks.load.traces import Traced

IDS = list(range(100, 40_000))


def common(one: list[int], other: list[int]) -> int:
    return next(
        (place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )


def test_a_name_is_a_prompt_and_a_shorter_one_its_beginning() -> None:
    assert drawn("a", 300, vocabulary=IDS)[:200] == drawn("a", 200, vocabulary=IDS)
    assert common(drawn("a", 300, vocabulary=IDS), drawn("b", 300, vocabulary=IDS)) < 3
    assert set(drawn("a", 500, vocabulary=[7, 9])) == {7, 9}
    assert drawn("a", 0, vocabulary=IDS) == []


def test_it_is_the_same_in_another_process() -> None:
    code = "from tasks.load.prompts import drawn; print(drawn('a', 9, vocabulary=range(100, 40_000)))"
    told = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONHASHSEED": "77"},
    )
    assert told.stdout.strip() == str(drawn("a", 9, vocabulary=IDS))


def test_a_group_shares_its_beginning_and_nothing_more() -> None:
    one, other, stranger = (
        sharing(name, group=group, shared=64, own=16, vocabulary=IDS)
        for name, group in (("1", "x"), ("2", "x"), ("3", "y"))
    )
    assert len(one) == len(other) == 80
    assert 64 <= common(one, other) < 67
    assert common(one, stranger) < 3


def test_prompts_of_a_trace_share_whole_blocks_and_the_beginning_of_a_cut_one() -> None:
    requests = [
        Traced(at_s=0, prompt_tokens=1500, output_tokens=1, blocks=(1, 2, 3)),
        Traced(at_s=0, prompt_tokens=1100, output_tokens=1, blocks=(1, 2, 3)),
        Traced(at_s=0, prompt_tokens=1500, output_tokens=1, blocks=(1, 2)),
        Traced(at_s=0, prompt_tokens=1500, output_tokens=1),
    ]
    whole, cut, short, own = (
        of_trace(request, index=index, trace="t", vocabulary=IDS) for index, request in enumerate(requests)
    )
    assert [len(each) for each in (whole, cut, short, own)] == [1500, 1100, 1500, 1500]
    assert common(whole, cut) == 1100
    assert 1024 <= common(whole, short) < 1027
    assert common(whole, own) < 3
    assert common(whole, of_trace(requests[0], index=0, trace="another", vocabulary=IDS)) < 3


def test_no_vocabulary() -> None:
    with pytest.raises(ValueError, match="no token to draw"):
        drawn("a", 1, vocabulary=[])
