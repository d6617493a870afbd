"""Tool calls, and a guided answer behind something free: the forms for both backends, and their judges."""

import json
from typing import Any

import pytest

from schemas.guide import Guide
from tasks.dataset.guide import make_grammar
from tasks.engine.grammar_form import NoForm, engine_form
from tasks.guide.kinds.tool_calls import BadTools, content_of
from tasks.guide.validate import validate
from tasks.score.reasoning import closes, parse_reasoning
from tasks.score.text.tool_calls import find_calls
from tests.unit.guide.drawing import Llguidance

PARAMETERS = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1}},
    "required": ["city", "days"],
    "additionalProperties": False,
}
TOOLS: list[Any] = [
    {"type": "function", "function": {"name": "weather", "description": "…", "parameters": PARAMETERS}},
    {"name": "time.now"},
]
WEATHER = '{"name": "weather", "arguments": {"city":"Oslo","days":2}}'
NOW = '{"name": "time.now", "arguments": {}}'


def content(**keys: Any) -> str:
    guide = Guide.model_validate({"kind": "tool_calls", "tools": TOOLS, **keys})
    return content_of(TOOLS, guide=guide)


def written(*calls: str, how: str = "tags") -> str:
    if how == "list":
        return f"[{', '.join(calls)}]"
    return "\n".join(f"<tool_call>\n{call}\n</tool_call>" for call in calls)


def engines_take(text: str, **form: Any) -> set[bool]:
    """What xgrammar's and llguidance's own matchers say, each of its own form."""
    from xgrammar import Grammar
    from xgrammar.testing import _is_grammar_accept_string

    kind, tag = engine_form(backend="xgrammar", **form)
    assert kind == "structural_tag"
    said = {bool(_is_grammar_accept_string(Grammar.from_structural_tag(tag), text))}
    try:
        kind, lark = engine_form(backend="guidance", **form)
    except NoForm:
        return said
    assert kind == "ebnf"
    return said | {Llguidance(lark).takes(text)}


@pytest.mark.parametrize("how", ["tags", "list"])
@pytest.mark.parametrize("parallel", [True, False])
def test_the_judge_and_both_engines_agree_on_calls(how: str, parallel: bool) -> None:
    asked = content(calls=how, parallel=parallel)
    grammar = make_grammar(kind="tool_calls", content=asked)
    for text, right in (
        (written(WEATHER, how=how), True),
        (written(WEATHER, NOW, how=how), parallel),
        (written(NOW, how=how), True),
        ("It is warm.", False),
        ("", False),
        (f"Here: {written(NOW, how=how)}", False),
        (written(NOW.replace("time.now", "time.then"), how=how), False),
        (written(WEATHER.replace("2", '"two"'), how=how), False),
        (written(WEATHER.replace(',"days":2', ""), how=how), False),
    ):
        assert validate(grammar, text).valid == right, text
        assert engines_take(text, kind="tool_calls", content=asked) == {right}, text


def test_calls_within_a_text_that_may_have_none() -> None:
    asked = content(tool_choice="auto")
    grammar = make_grammar(kind="tool_calls", content=asked)
    for text, right in (
        ("It is warm.", True),
        (f"Let me look.\n{written(WEATHER)}", True),
        (written(WEATHER, NOW), True),
        ("<tool_call>\nnothing", False),
        (written('{"name": "weather"}'), False),
    ):
        assert validate(grammar, text).valid == right, text
        if right:
            assert engines_take(text, kind="tool_calls", content=asked) == {True}, text
    with pytest.raises(NoForm, match="xgrammar does"):
        engine_form(kind="tool_calls", content=asked, backend="guidance")


def test_the_words_of_a_wrong_call_say_where() -> None:
    grammar = make_grammar(kind="tool_calls", content=content())
    bad = validate(grammar, written(NOW, WEATHER.replace("2", "0")))
    assert [(each.path, each.message) for each in bad.violations] == [
        ("/1/arguments/days", "0 is less than the minimum of 1")
    ]
    unknown = validate(grammar, written('{"name": "x", "arguments": {}}'))
    assert unknown.violations[0].path == "/0/name"
    twice = validate(grammar, written('{"name": "time.now", "name": "time.now", "arguments": {}}'))
    assert "stands twice" in twice.violations[0].message


def test_a_closing_tag_within_an_argument_ends_nothing() -> None:
    text = written(WEATHER.replace("Oslo", "</tool_call>"))
    assert validate(make_grammar(kind="tool_calls", content=content()), text).valid


@pytest.mark.parametrize("how", ["tags", "list"])
def test_the_metric_reads_guided_calls(how: str) -> None:
    calls, _, reason = find_calls(written(WEATHER, NOW, how=how))
    assert reason is None
    assert [(call.name, call.arguments) for call in calls] == [
        ("weather", {"city": "Oslo", "days": 2}),
        ("time.now", {}),
    ]


def test_the_types_that_bfcl_writes_are_read() -> None:
    tools = [
        {"name": "f", "parameters": {"type": "dict", "properties": {"x": {"type": "float"}, "y": {"type": "any"}}}}
    ]
    (tool,) = json.loads(content_of(tools, guide=Guide(kind="tool_calls", tools=tools)))["tools"]
    assert tool["parameters"] == {"type": "object", "properties": {"x": {"type": "number"}, "y": {}}}


@pytest.mark.parametrize(
    ("tools", "words"),
    [
        ([], "at least one"),
        ([{"name": "a b"}], "0.name"),
        ([{"name": "a"}, {"name": "a"}], "two tools have the name 'a'"),
        ([{"type": "web_search", "function": {"name": "a"}}], "0.type"),
        ([{"name": "a", "parameters": {"type": "array"}}], "0.parameters"),
    ],
)
def test_what_is_no_list_of_tools_is_refused(tools: list[Any], words: str) -> None:
    with pytest.raises(BadTools, match=words):
        content_of(tools, guide=Guide(kind="tool_calls", tools=[{"name": "x"}]))


@pytest.mark.parametrize(
    ("kind", "content", "good"),
    [
        ("json_schema", json.dumps(PARAMETERS), '{"city":"Oslo","days":1}'),
        ("json_object", '{"type":"object"}', '{"z":1}'),
        ("regex", r"[0-9]{1,3}/\d", "12/3"),
        ("choice", '["yes","no"]', "no"),
        ("choice", '["yes"]', "yes"),
        ("ebnf", json.dumps({"flavour": "gbnf", "grammar": 'root ::= "x"'}), "x"),
        ("tool_calls", content(), written(NOW)),
    ],
)
@pytest.mark.parametrize("after", ["</think>", "Answer:"])
def test_what_is_free_ends_at_the_marker(kind: str, content: str, good: str, after: str) -> None:
    form = {"kind": kind, "content": content, "after": after}
    for text, right in (
        (f"let me\nthink{after}\n\n{good}", True),
        (f"{after}{good}", True),
        (good, False),
        (f"x{after} {good} and", False),
        (f"a{after} no {after}{good}", False),
    ):
        assert engines_take(text, **form) == {right}, text
    grammar = make_grammar(kind=kind, content=content)  # type: ignore[arg-type]
    parsed = parse_reasoning(f"after:{after}", f"let me\nthink{after}\n\n{good}")
    assert (parsed.reasoning, parsed.closed) == ("let me\nthink", True)
    assert validate(grammar, parsed.answer).valid


def test_a_parser_says_what_ends_the_reasoning() -> None:
    assert closes("think_tags") == "</think>"
    assert closes("after:Answer:") == "Answer:"
    without = parse_reasoning("after:Answer:", "7")
    assert (without.reasoning, without.answer, without.closed) == (None, "7", True)


def test_the_other_backends_have_no_form_for_it() -> None:
    with pytest.raises(NoForm, match="outlines does not take anything free"):
        engine_form(kind="regex", content="a", after="x", backend="outlines")
    with pytest.raises(NoForm, match="outlines does not take tool calls"):
        engine_form(kind="tool_calls", content=content(), backend="outlines")
