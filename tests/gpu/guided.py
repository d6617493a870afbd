"""What guiding costs in tokens a second: guided answers, and free ones of exactly their lengths, on one engine."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from schemas.engine import Grammar, VllmEngine
from tasks.engine.client import EngineClient
from tasks.engine.protocol import WireGrammar, WireRequest, WireResult, WireSampling
from tests.gpu.bench import Bench, built, in_turn, sized_engine
from tests.gpu.engines import Arm, Standing, figures, place_of, results_of, standing
from tests.gpu.loads import Load, batch
from tests.gpu.models import LARGE

AT_ONCE = (64, 256)
PROMPT = 64
LONGEST = 640
"""Tokens: far more than an answer of the schema has."""
ARMS = ("matched", "cold", "warm", "again", "one by one")
"""free, each of its guided answer's length; guided by a grammar that the engine has never seen, by one that it compiled
before the first request, and by the one of the answers before; by that one with each mask made by vLLM itself."""
_WORD = {"type": "string", "pattern": "^[a-z]{6,10}$"}
_COUNT = {"type": "integer", "minimum": 1, "maximum": 999}
_ITEM = {"name": _WORD, "quantity": _COUNT, "kind": {"enum": ["new", "used"]}}


def grammar(title: str) -> WireGrammar:
    """A list of eight items, some 250 tokens. Another title makes another grammar of it that allows the same."""
    item = {"type": "object", "properties": _ITEM, "required": list(_ITEM), "additionalProperties": False}
    schema = {"title": title, "type": "array", "items": item, "minItems": 8, "maxItems": 8}
    return WireGrammar(kind="json_schema", content=json.dumps(schema))


def engines(bench: Bench) -> dict[str, VllmEngine]:
    """The engine as planned, with vLLM's core in a process of its own, and with another backend."""
    whole = sized_engine(kv_gib=bench.kv_gib(24))
    return {
        "xgrammar": whole,
        "xgrammar, own core": whole.model_copy(update={"core": "multiprocess"}),
        "guidance": whole.model_copy(update={"grammar": Grammar(backend="guidance")}),
    }


def guided(bench: Bench) -> None:
    """Guided against matched at 64 and at 256 at once."""
    loads = [_long(load) for load in bench.loads([batch(size, prompt=PROMPT) for size in AT_ONCE])]
    for number, (name, engine) in enumerate(engines(bench).items()):
        done = all(
            bench.record.has(case="guided", arm=f"{name}: {arm}", load=load.name, pass_=bench.passes - 1)
            for arm in _arms(engine)
            for load in loads
        )
        if done or not bench.mine(number) or not bench.may_start(f"guided, {name}"):
            continue
        with (
            bench.attempt(f"guided, {name}"),
            standing([Arm(name=name, engine=engine)], loads=loads, model=bench.model(LARGE), logs=bench.logs) as made,
        ):
            built(bench.record, "guided", LARGE, made)
            for load in loads:
                _measure(bench, made[name], load)


def _measure(bench: Bench, engine: Standing, load: Load) -> None:
    vocabulary = min(bench.model(LARGE).vocab_size, 49_000)
    _ask(engine.client, _guided(load, seed=-1, vocabulary=vocabulary, title="first of all"))
    for turn in range(bench.passes):
        seen = f"{load.name}, pass {turn}"
        engine.client.warm([grammar(seen)], limit_s=60)
        shape = _ask(engine.client, _guided(load, seed=turn, vocabulary=vocabulary, title=seen))
        lengths = [len(each.token_ids) for each in shape]
        for arm in [name for at, name in in_turn(_arms(engine.arm.engine), bench.passes) if at == turn]:
            title = seen if arm in ("again", "one by one") else f"{seen}, {arm}"
            requests = _guided(load, seed=turn, vocabulary=vocabulary, title=title)
            if arm == "matched":
                requests = [_free(each, length) for each, length in zip(requests, lengths, strict=True)]
            found: dict[str, Any] = {}
            if arm == "warm":
                found["warm_s"] = engine.client.warm([grammar(title)], limit_s=60).seconds
            found |= figures(_asked(engine.client, requests, arm=arm), prompt_tokens=load.prompt_tokens)
            name = f"{engine.arm.name}: {arm}"
            bench.record.add(case="guided", model=LARGE, arm=name, load=load.name, pass_=turn, **found)


def _arms(engine: VllmEngine) -> tuple[str, ...]:
    return ARMS[:-1] if engine.core == "multiprocess" else ARMS


def _asked(client: EngineClient, requests: Sequence[WireRequest], *, arm: str) -> list[WireResult]:
    if arm != "one by one":
        return _ask(client, requests)
    client.make_masks(by="vllm")
    try:
        return _ask(client, requests)
    finally:
        client.make_masks(by="batched")


def _long(load: Load) -> Load:
    return replace(load, shape=tuple((prompt, LONGEST) for prompt, _ in load.shape))


def _guided(load: Load, *, seed: int, vocabulary: int, title: str) -> list[WireRequest]:
    own = grammar(title)
    sampling = WireSampling(temperature=0.0, max_tokens=LONGEST)
    return [
        WireRequest(
            request_id=f"{title}-{index}", prompt_token_ids=each.prompt_token_ids, sampling=sampling, grammar=own
        )
        for index, each in enumerate(load.requests(seed=seed, vocabulary=vocabulary))
    ]


def _free(request: WireRequest, length: int) -> WireRequest:
    return WireRequest(
        request_id=request.request_id,
        prompt_token_ids=request.prompt_token_ids,
        sampling=WireSampling(temperature=0.0, max_tokens=length, ignore_eos=True),
    )


def _ask(client: EngineClient, requests: Sequence[WireRequest]) -> list[WireResult]:
    """All at once, on an empty prefix cache. Raises RuntimeError where one failed, ValueError where a guided one is no
    whole answer."""
    client.reset_prefix_cache()
    results = sorted(results_of(client, requests, at_once=len(requests)), key=place_of)
    client.take_steps()
    guided_ones = {each.request_id for each in requests if each.grammar is not None}
    for result in results:
        if result.error is not None:
            raise RuntimeError(f"{result.request_id}: {result.error}")
        if result.request_id in guided_ones:
            json.loads(result.text)
    return results
