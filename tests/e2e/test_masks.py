"""Guided answers of a real engine with the masks of a step made together, and with each made by vLLM."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from schemas.errors import EngineError
from tasks.engine.client import EngineClient
from tasks.engine.protocol import WireGrammar, WireRequest, WireSampling
from tests.e2e.engine_client import answers, engine

WITHIN_A_CHARACTER = 14787
"""A token of the model whose text is the beginning of one."""
_WORD = {"type": "string", "pattern": "^[a-z]{2,6}$"}


def schema(number: int) -> WireGrammar:
    """One of three, of answers that end at different lengths."""
    properties = {f"key {each}": _WORD for each in range(1 + number % 3)}
    content = {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
    return WireGrammar(kind="json_schema", content=json.dumps(content))


def mixed(name: str) -> list[WireRequest]:
    """40 requests that run at the same time, every fourth of them free."""
    return [
        WireRequest(
            request_id=f"{name}-{number}",
            prompt_token_ids=[1, 4093, 198, 400 + 13 * number, 260 + number, 2, 198],
            sampling=WireSampling(temperature=0.0, max_tokens=60 if number % 4 else 5 + number % 7),
            grammar=schema(number) if number % 4 else None,
        )
        for number in range(40)
    ]


@pytest.fixture(scope="module", params=["xgrammar", pytest.param("guidance", marks=pytest.mark.slow)])
def standing(
    request: pytest.FixtureRequest, model_dir: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EngineClient]:
    log = tmp_path_factory.mktemp("masks") / "engine.log"
    with engine(model=model_dir, log_path=log, grammar_backend=request.param, max_num_seqs=40) as client:
        yield client


def test_the_masks_are_the_same_whoever_makes_them(standing: EngineClient) -> None:
    found = {}
    for by in ("batched", "vllm", "batched"):
        standing.make_masks(by=by)
        standing.reset_prefix_cache()
        results, _ = answers(standing, mixed(by))
        found[by] = [results[f"{by}-{number}"] for number in range(40)]
    assert [each.token_ids for each in found["batched"]] == [each.token_ids for each in found["vllm"]]
    assert [each.error for each in found["batched"]] == [None] * 40
    for number, each in enumerate(found["batched"]):
        if number % 4 and each.finish_reason == "stop":
            assert list(json.loads(each.text)) == [f"key {key}" for key in range(1 + number % 3)]
    assert sum(each.finish_reason == "stop" for number, each in enumerate(found["batched"]) if number % 4) > 20


def test_a_grammar_that_the_engine_has_is_there_at_once(standing: EngineClient) -> None:
    """All begin in the first step, and none waits for a thread that has its grammar: no step is empty."""
    if standing.standing is not None and standing.standing.built.resolved["grammar_backend"] != "xgrammar":
        pytest.skip("only xgrammar keeps what it compiled")
    standing.warm([schema(number) for number in range(3)], limit_s=60)
    standing.reset_prefix_cache()
    before = standing.stats()["assay:steps"]
    _, told = answers(standing, mixed("at once"))
    assert told[0].steps[0].running == 40
    assert standing.stats()["assay:steps"] - before == sum(each.totals.steps for each in told)


def test_a_schema_is_refused_each_time_and_a_good_one_taken_each_time(standing: EngineClient) -> None:
    bad = WireGrammar(kind="json_schema", content='{"type": "no such type"}')
    prompt, sampling = [1, 4093, 198], WireSampling(temperature=0.0, max_tokens=40)
    asked = [
        WireRequest(request_id=f"{name}{turn}", prompt_token_ids=prompt, sampling=sampling, grammar=grammar)
        for turn in range(2)
        for name, grammar in (("bad", bad), ("good", schema(0)))
    ]
    results, _ = answers(standing, asked)
    assert [results[f"bad{turn}"].refused for turn in range(2)] == [True, True]
    assert results["bad0"].error == results["bad1"].error
    assert [results[f"good{turn}"].error for turn in range(2)] == [None, None]
    assert results["good0"].text == results["good1"].text != ""


def test_an_answers_text_begins_with_the_answer(standing: EngineClient) -> None:
    """Also after a prompt that was cut within a character."""
    words = [33485, 21934, 40096, 3256, 9918, 24809, 33232, 38280]
    whole, cut = (
        WireRequest(
            request_id=name,
            prompt_token_ids=[*words, *end],
            sampling=WireSampling(temperature=0.0, max_tokens=40, stop=[" resisting"]),
            grammar=schema(0),
        )
        for name, end in (("whole", []), ("cut", [WITHIN_A_CHARACTER]))
    )
    results, _ = answers(standing, [whole, cut])
    for result in results.values():
        assert result.finish_reason == "stop"
        assert list(json.loads(result.text)) == ["key 0"]


@pytest.mark.slow
def test_an_engine_with_its_core_elsewhere_leaves_them_to_vllm_and_says_so(model_dir: Path, tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    with engine(model=model_dir, log_path=log, core="multiprocess", grammar_masks="batched") as client:
        standing = client.standing
        assert standing is not None and standing.built.resolved["grammar_masks"] == "vllm"
        client.make_masks(by="vllm")
        with pytest.raises(EngineError, match="cannot have its masks made by batched: it was not built for it"):
            client.make_masks(by="batched")
