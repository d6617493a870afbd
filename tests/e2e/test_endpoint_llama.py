"""llama.cpp's server, as llama-cpp-python has it, asked through the endpoint's process."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tasks.engine.protocol import WireGrammar, WireRequest
from tests.e2e.engine_client import answers, request
from tests.e2e.servers import endpoint, llama_server

pytestmark = pytest.mark.slow

PROMPT = "The capital of France is"
SCHEMA = {
    "type": "object",
    "properties": {"capital": {"type": "string", "maxLength": 20}, "sure": {"type": "boolean"}},
    "required": ["capital", "sure"],
}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with llama_server(log_path=tmp_path_factory.mktemp("llama") / "llama.log") as url:
        yield url


def asked(name: str, *, grammar: WireGrammar | None = None, max_tokens: int = 12) -> WireRequest:
    found = request(name, [1], max_tokens=max_tokens)
    found.text, found.grammar = PROMPT, grammar
    found.messages = [{"role": "user", "content": "What is the capital of France?"}]
    return found


def test_completions_get_text_and_grammars_of_their_own_notation(url: str, tmp_path: Path) -> None:
    with endpoint(url=url, log_path=tmp_path / "endpoint.log") as (client, built):
        told = built.resolved
        assert (told["dialect"], told["api"], told["prompts"]) == ("llama_cpp_python", "completions", "text")
        assert told["guides"] == ["choice", "ebnf", "python", "math", "sql"]
        assert told["token_counts"] == "chunks" and not told["exact_lengths"]
        grammar = json.dumps({"flavour": "gbnf", "grammar": 'root ::= " " [A-Z] [a-z]+ "."'})
        exact = asked("exact")
        exact.sampling.ignore_eos = True
        found, _ = answers(
            client,
            [
                asked("free"),
                asked("choice", grammar=WireGrammar(kind="choice", content='["Rome", "Paris"]')),
                asked("ebnf", grammar=WireGrammar(kind="ebnf", content=grammar), max_tokens=20),
                asked("schema", grammar=WireGrammar(kind="json_schema", content=json.dumps(SCHEMA))),
                exact,
            ],
        )
        free = found["free"]
        assert free.error is None and "Paris" in free.text and free.finish_reason == "length"
        assert free.output_tokens is None and free.token_ids == [], "it tells no count, and chunks are none"
        assert free.first_token_at is not None and free.last_token_at is not None
        assert free.sent_at < free.first_token_at < free.last_token_at and len(free.gaps_ms) >= 8
        assert found["choice"].text == "Paris"
        assert found["ebnf"].text.startswith(" ") and found["ebnf"].text[1].isupper()
        assert found["schema"].refused and "has no form for it" in str(found["schema"].error)
        assert found["exact"].refused and "exact length" in str(found["exact"].error)


def test_chat_guides_json(url: str, tmp_path: Path) -> None:
    with endpoint(url=url, log_path=tmp_path / "endpoint.log", api="chat") as (client, built):
        assert "json_schema" in built.resolved["guides"]
        schema = WireGrammar(kind="json_schema", content=json.dumps(SCHEMA))
        found, _ = answers(client, [asked("free"), asked("schema", grammar=schema, max_tokens=60)])
        assert found["free"].error is None and found["free"].text.strip() != ""
        value = json.loads(found["schema"].text)
        assert set(value) == {"capital", "sure"} and isinstance(value["sure"], bool)
