"""The grammar backends' own matchers, in their child process: what they take, refuse, and die of."""

import contextlib
import json
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tasks.guide.backends import BACKENDS, Backends
from tasks.guide.backends.instances import compact, in_order, orders, take
from tasks.guide.backends.parts import Parts
from tasks.guide.backends.spaces import Spaces

USABLE = ("xgrammar", "guidance", "outlines")
POINT = {
    "type": "object",
    "properties": {"x": {"type": "integer"}, "name": {"enum": ["é", "b"]}},
    "required": ["x", "name"],
    "additionalProperties": False,
}


def the_fork(backends: Backends, *, other_than: int | None = None) -> int:
    """The process that answers; waited for, since a dead one is replaced in a moment."""
    backends.facts()
    assert backends._child.process is not None
    pid = backends._child.process.pid
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        if found and int(found[0]) != other_than:
            return int(found[0])
        time.sleep(0.01)
    raise AssertionError("no fork answers")


@pytest.mark.parametrize("name", BACKENDS)
def test_each_backend_tells_an_answer_from_none(grammar_backends: Backends, name: str) -> None:
    compiled = grammar_backends.compile(backend=name, content=json.dumps(POINT))
    assert (compiled.status, compiled.backend, compiled.words) == ("accepted", name, None)
    assert compiled.check_s is not None and compiled.compile_s is not None
    last = "é" if BACKENDS[name].splits_characters else "b"  # é is two of the tokenizer's bytes
    matched = grammar_backends.match(compiled, text=f'{{"x":12,"name":"{last}"}}', masks=True)
    assert (matched.status, matched.accepted, matched.why) == ("answered", True, None)
    assert matched.tokens is not None and len(matched.mask_us) == matched.tokens + 1
    for text, why in (('{"x":12', "end"), ('{"x":"12"}', "mask"), ('{"x":12,"name":"c"}', "mask")):
        refused = grammar_backends.match(compiled, text=text, masks=True)
        assert (refused.accepted, refused.why) == (False, why), text
        assert grammar_backends.match(compiled, text=text).accepted is False
    assert grammar_backends.match(compiled, text='{"x":12,"name":"b"}').accepted is True


def test_an_engine_can_use_three_of_them(grammar_backends: Backends) -> None:
    facts = grammar_backends.facts()
    assert all(fact.usable and fact.version for fact in facts.values())
    assert [name for name, fact in facts.items() if fact.engine_fault is None] == list(USABLE)
    assert "ImportError" in str(facts["lm-format-enforcer"].engine_fault)


@pytest.mark.parametrize("name", USABLE)
@pytest.mark.parametrize(
    ("kind", "content", "right", "wrong"),
    [("regex", "a{2}(b|c)", "aac", "ac"), ("choice", '["yes","no \\"x\\""]', 'no "x"', "no")],
)
def test_patterns_and_choices(
    grammar_backends: Backends, name: str, kind: str, content: str, right: str, wrong: str
) -> None:
    compiled = grammar_backends.compile(backend=name, kind=kind, content=content)
    assert compiled.status == "accepted", compiled.words
    assert grammar_backends.match(compiled, text=right, masks=True).accepted is True
    assert grammar_backends.match(compiled, text=wrong, masks=True).accepted is False


@pytest.mark.parametrize(("name", "grammar"), [("xgrammar", 'root ::= "a" | "b"'), ("guidance", 'start: "a" | "b"')])
def test_grammars_are_of_two_flavours(grammar_backends: Backends, name: str, grammar: str) -> None:
    compiled = grammar_backends.compile(backend=name, kind="ebnf", content=grammar)
    assert grammar_backends.match(compiled, text="b").accepted is True
    assert grammar_backends.match(compiled, text="c").accepted is False
    assert grammar_backends.compile(backend="outlines", kind="ebnf", content=grammar).status == "refused"


def test_what_vllm_refuses_before_the_backend_sees_it(grammar_backends: Backends) -> None:
    unique = json.dumps({"type": "array", "items": {"type": "integer"}, "uniqueItems": True})
    refused = grammar_backends.compile(backend="xgrammar", content=unique)
    assert (refused.status, refused.stage, refused.compile_s) == ("refused", "check", None)
    assert "not supported" in str(refused.words)
    said = grammar_backends.compile(backend="guidance", content=unique)
    assert (said.status, "uniqueItems" in str(said.words)) == ("refused", True)
    with pytest.raises(ValueError, match="nothing to match"):
        grammar_backends.match(refused, text="[]")


def test_auto_says_which_backend_took_it(grammar_backends: Backends) -> None:
    plain = grammar_backends.compile(backend="auto", content=json.dumps(POINT))
    other = grammar_backends.compile(backend="auto", content='{"type":"integer","multipleOf":2}')
    assert (plain.backend, other.backend) == ("xgrammar", "guidance")
    assert grammar_backends.match(other, text="4").accepted is True


def test_white_space_is_forbidden_or_free(grammar_backends: Backends) -> None:
    text = '{ "x" : 1, "name": "b" }'
    for name in ("xgrammar", "guidance"):
        strict = grammar_backends.compile(backend=name, content=json.dumps(POINT))
        free = grammar_backends.compile(backend=name, content=json.dumps(POINT), whitespace=True)
        assert grammar_backends.match(strict, text=text).accepted is False
        assert grammar_backends.match(free, text=text).accepted is True


def test_xgrammars_spaces_in_open_parts_are_no_rejection(grammar_backends: Backends) -> None:
    schema = {"type": "object", "properties": {"a": {}, "b": {"type": "integer"}}}
    compiled = grammar_backends.compile(backend="xgrammar", content=json.dumps(schema))
    matched = grammar_backends.match(compiled, text='{"a":[1,[2,3],{"x":1,"y":2}],"b":1}', masks=True)
    assert (matched.accepted, matched.spaced) == (True, 4)


def test_separators_get_their_spaces_by_container_and_kind() -> None:
    spaces = Spaces('{"a":[1,"x,y",[2,3]],"b":1}', after=",")
    assert spaces.space_before(8)
    assert spaces.text == '{"a":[1, "x,y", [2, 3]],"b":1}'
    assert not spaces.space_before(8)
    spaces = Spaces('{"a":[1,{"x:":2}],"b":1}', after=",:")
    assert spaces.space_before(5)
    assert spaces.text == '{"a": [1,{"x:": 2}],"b": 1}'
    assert spaces.space_before(9)
    assert spaces.text == '{"a": [1, {"x:": 2}],"b": 1}'
    assert spaces.space_before(21)
    assert (spaces.text, spaces.spaced) == ('{"a": [1, {"x:": 2}], "b": 1}', 5)


def test_a_pattern_that_never_ends_costs_its_own_line(grammar_backends: Backends) -> None:
    hung = grammar_backends.compile(backend="outlines", kind="regex", content="(a|b)*a(a|b){22}", timeout_s=1.0)
    assert hung.status == "timed out" and "1 s" in str(hung.words)
    assert grammar_backends.compile(backend="outlines", kind="regex", content="ab").status == "accepted"


def test_a_child_that_is_killed_costs_its_own_line(grammar_backends: Backends) -> None:
    kept = grammar_backends.compile(backend="guidance", content=json.dumps(POINT))
    victim = the_fork(grammar_backends)
    killer = threading.Timer(0.5, os.kill, (victim, signal.SIGKILL))
    killer.start()
    died = grammar_backends.compile(backend="outlines", kind="regex", content="(a|b)*a(a|b){23}", timeout_s=20.0)
    assert died.status == "crashed" and "SIGKILL" in str(died.words)
    assert grammar_backends.match(kept, text='{"x":1,"name":"b"}').accepted is True  # compiled again by the next one


def test_a_child_that_is_killed_while_it_waits_costs_nothing(grammar_backends: Backends) -> None:
    kept = grammar_backends.compile(backend="xgrammar", content=json.dumps(POINT))
    victim = the_fork(grammar_backends)
    os.kill(victim, signal.SIGKILL)
    the_fork(grammar_backends, other_than=victim)
    assert grammar_backends.match(kept, text='{"x":1,"name":"b"}').accepted is True
    assert grammar_backends.match(kept, text='{"x":1}').accepted is False


def killed(child: int) -> None:
    """Unless it ended by itself meanwhile."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)


def test_a_child_that_is_killed_at_any_moment_never_answers_for_another_question(grammar_backends: Backends) -> None:
    made = [grammar_backends.compile(backend="guidance", content=json.dumps({"const": n})) for n in range(4)]
    for number in range(40):
        killer = threading.Timer(number / 4000, killed, (the_fork(grammar_backends),))
        killer.start()
        for each, compiled in enumerate(made):
            told = [grammar_backends.match(compiled, text=str(value)) for value in (each, each + 1)]
            assert [match.accepted for match in told] in ([True, False], [None, False], [True, None])
            assert all(match.accepted is not None or match.status == "crashed" for match in told)
        killer.join()


def test_more_grammars_than_the_child_keeps(grammar_backends: Backends) -> None:
    made = [
        grammar_backends.compile(backend="guidance", content=json.dumps({"const": f"v{number}"}))
        for number in range(20)
    ]
    assert [grammar_backends.match(each, text=f'"v{n}"').accepted for n, each in enumerate(made)] == [True] * 20


def test_memory_has_a_limit(grammar_backends: Backends) -> None:
    compiled = grammar_backends.compile(backend="xgrammar", content='{"type":"integer"}')
    assert compiled.peak_bytes is not None and compiled.peak_bytes > 50 << 20
    limits = Path(f"/proc/{the_fork(grammar_backends)}/limits").read_text()
    line = next(line for line in limits.splitlines() if line.startswith("Max address space"))
    assert line.split()[3].isdigit()


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        (POINT, {"name": "b", "x": 1}, '{"x":1,"name":"b"}'),
        ({"$ref": "#/$defs/p", "$defs": {"p": POINT}}, {"name": "b", "x": 1}, '{"x":1,"name":"b"}'),
        ({"anyOf": [{"required": ["q"]}, POINT]}, {"name": "b", "x": 1}, '{"x":1,"name":"b"}'),
        ({"items": POINT}, [{"name": "b", "x": 1}], '[{"x":1,"name":"b"}]'),
        ({"required": ["z"], "properties": {"y": {}}}, {"a": 1, "z": 1, "y": 1}, '{"y":1,"z":1,"a":1}'),
    ],
)
def test_keys_come_in_the_schemas_order(schema: dict[str, Any], value: Any, expected: str) -> None:
    assert compact(in_order(value, parts=Parts(schema))) == expected


def test_order_is_no_rejection(grammar_backends: Backends) -> None:
    parts = Parts(POINT)
    compiled = grammar_backends.compile(backend="guidance", content=json.dumps(POINT))
    taken = take(grammar_backends, compiled, value={"name": "b", "x": 1}, parts=parts)
    assert (taken.accepted, taken.form) == (True, "ordered")
    assert take(grammar_backends, compiled, value={"name": "b"}, parts=parts).accepted is False
    whole = take(grammar_backends, compiled, value={"x": 1.0, "name": "b"}, parts=parts)
    assert (whole.accepted, whole.form) == (True, "whole numbers")


def test_every_order_of_keys() -> None:
    assert [compact(each) for each in orders({"a": {"b": 1, "c": 2}, "d": 3})] == [
        '{"a":{"b":1,"c":2},"d":3}',
        '{"a":{"c":2,"b":1},"d":3}',
        '{"d":3,"a":{"b":1,"c":2}}',
        '{"d":3,"a":{"c":2,"b":1}}',
    ]


def test_half_a_surrogate_pair_is_an_escape() -> None:
    assert compact({"a": "\ud800x"}) == '{"a":"\\ud800x"}'


def test_a_text_may_be_fed_character_by_character(grammar_backends: Backends) -> None:
    compiled = grammar_backends.compile(backend="guidance", content=json.dumps(POINT))
    assert grammar_backends.match(compiled, text='{"x":1,"name":"é"}', apart=True, masks=True).accepted is True
    assert grammar_backends.match(compiled, text='{"x":1,"name":"c"}', apart=True).accepted is False
