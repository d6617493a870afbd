"""What a load asks: the same in every arm and every run, and what it is meant to have in common."""

import hashlib
import json
import os
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import islice, pairwise
from typing import Any

import pytest
import tokenizers
from pydantic import TypeAdapter
from small_tokenizers import byte_level, metaspace

from schemas.prompts import PromptsConfig, SessionPrompts
from schemas.sample import Request
from tasks.load.asks import WARMUP, Ask, drawn_asks, lengths_of, next_turn, ordinary_tokens, own_asks, trace_asks
from tasks.load.traces import Traced

IDS = list(range(100, 40_000))
RANDOM = {"kind": "random", "prompt_tokens": {"kind": "normal", "mean": 50, "sd": 10}, "output_tokens": 8}
SHARED = {"kind": "shared_prefix", "groups": 3, "shared_tokens": 40, "own_tokens": 10, "output_tokens": 4}
MIX = {
    "kind": "mix",
    "parts": [
        {"share": 0.8, "prompt_tokens": 10, "output_tokens": 20},
        {"share": 0.2, "prompt_tokens": {"kind": "uniform", "least": 90, "most": 110}, "output_tokens": 5},
    ],
}
SESSIONS = {
    "kind": "sessions",
    "turns": 4,
    "first_tokens": {"kind": "uniform", "least": 20, "most": 40},
    "own_tokens": {"kind": "uniform", "least": 5, "most": 15},
    "output_tokens": {"kind": "uniform", "least": 2, "most": 6},
    "think_s": 2.0,
}
GOLDEN = {
    "random": "4a8fa56ab531",
    "shared_prefix": "95d1e44a50c7",
    "mix": "0b124f4e7acc",
    "sessions": "287c2cab1451",
}
DRAWN = {"random": RANDOM, "shared_prefix": SHARED, "mix": MIX, "sessions": SESSIONS}


def block(written: dict[str, Any]) -> PromptsConfig:
    config: PromptsConfig = TypeAdapter(PromptsConfig).validate_python(written)
    return config


def asks(written: dict[str, Any], n: int, *, seed: int = 0, repeat: int = 0, salt: str = "") -> list[Ask]:
    return list(islice(drawn_asks(block(written), seed=seed, repeat=repeat, salt=salt, vocabulary=IDS), n))


def conversation(first: Ask, *, salt: str = "") -> Iterator[Ask]:
    """All turns; each answer is one token, as often as was asked for."""
    prompts = block(SESSIONS)
    assert isinstance(prompts, SessionPrompts)
    ask = first
    yield ask
    while ask.turn + 1 < ask.turns:
        ask = next_turn(ask, [1] * ask.max_tokens, prompts=prompts, base=f"0 0{salt}", vocabulary=IDS)
        yield ask


def lengths(found: list[Ask]) -> list[tuple[str, int, int, float]]:
    return [(ask.name, len(ask.prompt_token_ids), ask.max_tokens, ask.think_s) for ask in found]


def common(one: list[int], other: list[int]) -> int:
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def request(dataset: str, name: str, **changes: Any) -> Request:
    return Request(
        request_id=f"{dataset}/{name}",
        dataset=dataset,
        sample_id=name,
        arm="free",
        kind="generate",
        prompt_token_ids=[1, 2],
        max_tokens=7,
        stop=["\n"],
        **changes,
    )


@pytest.mark.parametrize("kind", DRAWN)
def test_asks_are_the_same_in_another_process(kind: str) -> None:
    code = (
        "import json, sys; from itertools import islice; from pydantic import TypeAdapter\n"
        "from schemas.prompts import PromptsConfig; from tasks.load.asks import drawn_asks\n"
        "block = TypeAdapter(PromptsConfig).validate_python(json.loads(sys.argv[1]))\n"
        "for ask in islice(drawn_asks(block, seed=3, repeat=1, vocabulary=range(100, 40_000)), 20):\n"
        "    print([ask.name, ask.prompt_token_ids, ask.max_tokens, ask.way])\n"
    )
    told = subprocess.run(
        [sys.executable, "-c", code, json.dumps(DRAWN[kind])],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONHASHSEED": "99"},
    )
    own = [[ask.name, ask.prompt_token_ids, ask.max_tokens, ask.way] for ask in asks(DRAWN[kind], 20, seed=3, repeat=1)]
    assert told.stdout.splitlines() == [str(each) for each in own]


def test_the_asks_of_this_version_are_those_of_any_other() -> None:
    """A run is compared with an older one, so what a seed draws must not change unseen."""
    told = {
        kind: hashlib.sha256(
            json.dumps([[ask.prompt_token_ids, ask.max_tokens] for ask in asks(DRAWN[kind], 5)]).encode()
        ).hexdigest()[:12]
        for kind in DRAWN
    }
    assert told == GOLDEN


@pytest.mark.parametrize("kind", DRAWN)
def test_another_repeat_or_seed_has_other_draws(kind: str) -> None:
    one, again, other = asks(DRAWN[kind], 30), asks(DRAWN[kind], 30, repeat=1), asks(DRAWN[kind], 30, seed=1)
    assert len({len({ask.name for ask in each}) for each in (one, again, other)} | {30}) == 1
    for a, b in ((one, again), (one, other), (again, other)):
        assert max(common(x.prompt_token_ids, y.prompt_token_ids) for x, y in zip(a, b, strict=True)) < 3


@pytest.mark.parametrize("kind", DRAWN)
def test_a_salt_changes_tokens_and_nothing_else(kind: str) -> None:
    plain, salted = asks(DRAWN[kind], 30), asks(DRAWN[kind], 30, salt="e1-free@warmup-r0")
    assert lengths(plain) == lengths(salted)
    assert max(common(x.prompt_token_ids, y.prompt_token_ids) for x, y in zip(plain, salted, strict=True)) < 3


@pytest.mark.parametrize("kind", DRAWN)
def test_a_warmup_asks_something_else_and_the_same_in_every_arm(kind: str) -> None:
    plain, warm = asks(DRAWN[kind], 30), asks(DRAWN[kind], 30, salt=WARMUP)
    assert max(common(x.prompt_token_ids, y.prompt_token_ids) for x, y in zip(plain, warm, strict=True)) < 3
    assert lengths(warm) == lengths(asks(DRAWN[kind], 30, salt=f"another{WARMUP}"))


def test_lengths_are_as_the_distribution_says() -> None:
    long = RANDOM | {"output_tokens": {"kind": "lognormal", "mean": 60, "sd": 30, "most": 2000}}
    found = asks(long, 3000)
    prompts, outputs = [len(ask.prompt_token_ids) for ask in found], [ask.max_tokens for ask in found]
    assert statistics.fmean(prompts) == pytest.approx(50, abs=1)
    assert statistics.stdev(prompts) == pytest.approx(10, abs=0.6)
    assert statistics.fmean(outputs) == pytest.approx(60, abs=2.5)
    assert statistics.stdev(outputs) == pytest.approx(30, abs=4)
    assert abs(statistics.correlation(prompts, outputs)) < 0.08
    assert all(ask.exactly for ask in found)


def test_prompts_of_a_group_begin_alike_and_others_do_not() -> None:
    found = asks(SHARED, 300)
    groups = Counter(tuple(ask.prompt_token_ids[:40]) for ask in found)
    assert len(groups) == 3 and min(groups.values()) > 60
    assert all(len(ask.prompt_token_ids) == 50 for ask in found)
    assert len({tuple(ask.prompt_token_ids[40:]) for ask in found}) == 300
    one, two = list(groups)[:2]
    assert common(list(one), list(two)) < 3


def test_a_mix_has_its_shares() -> None:
    found = asks(MIX, 2000)
    short = [ask for ask in found if len(ask.prompt_token_ids) == 10]
    long = [ask for ask in found if len(ask.prompt_token_ids) != 10]
    assert len(short) / 2000 == pytest.approx(0.8, abs=0.03)
    assert {ask.max_tokens for ask in short} == {20} and {ask.max_tokens for ask in long} == {5}
    assert {len(ask.prompt_token_ids) for ask in long} == set(range(90, 111))


def test_a_turn_begins_with_all_that_was_said() -> None:
    for first in asks(SESSIONS, 20):
        turns = list(conversation(first))
        assert [ask.turn for ask in turns] == [0, 1, 2, 3]
        assert {ask.session for ask in turns} == {first.session}
        for before, after in pairwise(turns):
            said = [*before.prompt_token_ids, *[1] * before.max_tokens]
            assert after.prompt_token_ids[: len(said)] == said
            assert 5 <= len(after.prompt_token_ids) - len(said) <= 15
            assert 2 <= after.max_tokens <= 6
    firsts = asks(SESSIONS, 20)
    assert max(common(a.prompt_token_ids, b.prompt_token_ids) for a, b in pairwise(firsts)) < 3


def test_pauses_are_as_the_block_says_and_the_same_under_a_salt() -> None:
    turns = [ask for first in asks(SESSIONS, 700) for ask in conversation(first)]
    pauses = [ask.think_s for ask in turns if ask.turn]
    assert all(ask.think_s == 0 for ask in turns if not ask.turn)
    assert statistics.fmean(pauses) == pytest.approx(2, abs=0.15)
    assert statistics.stdev(pauses) == pytest.approx(2, abs=0.25)
    assert len({ask.name for ask in turns}) == len(turns)
    salted = [ask for first in asks(SESSIONS, 700, salt="e1-r0") for ask in conversation(first, salt="e1-r0")]
    assert lengths(turns) == lengths(salted)


def test_a_constant_pause() -> None:
    prompts = block(SESSIONS | {"think": "constant", "think_s": 0.5})
    assert isinstance(prompts, SessionPrompts)
    first = next(drawn_asks(prompts, seed=0, repeat=0, vocabulary=IDS))
    assert next_turn(first, [1], prompts=prompts, base="0 0", vocabulary=IDS).think_s == 0.5


def test_own_prompts_come_all_of_them_in_each_round() -> None:
    requests = [request("d", str(n)) for n in range(20)] + [request("e", "0", exactly=True)]
    found = list(islice(own_asks(requests, seed=0, repeat=0), 63))
    orders = [[ask.request for ask in found[start : start + 21]] for start in (0, 21, 42)]
    assert all(
        {each.request_id for each in order if each} == {each.request_id for each in requests} for order in orders
    )
    assert orders[0] != orders[1] != orders[2]
    assert len({ask.name for ask in found}) == 63
    assert all(ask.exactly == (ask.request is not None and ask.request.dataset == "e") for ask in found)
    backwards = list(islice(own_asks(requests[::-1], seed=0, repeat=0, salt="e1-r0"), 63))
    assert backwards == found
    for other in ({"repeat": 1}, {"repeat": 0, "salt": WARMUP}):
        assert list(islice(own_asks(requests, seed=0, **other), 21)) != found[:21]  # type: ignore[arg-type]


def test_own_prompts_without_any() -> None:
    with pytest.raises(ValueError, match="nothing to ask"):
        next(own_asks([], seed=0, repeat=0))


def test_a_trace_is_asked_in_its_order_and_its_sessions_begin_alike() -> None:
    traced = [
        Traced(at_s=0, prompt_tokens=30, output_tokens=3, session="a"),
        Traced(at_s=1, prompt_tokens=30, output_tokens=4, session="b"),
        Traced(at_s=2, prompt_tokens=50, output_tokens=5, session="a"),
        Traced(at_s=3, prompt_tokens=50, output_tokens=6),
    ]
    a, b, again, alone = trace_asks(traced, trace="t", salt="", vocabulary=IDS)
    assert [ask.max_tokens for ask in (a, b, again, alone)] == [3, 4, 5, 6]
    assert [len(ask.prompt_token_ids) for ask in (a, b, again, alone)] == [30, 30, 50, 50]
    assert again.prompt_token_ids[:30] == a.prompt_token_ids
    assert common(a.prompt_token_ids, b.prompt_token_ids) < 3
    assert common(again.prompt_token_ids, alone.prompt_token_ids) < 3
    salted = next(trace_asks(traced, trace="t", salt=" x", vocabulary=IDS))
    assert common(a.prompt_token_ids, salted.prompt_token_ids) < 3


@pytest.mark.parametrize("kind", ["random", "shared_prefix", "mix"])
def test_nothing_is_longer_than_what_the_plan_is_told(kind: str) -> None:
    told = lengths_of(block(DRAWN[kind]), n=40)
    assert len(told) == 40 and told == sorted(told, key=sum, reverse=True)
    found = asks(DRAWN[kind], 2000)
    assert max(len(ask.prompt_token_ids) + ask.max_tokens for ask in found) <= sum(told[0])


def test_of_a_conversation_the_plan_is_told_the_last_turn() -> None:
    told = lengths_of(block(SESSIONS), n=3)
    assert told == [(40 + 3 * (15 + 6), 6)] * 3
    for first in asks(SESSIONS, 200):
        last = list(conversation(first))[-1]
        assert len(last.prompt_token_ids) <= told[0][0]


@pytest.mark.parametrize("tokenizer", [byte_level(), metaspace()], ids=["byte_level", "metaspace"])
def test_text_of_drawn_tokens_has_the_same_tokens(tokenizer: tokenizers.Tokenizer) -> None:
    found = ordinary_tokens(tokenizer, end_ids=[2])
    assert len(found) >= 1000
    prompts = block(RANDOM | {"prompt_tokens": 200})
    for ask in islice(drawn_asks(prompts, seed=0, repeat=0, vocabulary=found), 50):
        text = tokenizer.decode(ask.prompt_token_ids)
        assert tokenizer.encode(text, add_special_tokens=False).ids == ask.prompt_token_ids


def test_of_a_small_vocabulary_all_tokens_are_drawn_that_are_text() -> None:
    tokenizer = byte_level(20, size=400)
    tokenizer.add_tokens(["added"])
    found = ordinary_tokens(tokenizer, end_ids=[30])
    vocabulary = tokenizer.get_vocab(with_added_tokens=True)
    texts = {number: tokenizer.decode([number], skip_special_tokens=False) for number in vocabulary.values()}
    assert not {vocabulary["<s>"], vocabulary["</s>"], vocabulary["added"], 30} & set(found)
    assert all("\ufffd" not in texts[number] for number in found)
    assert {"a", " ", "7"} <= {texts[number] for number in found}
    assert sum("\ufffd" in text for text in texts.values()) > 100  # halves of characters, all left out
