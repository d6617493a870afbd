"""Every kind of guide on a real engine: what it writes is valid by the validator that is not the grammar engine."""

import json
from pathlib import Path
from typing import Any

import pytest

from schemas.guide import Guide
from schemas.sample import Grammar
from tasks.dataset.guide import make_grammar
from tasks.dataset.tokenizer import Tokenizer
from tasks.engine.client import EngineClient
from tasks.engine.protocol import WireGrammar, WireRequest, WireResult, WireSampling
from tasks.guide.kinds.ebnf import content_of as ebnf_content
from tasks.guide.kinds.packaged import packaged_grammar
from tasks.guide.kinds.tool_calls import content_of as tools_content
from tasks.guide.validate import validate
from tasks.score.reasoning import parse_reasoning
from tests.e2e.engine_client import answers, engine

pytestmark = pytest.mark.engine
TOOLS: list[dict[str, Any]] = [
    {
        "name": "weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"enum": ["Oslo", "Rome"]}, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
            "required": ["city", "days"],
            "additionalProperties": False,
        },
    },
    {"name": "time", "parameters": {"type": "object", "properties": {}, "additionalProperties": False}},
]
TREE = 'root ::= "(" root ")" | [a-z]{1,3} ("," root)?'
CALC = """
start: NUMBER (OPERATOR NUMBER){1,3}
OPERATOR: " + " | " - "
NUMBER: /[1-9][0-9]?/
"""
PROMPTS = {
    "json_schema": "A city and a number of days, as JSON.",
    "ebnf": "Write a list of letters.",
    "python": "Write a function that adds two numbers.",
    "math": "Write the area of a circle as a formula.",
    "sql": "How many employees are there? Write SQL.",
    "tool_calls": "How is the weather in Oslo for 3 days?",
    "regex": "What is 3 + 4?",
}
TOKENS = 64
ENDLESS = {"python": 32, "math": 32}
"""Where the model finds no end: the fewer tokens do as well."""


def grammars(backend: str) -> dict[str, tuple[Grammar, str | None]]:
    """By name: a grammar, and the text that ends what is free before it."""
    guide = Guide.model_validate({"kind": "tool_calls", "tools": TOOLS, "parallel": False})
    listed = Guide.model_validate({"kind": "tool_calls", "tools": TOOLS, "calls": "list", "parallel": False})
    schema = json.dumps(TOOLS[0]["parameters"])
    own = ("llguidance", CALC) if backend == "guidance" else ("xgrammar", TREE)
    found: dict[str, tuple[Grammar, str | None]] = {
        "ebnf": (make_grammar(kind="ebnf", content=ebnf_content(flavour=own[0], grammar=own[1])), None),
        "ebnf gbnf": (make_grammar(kind="ebnf", content=ebnf_content(flavour="gbnf", grammar=TREE)), None),
        "python": (make_grammar(kind="python", content=packaged_grammar("python")), None),
        "math": (make_grammar(kind="math", content=packaged_grammar("math")), None),
        "sql": (make_grammar(kind="sql", content=packaged_grammar("sql")), None),
        "tool_calls": (make_grammar(kind="tool_calls", content=tools_content(TOOLS, guide=guide)), None),
        "tool_calls list": (make_grammar(kind="tool_calls", content=tools_content(TOOLS, guide=listed)), None),
        "json_schema after": (make_grammar(kind="json_schema", content=schema), "."),
        "regex after": (make_grammar(kind="regex", content="[0-9]{1,3}"), "."),
        "tool_calls after": (make_grammar(kind="tool_calls", content=tools_content(TOOLS, guide=guide)), "."),
    }
    return found


def ask(name: str, tokens: list[int], grammar: Grammar, after: str | None) -> WireRequest:
    return WireRequest(
        request_id=name,
        prompt_token_ids=tokens,
        sampling=WireSampling(temperature=0.0, max_tokens=ENDLESS.get(name, TOKENS)),
        grammar=WireGrammar(kind=grammar.kind, content=grammar.content, after=after),
    )


def check(results: dict[str, WireResult], asked: dict[str, tuple[Grammar, str | None]]) -> None:
    ended = 0
    for name, (grammar, after) in asked.items():
        result = results[name]
        assert result.error is None, (name, result.error)
        text = result.text
        if result.finish_reason != "stop":
            continue
        ended += 1
        if after is not None:
            assert after in text, (name, text)
            text = parse_reasoning(f"after:{after}", text).answer
        verdict = validate(grammar, text)
        assert verdict.valid, (name, verdict.violations, text)
    assert ended >= 7, {name: result.finish_reason for name, result in results.items()}


def encoded(model: Path, asked: dict[str, tuple[Grammar, str | None]]) -> dict[str, list[int]]:
    tokenizer = Tokenizer.from_folder(model)
    prompt = "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"
    return {name: tokenizer.encode(prompt.format(PROMPTS[name.split()[0]]), add_special_tokens=False) for name in asked}


def test_xgrammar_writes_each_kind_as_its_judge_takes_it(client: EngineClient, model_dir: Path) -> None:
    asked = grammars("xgrammar")
    tokens = encoded(model_dir, asked)
    results, _ = answers(client, [ask(name, tokens[name], *asked[name]) for name in asked])
    check(results, asked)


def test_a_grammar_may_end_where_generation_ends(client: EngineClient, model_dir: Path) -> None:
    """The token that ends the chat's turn is one that the mask allows, so that an answer can be shorter than its
    grammar lets it be."""
    ends_like_free(client, model_dir)


def ends_like_free(client: EngineClient, model_dir: Path) -> None:
    grammar = make_grammar(kind="regex", content="Answer: 7[0-9]*")
    tokenizer = Tokenizer.from_folder(model_dir)
    said = "Answer: 7"
    prompt = f"<|im_start|>user\nSay: {said}<|im_end|>\n<|im_start|>assistant\n{said}<|im_end|>\n"
    prompt = prompt * 3 + prompt[: prompt.index(said, prompt.index("assistant"))]
    tokens = tokenizer.encode(prompt, add_special_tokens=False)
    results, _ = answers(client, [ask("one", tokens, grammar, None)])
    assert (results["one"].text, results["one"].finish_reason) == (said, "stop")


def test_a_kind_that_the_backend_lacks_costs_its_request(client: EngineClient, model_dir: Path) -> None:
    lark = make_grammar(kind="ebnf", content=ebnf_content(flavour="gbnf", grammar="root ::= ."))
    good = make_grammar(kind="regex", content="[ab]")
    tokens = encoded(model_dir, {"regex": (good, None)})["regex"]
    results, _ = answers(client, [ask("bad", tokens, lark, None), ask("good", tokens, good, None)])
    assert results["bad"].refused
    assert results["good"].text in ("a", "b")


def with_another_end(model: Path, folder: Path) -> Path:
    """The model, whose tokenizer names another token as its end than the generation config does."""
    folder.mkdir()
    for file in model.iterdir():
        if file.name != "tokenizer_config.json":
            (folder / file.name).symlink_to(file)
    config = json.loads((model / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps({**config, "eos_token": "<|endoftext|>"}))
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["xgrammar", "guidance"])
def test_an_answer_may_end_with_a_token_that_only_the_generation_config_names(
    backend: str, model_dir: Path, tmp_path: Path
) -> None:
    model = with_another_end(model_dir, tmp_path / "model")
    with engine(model=model, log_path=tmp_path / "engine.log", grammar_backend=backend) as client:
        ends_like_free(client, model_dir)


@pytest.mark.slow
def test_guidance_writes_each_kind_as_its_judge_takes_it(model_dir: Path, tmp_path: Path) -> None:
    asked = grammars("guidance")
    tokens = encoded(model_dir, asked)
    with engine(model=model_dir, log_path=tmp_path / "engine.log", grammar_backend="guidance") as client:
        results, _ = answers(client, [ask(name, tokens[name], *asked[name]) for name in asked])
    check(results, asked)
