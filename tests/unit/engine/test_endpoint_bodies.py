"""A request in the words of each kind of server, and what cannot be said to it."""

import json
from typing import Any

import pytest

from schemas.guide import GuideKind
from tasks.engine.endpoint.bodies import CannotSay, body, loglikelihood_body
from tasks.engine.endpoint.dialects import DIALECTS, Server
from tasks.engine.endpoint.logprobs import Unread, continuation_logprobs
from tasks.engine.protocol import WireGrammar, WireRequest, WireSampling

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
CONTENT: dict[GuideKind, str] = {
    "json_schema": json.dumps(SCHEMA),
    "json_object": "",
    "regex": "a+b",
    "choice": json.dumps(["yes", 'a "no"']),
    "ebnf": json.dumps({"flavour": "gbnf", "grammar": 'root ::= "x"'}),
    "python": "root ::= [a-z]+",
    "math": "root ::= [0-9]+",
    "sql": 'root ::= "SELECT"',
    "tool_calls": json.dumps(
        {
            "tools": [{"name": "f", "parameters": {"type": "object"}}],
            "parallel": False,
            "calls": "tags",
            "tool_choice": "required",
        }
    ),
}
CHOICE = 'root ::= "yes" | "a \\"no\\""'
JSON_FORMAT = {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": SCHEMA}}
ANY_FORMAT = {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": {"type": "object"}}}
NO = None
"""It cannot be said."""


def server(name: str, api: Any = "completions", **more: Any) -> Server:
    dialect = DIALECTS[name]
    prompts = "messages" if api == "chat" else "token_ids" if dialect.token_ids else "text"
    known: dict[str, Any] = {
        "prompts": prompts,
        "guides": dialect.guides.get(api, ()),
        "loglikelihood": dialect.logprobs,
    }
    return Server(dialect=dialect, api=api, model="m", **(known | more))


def request(*, grammar: WireGrammar | None = None, **more: Any) -> WireRequest:
    sampling = {"temperature": 0.0, "max_tokens": 5, **more.pop("sampling", {})}
    known: dict[str, Any] = {"text": "Hi", "messages": [{"role": "user", "content": "Hi"}], **more}
    return WireRequest(
        request_id="r", prompt_token_ids=[4, 5, 6], sampling=WireSampling(**sampling), grammar=grammar, **known
    )


def grammar(kind: GuideKind, after: str | None = None) -> WireGrammar:
    return WireGrammar(kind=kind, content=CONTENT[kind], after=after)


FORMS: dict[tuple[str, str], dict[str, Any]] = {
    ("vllm", "completions"): {
        "json_schema": {"structured_outputs": {"json": json.dumps(SCHEMA)}},
        "json_object": {"structured_outputs": {"json_object": True}},
        "regex": {"structured_outputs": {"regex": "a+b"}},
        "choice": {"structured_outputs": {"choice": ["yes", 'a "no"']}},
        "ebnf": {"structured_outputs": {"grammar": 'root ::= "x"'}},
        "python": {"structured_outputs": {"grammar": "root ::= [a-z]+"}},
        "math": {"structured_outputs": {"grammar": "root ::= [0-9]+"}},
        "sql": {"structured_outputs": {"grammar": 'root ::= "SELECT"'}},
    },
    ("sglang", "completions"): {
        "json_schema": {"json_schema": json.dumps(SCHEMA)},
        "json_object": {"json_schema": '{"type": "object"}'},
        "regex": {"regex": "a+b"},
        "choice": {"ebnf": CHOICE},
        "ebnf": {"ebnf": 'root ::= "x"'},
        "python": {"ebnf": "root ::= [a-z]+"},
        "math": {"ebnf": "root ::= [0-9]+"},
        "sql": {"ebnf": 'root ::= "SELECT"'},
        "tool_calls": NO,
    },
    ("sglang", "chat"): {
        "json_schema": {"response_format": JSON_FORMAT},
        "json_object": {"response_format": {"type": "json_object"}},
        "regex": {"regex": "a+b"},
        "choice": {"ebnf": CHOICE},
    },
    ("llamacpp", "completions"): {
        "json_schema": {"json_schema": SCHEMA},
        "json_object": {"json_schema": {"type": "object"}},
        "regex": NO,
        "choice": {"grammar": CHOICE},
        "ebnf": {"grammar": 'root ::= "x"'},
        "python": {"grammar": "root ::= [a-z]+"},
        "tool_calls": NO,
    },
    ("llamacpp", "chat"): {
        "json_schema": {"response_format": JSON_FORMAT},
        "json_object": {"response_format": {"type": "json_object"}},
        "choice": {"grammar": CHOICE},
    },
    ("llama_cpp_python", "completions"): {
        "json_schema": NO,
        "json_object": NO,
        "regex": NO,
        "choice": {"grammar": CHOICE},
        "sql": {"grammar": 'root ::= "SELECT"'},
    },
    ("llama_cpp_python", "chat"): {
        "json_schema": {"response_format": {"type": "json_object", "schema": SCHEMA}},
        "json_object": {"response_format": {"type": "json_object", "schema": {"type": "object"}}},
        "regex": NO,
    },
    ("lmstudio", "completions"): {"json_schema": NO, "choice": NO},
    ("lmstudio", "chat"): {
        "json_schema": {"response_format": JSON_FORMAT},
        "json_object": {"response_format": ANY_FORMAT},
        "choice": NO,
        "ebnf": NO,
    },
    ("openai", "completions"): {"json_schema": NO},
    ("openai", "chat"): {
        "json_schema": {"response_format": JSON_FORMAT},
        "json_object": {"response_format": {"type": "json_object"}},
        "regex": NO,
        "choice": NO,
        "tool_calls": NO,
    },
}


@pytest.mark.parametrize(
    ("name", "api", "kind"), [(*key, kind) for key, kinds in FORMS.items() for kind in kinds], ids=str
)
def test_each_guide_is_said_in_the_servers_words_or_not_at_all(name: str, api: str, kind: GuideKind) -> None:
    wanted = FORMS[name, api][kind]
    asked = request(grammar=grammar(kind))
    if wanted is NO:
        with pytest.raises(CannotSay, match=f"a guide of the kind {kind}: {name} has no form for it"):
            body(asked, server(name, api))
        return
    free = body(request(), server(name, api))
    guided = body(asked, server(name, api))
    assert {key: value for key, value in guided.items() if key not in free} == wanted
    assert {key: value for key, value in guided.items() if key in free} == free


def test_what_is_free_before_a_guide_and_calls_go_to_vllm_as_a_structural_tag() -> None:
    for asked in (grammar("json_schema", after="</think>"), grammar("tool_calls")):
        (name,) = (found := body(request(grammar=asked), server("vllm"))["structured_outputs"])
        assert name == "structural_tag" and json.loads(found[name])["type"] == "structural_tag"
    for name in ("sglang", "llamacpp"):
        with pytest.raises(CannotSay, match="anything free before a guided answer"):
            body(request(grammar=grammar("choice", after="</think>")), server(name))
    lark = body(request(grammar=grammar("choice", after="x")), server("vllm", grammar_backend="guidance"))
    assert lark["structured_outputs"]["grammar"].startswith("start: ")


def test_an_older_vllm_gets_its_own_fields() -> None:
    old = server("vllm", structured="guided", version="0.9.2")
    assert body(request(grammar=grammar("regex")), old)["guided_regex"] == "a+b"
    assert body(request(grammar=grammar("json_schema")), old)["guided_json"] == json.dumps(SCHEMA)
    assert body(request(grammar=grammar("json_object")), old)["response_format"] == {"type": "json_object"}
    with pytest.raises(CannotSay, match=r"vLLM 0\.9\.2 has no form"):
        body(request(grammar=grammar("tool_calls")), old)


@pytest.mark.parametrize(
    ("name", "flavour"), [("llamacpp", "xgrammar"), ("sglang", "llguidance"), ("llamacpp", "llguidance")]
)
def test_a_grammar_of_another_flavour_is_not_sent(name: str, flavour: str) -> None:
    content = json.dumps({"flavour": flavour, "grammar": 'start: "x"'})
    with pytest.raises(CannotSay, match=f"of the flavour {flavour}"):
        body(request(grammar=WireGrammar(kind="ebnf", content=content)), server(name))
    with pytest.raises(CannotSay, match="written for llguidance"):
        body(request(grammar=WireGrammar(kind="sql", content='start: "SELECT"')), server(name))


def test_what_the_probe_found_missing_is_not_sent_either() -> None:
    with pytest.raises(CannotSay, match="it has: choice"):
        body(request(grammar=grammar("json_schema")), server("vllm", guides=("choice",)))


def test_prompts_go_as_the_server_takes_them() -> None:
    assert body(request(), server("vllm"))["prompt"] == [4, 5, 6]
    assert body(request(), server("llama_cpp_python"))["prompt"] == "Hi"
    chat = body(request(), server("openai", "chat"))
    assert chat["messages"] == [{"role": "user", "content": "Hi"}] and "prompt" not in chat
    with pytest.raises(CannotSay, match="without its text"):
        body(request(text=None), server("llama_cpp_python"))
    with pytest.raises(CannotSay, match="without messages"):
        body(request(messages=None), server("openai", "chat"))


def test_only_those_who_know_a_field_get_it() -> None:
    full = {"ignore_eos": True, "top_k": 7, "seed": 3, "top_p": 0.5, "stop": ["\n"], "temperature": 0.7}
    found = body(request(sampling=full), server("vllm", names_tokens=True))
    assert full.items() <= found.items()
    assert found["return_token_ids"] and found["stream_options"] == {"include_usage": True}
    assert found["repetition_penalty"] == 1.0 and found["max_tokens"] == 5
    plain = body(request(sampling={"seed": 3}), server("openai", "chat", limit="max_completion_tokens", usage=False))
    assert set(plain) == {"model", "messages", "stream", "max_completion_tokens", "temperature", "top_p", "seed"}
    with pytest.raises(CannotSay, match="an answer of an exact length"):
        body(request(sampling={"ignore_eos": True}), server("openai", "chat"))
    with pytest.raises(CannotSay, match="`top_k`"):
        body(request(sampling={"top_k": 7}), server("openai", "chat"))
    with pytest.raises(CannotSay, match="takes no `temperature`"):
        body(request(), server("openai", "chat", temperature=False))
    assert "temperature" not in body(
        request(sampling={"temperature": 1.0}), server("openai", "chat", temperature=False)
    )


def test_an_adapter_is_a_model_of_its_name() -> None:
    known = server("vllm", models=("m", "poet"))
    assert body(request(adapter="poet"), known)["model"] == "poet"
    with pytest.raises(CannotSay, match="the adapter `prose`"):
        body(request(adapter="prose"), known)


def test_more_fields_of_the_configuration_are_sent() -> None:
    assert body(request(), server("llamacpp", body={"cache_prompt": False}))["cache_prompt"] is False


def test_log_likelihoods_are_asked_for_in_two_ways_or_refused() -> None:
    asked = request(continuation_start=1)
    by_name = loglikelihood_body(asked, server("vllm"))
    assert by_name["prompt_logprobs"] == 0 and by_name["prompt"] == [4, 5, 6] and "stream" not in by_name
    assert loglikelihood_body(asked, server("sglang"))["echo"] is True
    with pytest.raises(CannotSay, match="a log-likelihood"):
        loglikelihood_body(asked, server("llamacpp"))


def test_log_probabilities_are_those_of_the_continuation() -> None:
    places = [None, {"5": {"logprob": -1.0}, "9": {"logprob": -0.1}}, {"6": {"logprob": -2.0}}]
    for answer in ({"choices": [{"prompt_logprobs": places}]}, {"choices": [{}], "prompt_logprobs": places}):
        assert continuation_logprobs(answer, token_ids=[4, 5, 6], start=1) == [-1.0, -2.0]
    cut = {"choices": [{"prompt_logprobs": places[2:]}]}
    assert continuation_logprobs(cut, token_ids=[4, 5, 6], start=2) == [-2.0], "a cached beginning is not listed"
    echoed = {"choices": [{"logprobs": {"token_logprobs": [None, -1.0, -2.0, -9.0]}}]}
    assert continuation_logprobs(echoed, token_ids=[4, 5, 6], start=1) == [-1.0, -2.0]
    for answer in (
        {},
        {"choices": []},
        {"choices": [{}]},
        cut,
        {"choices": [{"logprobs": {"token_logprobs": [None]}}]},
    ):
        with pytest.raises(Unread):
            continuation_logprobs(answer, token_ids=[4, 5, 6], start=1)
    with pytest.raises(Unread, match="none for the token 5"):
        continuation_logprobs({"choices": [{"prompt_logprobs": [None, {}, {}]}]}, token_ids=[4, 5, 6], start=1)
