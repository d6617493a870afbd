"""vLLM's own server asked through the endpoint's process, beside vLLM in assay's own."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from schemas.engine import Sampling
from schemas.errors import EngineError
from schemas.sample import Request
from tasks.engine.client import EngineClient
from tasks.engine.protocol import Built, WireGrammar, WireRequest, WireSampling
from tasks.generate import generate
from tasks.load.send import Planned, send
from tasks.responses import RowContext
from tests.e2e.engine_client import answers, request
from tests.e2e.servers import endpoint, vllm_server

pytestmark = pytest.mark.slow

KEY = "sk-of-a-test-0123456789"
VARIABLES = {"TEST_KEY": KEY}
TEXTS = ("The capital of France is", "Once upon a time", "Grüße aus Köln! 🙂", "def add(a, b):\n    return")
SCHEMA = {
    "type": "object",
    "properties": {"size": {"enum": ["small", "large"]}, "count": {"type": "integer", "minimum": 0, "maximum": 99}},
    "required": ["size", "count"],
    "additionalProperties": False,
}
CALLS = {
    "tools": [{"name": "ping", "parameters": {"type": "object", "properties": {}, "additionalProperties": False}}],
    "parallel": False,
    "calls": "tags",
    "tool_choice": "required",
}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory, model_dir: Path) -> Iterator[str]:
    with vllm_server(model=model_dir, log_path=tmp_path_factory.mktemp("serve") / "vllm.log", key=KEY) as url:
        yield url


@pytest.fixture(scope="module")
def asked(url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[EngineClient, Built]]:
    log_path = tmp_path_factory.mktemp("endpoint") / "endpoint.log"
    with endpoint(url=url, log_path=log_path, variables=VARIABLES, api_key_env="TEST_KEY") as both:
        yield both


@pytest.fixture(scope="module")
def prompts(model_dir: Path) -> dict[str, list[int]]:
    tokenizer = Tokenizer.from_file(str(model_dir / "tokenizer.json"))
    return {text: tokenizer.encode(text).ids for text in TEXTS}


def test_it_is_known_for_what_it_is(asked: tuple[EngineClient, Built], url: str) -> None:
    told = asked[1].resolved
    assert (told["dialect"], told["url"], told["api"]) == ("vllm", f"{url}/v1", "completions")
    assert re.fullmatch(r"\d+\.\d+\..*", told["server_version"])
    assert (told["prompts"], told["token_counts"], told["max_model_len"]) == ("token_ids", "token_ids", 512)
    assert told["exact_lengths"] and told["resets_prefix_cache"] and told["engine_metrics"]
    assert (told["loglikelihood"], told["unsupported"]) == ("prompt_logprobs", [])
    assert KEY not in repr(asked[1])


def test_greedy_answers_are_those_of_the_same_vllm_in_our_own_process(
    asked: tuple[EngineClient, Built], client: EngineClient, prompts: dict[str, list[int]]
) -> None:
    requests = [request(text, ids, max_tokens=24) for text, ids in prompts.items()]
    here, _ = answers(client, requests)
    there, _ = answers(asked[0], requests)
    for text in prompts:
        assert there[text].error is None
        assert there[text].token_ids == here[text].token_ids
        assert there[text].text == here[text].text
        assert there[text].finish_reason == here[text].finish_reason


def test_so_are_log_likelihoods(
    asked: tuple[EngineClient, Built], client: EngineClient, prompts: dict[str, list[int]]
) -> None:
    requests = []
    for text, ids in prompts.items():
        scored = request(text, ids)
        scored.continuation_start = len(ids) // 2
        requests.append(scored)
    here, _ = answers(client, requests)
    there, _ = answers(asked[0], requests)
    for text, ids in prompts.items():
        assert len(there[text].logprobs or []) == len(ids) - len(ids) // 2
        assert there[text].logprobs == pytest.approx(here[text].logprobs, abs=1e-3)


def test_counts_and_times_hold_together(asked: tuple[EngineClient, Built], prompts: dict[str, list[int]]) -> None:
    wanted = {f"{text} {n}": ids for n in range(4) for text, ids in prompts.items()}
    requests = [request(name, ids, max_tokens=20) for name, ids in wanted.items()]
    for each in requests:
        each.sampling.ignore_eos = True
    found, messages = answers(asked[0], requests)
    for name, ids in wanted.items():
        result = found[name]
        assert len(result.token_ids) == result.output_tokens == 20 and result.finish_reason == "length"
        assert (result.prompt_tokens, result.tries) == (len(ids), 1)
        assert result.first_token_at is not None and result.last_token_at is not None
        assert result.sent_at < result.first_token_at < result.last_token_at <= result.finished_at
        assert sum(result.gaps_ms) == pytest.approx((result.last_token_at - result.first_token_at) * 1000)
        assert 1 <= 20 - sum(result.gap_tokens) <= 3, "the first arrival brought the rest"
    asked[0].stats()
    messages += asked[0].take_steps()
    # The prompts' last tokens count as the first ones of the answers: what decoding computed is one less each.
    assert sum(message.totals.decode_tokens for message in messages) >= 19 * len(requests)
    assert 20 <= sum(message.totals.steps for message in messages) <= 20 * len(requests)
    assert max(step.running for message in messages for step in message.steps) > 1


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("json_schema", json.dumps(SCHEMA)),
        ("regex", "[a-c]{3}-[0-9]{2}"),
        ("choice", json.dumps(["yes", "no", "maybe so"])),
        ("ebnf", json.dumps({"flavour": "gbnf", "grammar": 'root ::= ("ab" | "cd") "!"'})),
        ("tool_calls", json.dumps(CALLS)),
    ],
)
def test_guided_answers_obey(
    asked: tuple[EngineClient, Built], prompts: dict[str, list[int]], kind: str, content: str
) -> None:
    guided = request(kind, prompts[TEXTS[0]], max_tokens=60)
    guided.grammar = WireGrammar(kind=kind, content=content)
    result = answers(asked[0], [guided])[0][kind]
    assert (result.error, result.finish_reason) == (None, "stop")
    match kind:
        case "json_schema":
            value = json.loads(result.text)
            assert set(value) == {"size", "count"}
            assert value["size"] in ("small", "large") and 0 <= value["count"] <= 99
        case "regex":
            assert re.fullmatch("[a-c]{3}-[0-9]{2}", result.text)
        case "choice":
            assert result.text in ("yes", "no", "maybe so")
        case "ebnf":
            assert result.text in ("ab!", "cd!")
        case _:
            call = re.fullmatch(r"<tool_call>\n(.*)\n</tool_call>", result.text, re.DOTALL)
            assert call is not None and json.loads(call[1])["name"] == "ping"


def test_chat_answers_the_same_messages(url: str, tmp_path: Path) -> None:
    options = {"api": "chat", "api_key_env": "TEST_KEY"}
    with endpoint(url=url, log_path=tmp_path / "chat.log", variables=VARIABLES, **options) as (client, built):
        assert (built.resolved["prompts"], built.resolved["token_counts"]) == ("messages", "token_ids")
        free = request("free", [1], max_tokens=12)
        free.messages = [{"role": "user", "content": "What is the capital of France?"}]
        guided = request("guided", [1], max_tokens=60)
        guided.messages, guided.grammar = free.messages, WireGrammar(kind="json_schema", content=json.dumps(SCHEMA))
        found, _ = answers(client, [free, guided])
        assert "Paris" in found["free"].text and len(found["free"].token_ids) <= 12
        assert json.loads(found["guided"].text)["size"] in ("small", "large")


def test_a_reset_empties_the_prefix_cache(asked: tuple[EngineClient, Built]) -> None:
    client = asked[0]
    hits = []
    for again in range(3):
        if again != 1:
            client.reset_prefix_cache()
        answers(client, [request(f"long {again}", list(range(3_000, 3_200)), max_tokens=2)])
        hits.append(client.stats()["vllm:prefix_cache_hits"])
    assert hits[1] - hits[0] >= 160 and hits[2] == hits[1]


def test_what_vllm_refuses_is_refused_in_its_words(asked: tuple[EngineClient, Built]) -> None:
    client = asked[0]
    bad = request("bad", [1, 2], max_tokens=4)
    bad.grammar = WireGrammar(kind="regex", content="(")
    found, _ = answers(client, [request("long", list(range(600))), bad])
    assert found["long"].refused and "512" in str(found["long"].error)
    assert found["bad"].refused and str(found["bad"].error).startswith("HTTP 400")


def test_generating_and_sending_go_through_it_unchanged(
    asked: tuple[EngineClient, Built], prompts: dict[str, list[int]]
) -> None:
    client = asked[0]
    requests = [
        Request(
            request_id=f"r{number}",
            dataset="d",
            sample_id=str(number),
            arm="free",
            kind="generate",
            prompt_token_ids=prompts[TEXTS[number % 4]],
            max_tokens=6,
            stop=[],
        )
        for number in range(12)
    ]
    rows: list[dict[str, object]] = []
    context = RowContext(
        engine_id="e", sampling={"d": Sampling()}, keys={each.request_id: each.request_id for each in requests},
        attempts={},
    )  # fmt: skip
    done = generate(engine=client, requests=requests, context=context, window=4, write=rows.extend)
    assert (done.done, done.failed, len(rows)) == (12, 0, 12)
    assert all(row["output_tokens"] == 6 and row["ttft_ms"] > 0 for row in rows)  # type: ignore[operator]
    sampling = WireSampling(temperature=0.0, max_tokens=4, ignore_eos=True)
    plan = [
        Planned(
            request=WireRequest(request_id=f"s{number}", prompt_token_ids=prompts[TEXTS[0]], sampling=sampling),
            due_s=number * 0.05,
        )
        for number in range(20)
    ]
    sent = send(client, plan, wait_for_s=60)
    assert not sent.left and len(sent.answered) == 20
    assert all(len(result.token_ids) == 4 for _, result in sent.answered)


def test_a_wrong_key_is_not_taken(url: str, tmp_path: Path) -> None:
    other = {"TEST_KEY": "sk-another-0123456789"}
    with (
        pytest.raises(EngineError, match=r"does not take the key in TEST_KEY \(HTTP 401\)"),
        endpoint(url=url, log_path=tmp_path / "wrong.log", variables=other, api_key_env="TEST_KEY"),
    ):
        pass
