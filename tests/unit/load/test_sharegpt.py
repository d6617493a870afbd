"""Recorded conversations: which are taken, and what is wrong with a file."""

import json
import os
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from small_tokenizers import model_folder

from schemas.errors import ConfigError
from schemas.prompts import ShareGptPrompts
from tasks.dataset.tokenizer import Tokenizer
from tasks.load.asks import drawn_asks, lengths_of
from tasks.load.sharegpt import Conversation, read_sharegpt

Read = Callable[..., list[Conversation]]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return Tokenizer.from_folder(model_folder(tmp_path_factory.mktemp("model")))


@pytest.fixture
def read(tmp_path: Path, tokenizer: Tokenizer) -> Read:
    def one(entries: Any, **changes: Any) -> list[Conversation]:
        path = tmp_path / "talk.json"
        path.write_text(entries if isinstance(entries, str) else json.dumps(entries), "utf-8")
        prompts = ShareGptPrompts.model_validate({"kind": "sharegpt", "path": str(path), "least_tokens": 1} | changes)
        return read_sharegpt(path, prompts=prompts, tokenizer=tokenizer)

    return one


def talk(*said: tuple[str, str]) -> dict[str, Any]:
    return {"id": "x", "conversations": [{"from": who, "value": what} for who, what in said]}


def test_the_first_question_with_an_answer_is_taken(read: Read, tokenizer: Tokenizer) -> None:
    found = read(
        [
            talk(("human", "abc"), ("gpt", "defgh"), ("human", "no"), ("gpt", "no")),
            talk(("system", "be brief"), ("User", "why?"), ("assistant", "so")),
            talk(("gpt", "where was I"), ("human", "go on"), ("gpt", "yes")),
            talk(("human", "nobody answers")),
            talk(("human", ""), ("gpt", "to nothing")),
            {"conversations": []},
        ]
    )
    asked = [tokenizer.decode(each.prompt_token_ids, skip_special_tokens=True) for each in found]
    assert asked == ["abc", "why?", "go on"]
    answers = [len(tokenizer.encode(text, add_special_tokens=False)) for text in ("defgh", "so", "yes")]
    assert [each.output_tokens for each in found] == answers
    assert all(each.prompt_token_ids[0] == tokenizer.bos_token_id for each in found)


def test_bounds_leave_out(read: Read, tokenizer: Tokenizer) -> None:
    entries = [
        talk(("human", "7" * prompt), ("gpt", "7" * answer)) for prompt, answer in ((2, 9), (9, 2), (20, 30), (41, 9))
    ]
    assert len(tokenizer.encode("7" * 41, add_special_tokens=True)) == 42  # a token a digit, and the beginning

    def kept(**changes: Any) -> list[tuple[int, int]]:
        return [(len(each.prompt_token_ids) - 1, each.output_tokens) for each in read(entries, **changes)]

    assert kept() == [(2, 9), (9, 2), (20, 30), (41, 9)]
    assert kept(least_tokens=4) == [(20, 30), (41, 9)]
    assert kept(most_prompt_tokens=41) == [(2, 9), (9, 2), (20, 30)]
    assert kept(most_total_tokens=50) == [(2, 9), (9, 2)]
    assert kept(least_tokens=4, output_tokens=3) == [(9, 3), (20, 3), (41, 3)]
    assert kept(most_total_tokens=50, output_tokens=8) == [(2, 8), (9, 8), (20, 8), (41, 8)]


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ("{", "talk.json:1"),
        ({"conversations": []}, "must be a JSON list"),
        ([talk(("human", "a"), ("gpt", "b")), 7], "entry 1 has no list `conversations`"),
        ([{"text": "a"}], "entry 0 has no list `conversations`"),
        ([talk(("human", "a"), ("gpt", "b")), {"conversations": [{"from": "human"}]}], "entry 1, turn 0"),
        ([{"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": None}]}], "entry 0, turn 1"),
        ([talk(("human", "a"), ("gpt", "b" * 9000))], "1 of its 1 conversations have a question and an answer"),
        ([talk(("human", "a"))], "0 of its 1 conversations"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_with_its_place(read: Read, entries: Any, said: str) -> None:
    with pytest.raises(ConfigError) as error:
        read(entries)
    assert said in str(error.value) and "talk.json" in str(error.value)


def test_there_is_no_file(tmp_path: Path, tokenizer: Tokenizer) -> None:
    prompts = ShareGptPrompts(kind="sharegpt", path=str(tmp_path / "none.json"))
    with pytest.raises(ConfigError, match="no such file"):
        next(drawn_asks(prompts, seed=0, repeat=0, vocabulary=[1], tokenizer=tokenizer))
    with pytest.raises(ValueError, match="needs a tokenizer"):
        next(drawn_asks(prompts, seed=0, repeat=0, vocabulary=[1]))


def test_all_are_asked_in_each_round_and_a_file_that_changes_is_read_again(
    tmp_path: Path, tokenizer: Tokenizer
) -> None:
    path = tmp_path / "talk.json"
    path.write_text(json.dumps([talk(("human", "7" * (n + 1)), ("gpt", "yes")) for n in range(12)]))
    prompts = ShareGptPrompts(kind="sharegpt", path=str(path), least_tokens=1)

    def lengths(n: int, *, repeat: int = 0) -> list[int]:
        asks = drawn_asks(prompts, seed=0, repeat=repeat, vocabulary=[1], tokenizer=tokenizer)
        return [len(ask.prompt_token_ids) for ask in islice(asks, n)]

    rounds = lengths(24)
    assert sorted(rounds[:12]) == sorted(rounds[12:]) == list(range(2, 14))
    assert rounds[:12] != rounds[12:] and rounds == lengths(24) and lengths(12, repeat=1) != rounds[:12]
    assert [prompt for prompt, _ in lengths_of(prompts, n=3, tokenizer=tokenizer)] == [13, 12, 11]
    path.write_text(json.dumps([talk(("human", "7" * 40), ("gpt", "yes"))]))
    os.utime(path, ns=(1, 1))
    assert lengths(2) == [41, 41]
