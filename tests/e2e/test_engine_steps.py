"""What a real engine tells of its steps, counted against what was asked of it and what it answered."""

import json
import os
import signal
from pathlib import Path

import msgspec
import pytest

from tasks.engine.client import EngineClient
from tasks.engine.failure import EngineDied
from tasks.engine.protocol import Steps, WireGrammar, WireResult, WireStep
from tasks.record.steps import StepTotals, engine_metrics
from tests.e2e.engine_client import answers, engine, request

LONG = list(range(1_000, 1_300))
"""300 tokens: with a threshold of 64 computed in five steps."""


def _told(messages: list[Steps]) -> tuple[list[WireStep], StepTotals]:
    totals = StepTotals()
    for message in messages:
        totals.add(message.totals)
    return [step for message in messages for step in message.steps], totals


def _tokens(results: dict[str, WireResult]) -> int:
    return sum(len(result.token_ids) for result in results.values())


def test_its_tokens_are_those_asked_and_answered(client: EngineClient) -> None:
    prompts = {"long": LONG, **{f"short-{n}": list(range(2_000 + 50 * n, 2_020 + 50 * n)) for n in range(5)}}
    results, messages = answers(client, [request(name, tokens) for name, tokens in prompts.items()])
    steps, totals = _told(messages)

    assert results["long"].prefill_steps == 5
    assert {results[f"short-{n}"].prefill_steps for n in range(5)} == {1}
    assert results["long"].draft_tokens is None, "nothing is drafted here"
    assert sum(step.prompt_tokens or 0 for step in steps) == sum(len(tokens) for tokens in prompts.values())
    # A request's first token comes of its prompt, each further one of a token that was put in.
    assert sum(step.decode_tokens or 0 for step in steps) == _tokens(results) - len(prompts)
    assert max(step.running for step in steps) == len(prompts)
    assert all(0 < (step.kv_usage or 0) < 1 and step.step_ms and step.step_ms > 0 for step in steps)
    assert {step.graph_mode for step in steps} == {None}, "a processor has no CUDA graphs"
    assert [step.ended_at for step in steps] == sorted(step.ended_at for step in steps)
    assert totals.sums["steps"] == len(steps)
    assert totals.prompt_steps == {1: 5, 5: 1}
    assert totals.preempted == 0


def test_where_the_threshold_yields_it_holds_only_while_a_short_prompt_waits(client: EngineClient) -> None:
    prompts = {f"long-{n}": list(range(5_000 + 500 * n, 5_400 + 500 * n)) for n in range(2)}
    prompts |= {f"short-{n}": list(range(7_000 + 50 * n, 7_020 + 50 * n)) for n in range(3)}
    asked = [request(name, tokens) for name, tokens in prompts.items()]
    told = {}
    for yields in (False, True):
        client.reschedule(threshold=64, budget=512, yields=yields)
        client.reset_prefix_cache()
        told[yields], messages = answers(client, asked)
        # The threshold itself is as it was: two of 64 tokens and the three short prompts share the first step.
        assert next(step.prompt_tokens for step in _told(messages)[0]) == 2 * 64 + 3 * 20
    assert {told[False][f"long-{n}"].prefill_steps for n in range(2)} == {7}
    # Nobody waits any more: what is left of the one, and of the other what a step of 512 tokens has room for.
    assert [told[True][f"long-{n}"].prefill_steps for n in range(2)] == [2, 3]
    assert {told[True][f"short-{n}"].prefill_steps for n in range(3)} == {1}
    assert {name: each.token_ids for name, each in told[True].items()} == {
        name: each.token_ids for name, each in told[False].items()
    }
    client.reschedule(threshold=64, budget=512)


def _schema(mark: str, properties: int) -> WireGrammar:
    names = [f"{mark}{number:04d}" for number in range(properties)]
    content = {"type": "object", "properties": {name: {"type": "integer"} for name in names}, "required": names}
    return WireGrammar(kind="json_schema", content=json.dumps(content | {"additionalProperties": False}))


def test_grammars_are_warm_before_the_first_request_and_no_step_tells_of_it(client: EngineClient) -> None:
    def waited(name: str) -> float:
        asked = msgspec.structs.replace(request(name, [5, 6, 7], max_tokens=3), grammar=_schema(name, 1_500))
        found, messages = answers(client, [asked])
        assert sum(message.totals.steps for message in messages) == 3
        queued_ms = found[name].queued_ms
        assert queued_ms is not None
        return queued_ms

    refused = WireGrammar(kind="json_schema", content='{"type": "array", "uniqueItems": true}')
    done = client.warm([refused, *(_schema(f"warm{number}", 1_500) for number in range(3))], limit_s=60)
    assert (done.grammars, done.seconds > 0) == (3, True)
    # The best of three: a machine with other work delays any of them.
    warm, cold = ([waited(f"{kind}{number}") for number in range(3)] for kind in ("warm", "cold"))
    assert min(warm) * 3 < min(cold)
    assert client.warm([_schema("late", 900), _schema("later", 900)], limit_s=0.001).grammars == 0
    assert answers(client, [request("after-late", [5, 6, 7], max_tokens=3)])[0]["after-late"].error is None


def test_an_engine_that_hangs_on_a_grammar_counts_as_hung(
    model_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks.engine.client._WARM_GRACE_S", 1.0)
    with engine(model=model_dir, log_path=tmp_path / "engine.log") as own:
        worker = own.hello(timeout_s=5).pid
        os.kill(worker, signal.SIGSTOP)
        try:
            with pytest.raises(EngineDied, match="while compiling grammars") as died:
                own.warm([_schema("stopped", 1)], limit_s=0.5)
        finally:
            os.kill(worker, signal.SIGCONT)
    assert died.value.how == "hung"


def test_what_the_prefix_cache_knew_was_not_computed_again(client: EngineClient) -> None:
    asked = [request("once", list(range(3_000, 3_200)), max_tokens=2)]
    answers(client, asked)
    results, messages = answers(client, asked)
    steps, totals = _told(messages)
    assert results["once"].cached_tokens == 192
    assert totals.sums["prefix_queries"] == 200
    assert totals.sums["prefix_hits"] == 192
    assert sum(step.prompt_tokens or 0 for step in steps) == 8
    (rate,) = [each for each in engine_metrics(totals, engine_id="e") if each.name == "engine.prefix_hit_rate"]
    assert rate.value == 0.96


@pytest.mark.slow
def test_a_full_cache_preempts_and_what_is_computed_again_is_no_answer(model_dir: Path, tmp_path: Path) -> None:
    # 20 blocks of 32 tokens; six answers of 200 tokens do not fit beside each other.
    block = 2 * 30 * 3 * 64 * 32 * 4
    with engine(
        model=model_dir,
        log_path=tmp_path / "engine.log",
        kv_cache_memory_bytes=20 * block,
        enable_prefix_caching=False,
        long_prefill_token_threshold=0,
    ) as client:
        asked = [request(f"r{n}", list(range(500 + 7 * n, 530 + 7 * n)), max_tokens=200) for n in range(6)]
        results, messages = answers(client, asked)
    steps, totals = _told(messages)
    assert totals.preempted == sum(result.preemptions or 0 for result in results.values()) > 0
    assert sum(step.preempted or 0 for step in steps) == totals.preempted
    assert totals.kv_usage_max > 0.9
    assert sum(step.prompt_tokens or 0 for step in steps) > 6 * 30, "they were computed again"
    # With two steps in flight what was made of a request that is preempted is thrown away, so it may be a few more.
    assert 0 <= sum(step.decode_tokens or 0 for step in steps) - (_tokens(results) - 6) <= 2 * totals.preempted
    assert totals.sums["prefix_queries"] == 0


@pytest.mark.slow
def test_a_core_of_its_own_tells_its_steps_and_no_single_prompt(model_dir: Path, tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    with engine(model=model_dir, log_path=log, core="multiprocess") as client:
        results, messages = answers(client, [request("long", LONG), request("short", LONG[:20])])
    steps, totals = _told(messages)
    assert sum(step.prompt_tokens or 0 for step in steps) == 320 - (results["short"].cached_tokens or 0)
    assert sum(step.decode_tokens or 0 for step in steps) == _tokens(results) - 2
    assert all(step.step_ms and step.kv_usage is not None for step in steps)
    assert {result.prefill_steps for result in results.values()} == {None}
    assert totals.prompt_steps == {}
    assert totals.preempted is None, "it is not told there, which is not none"
    assert log.read_text().count("Iteration(") <= 1, "vLLM writes no line a step, but for the start's first token"


@pytest.mark.slow
def test_speculation_is_counted_by_request_and_by_position(model_dir: Path, tmp_path: Path) -> None:
    speculative = {"method": "ngram", "tokens": 3, "lookup": [1, 3]}
    with engine(
        model=model_dir, log_path=tmp_path / "engine.log", speculative=speculative, long_prefill_token_threshold=0
    ) as client:
        copied = [*range(1_000, 1_012)] * 8
        results, messages = answers(client, [request("copy", copied, max_tokens=40)])
    _, totals = _told(messages)
    sums = totals.sums
    assert sums["draft_tokens"] == results["copy"].draft_tokens > 0
    assert sums["accepted_tokens"] == results["copy"].accepted_tokens == sum(totals.accepted_by_position) > 0
    assert sum(totals.drafted_by_position) == sums["draft_tokens"]
    assert totals.accepted_by_position == sorted(totals.accepted_by_position, reverse=True)
    metrics = {metric.name: metric for metric in engine_metrics(totals, engine_id="e")}
    assert metrics["engine.spec.acceptance"].value == sums["accepted_tokens"] / sums["draft_tokens"]
    assert 1 < (metrics["engine.spec.mean_length"].value or 0) <= 4
