"""The verdicts of the validators, and that nothing makes them hang."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from schemas.sample import Grammar
from tasks.guide.check import check_pattern, check_schema
from tasks.guide.cost import is_cheap
from tasks.guide.guarded import GUARD, TRIES_PER_GRAMMAR, GuardedJudge
from tasks.guide.validate import validate, validate_free, validate_many, whitespace_share


def grammar(kind: Any, content: Any, *, name: str | None = None) -> Grammar:
    text = content if isinstance(content, str) else json.dumps(content)
    return Grammar(grammar_id=name or f"{kind}:{text}", kind=kind, content=text)


def schema(content: Any) -> Grammar:
    return grammar("json_schema", content)


def fan_out(levels: int) -> dict[str, Any]:
    """A schema of few lines whose references make 2 ** levels paths."""
    definitions: dict[str, Any] = {"a0": {"type": "object"}}
    for level in range(1, levels + 1):
        reference = {"$ref": f"#/$defs/a{level - 1}"}
        definitions[f"a{level}"] = {"anyOf": [reference, dict(reference)]}
    return {"$defs": definitions, "$ref": f"#/$defs/a{levels}"}


@pytest.mark.parametrize(
    ("content", "text", "valid"),
    [
        ({"type": "integer"}, "1.0", True),
        ({"type": "string", "format": "date"}, '"2024-02-30"', False),
        ({"type": "string", "format": "date"}, '"2024-02-29"', True),
        ({"$schema": "http://json-schema.org/draft-07/schema#", "format": "date"}, '"2024-02-30"', False),
        ({"items": [{"type": "string"}]}, "[1]", False),
        ({"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"type": "string"}]}, "[1]", False),
        ({"multipleOf": 0.01}, "19.99", True),
        ({"maximum": 5}, "1e400", False),
        ({"uniqueItems": True}, "[1, 1.0]", False),
        ({"required": ["a"]}, '{"a": 1}', True),
        ({"pattern": "^(?!foo)"}, '"foobar"', False),
        (True, "null", True),
        (False, "null", False),
        ({}, "NaN", False),
        ({}, "[1, Infinity]", False),
        ({}, '{"a": 1, "a": 1}', False),
        ({}, "{'a': 1}", False),
        ({}, "", False),
        ({}, '{"a": 1} trailing', False),
        ({}, "[" * 100_000 + "]" * 100_000, False),
        ({"type": "string"}, '"\\ud800"', False),
        ({}, "1" * 5000, False),
    ],
)
def test_json_schema(content: Any, text: str, valid: bool) -> None:
    if content == {"items": [{"type": "string"}]}:
        content = {"prefixItems": [{"type": "string"}]}
    verdict = validate(schema(content), text)
    assert verdict.valid is valid, verdict
    assert bool(verdict.violations) is not valid
    assert re.fullmatch(r"jsonschema-rs \d+\.\d+\.\d+", verdict.validator)


def test_violations_have_paths() -> None:
    content = {"properties": {"a/b": {"items": {"type": "string"}}, "d": {"format": "date"}}}
    verdict = validate(schema(content), '{"a/b": ["x", 1], "d": "2023-13-01"}')
    assert [violation.path for violation in verdict.violations] == ["/a~1b/1", "/d"]
    assert "string" in verdict.violations[0].message


def test_violations_are_few_and_short() -> None:
    verdict = validate(schema({"items": {"const": "x" * 5000}}), json.dumps(list(range(500))))
    assert len(verdict.violations) == 20
    assert all(len(violation.message) <= 300 for violation in verdict.violations)


def test_nothing_is_fetched() -> None:
    for uri in ("http://127.0.0.1:1/x.json", "file:///etc/hostname"):
        assert not validate(schema({"$ref": uri}), "1").valid
        reason = check_schema({"$ref": uri})
        assert reason is not None
        assert uri in reason


@pytest.mark.parametrize(
    ("kind", "content", "text", "valid", "validator"),
    [
        ("json_object", "{}", '{"a": 1}', True, "json"),
        ("json_object", "{}", "[1]", False, "json"),
        ("regex", r"\d{3}", "123", True, "regex"),
        ("regex", r"\d{3}", "1234", False, "regex"),
        ("regex", r"^\d{3}$", "123\n", False, "regex"),
        ("regex", "(", "(", False, "regex"),
        ("choice", '["yes", "no"]', "yes", True, "membership"),
        ("choice", '["yes", "no"]', "yes ", False, "membership"),
    ],
)
def test_other_kinds(kind: str, content: str, text: str, valid: bool, validator: str) -> None:
    verdict = validate(grammar(kind, content), text)
    assert verdict.valid is valid
    assert verdict.validator.startswith(validator)


def test_the_strict_and_the_lenient_verdict() -> None:
    fenced = 'Here:\n```json\n{"a": 1}\n```'
    judged = schema({"type": "object", "required": ["a"]})
    assert not validate(judged, fenced).valid
    assert validate_free(judged, fenced).valid
    assert not validate_free(judged, "nothing").valid
    assert validate_free(schema({"type": "array"}), 'Here: [{"a": 1}]').valid
    assert not validate_free(grammar("choice", '["yes"]'), " yes").valid


def test_a_pattern_that_backtracks_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.guide.judge.REGEX_TIMEOUT_S", 0.1)
    bomb = grammar("regex", r"(a|aa)+(b|c)(?<!b)d", name="regex-bomb")
    verdicts = validate_many([(bomb, "a" * 60 + "!")] * 200)
    assert not any(verdict.valid for verdict in verdicts)
    messages = [verdict.violations[0].message for verdict in verdicts]
    assert all(message.startswith("timed out") for message in messages[:TRIES_PER_GRAMMAR])
    assert all("timed out 3 times before" in message for message in messages[TRIES_PER_GRAMMAR:])


def test_a_pattern_inside_a_schema_gives_up() -> None:
    bomb = {"pattern": "^(?=(a+)+$)(a|aa)+\\1c$"}
    started = time.perf_counter()
    verdicts = validate_many([(schema(bomb), json.dumps("a" * 60)), (schema({"not": bomb}), json.dumps("a" * 60))])
    assert time.perf_counter() - started < 2
    assert [verdict.valid for verdict in verdicts] == [False, False]
    assert "backtracking" in verdicts[0].violations[0].message
    assert not any(verdict.judged for verdict in verdicts)


def test_a_schema_that_never_ends_costs_its_timeout_and_no_more() -> None:
    bomb, good = schema(fan_out(45)), schema(fan_out(4))
    started = time.perf_counter()
    verdicts = validate_many([(good, "{}"), (bomb, "1"), (good, "{}"), (good, "1")], timeout_s=2.0)
    assert time.perf_counter() - started < 12
    assert [verdict.valid for verdict in verdicts] == [True, False, True, False]
    assert verdicts[1].violations[0].message == "timed out: the validator took more than 2 s"


def test_a_grammar_that_kills_the_validator_is_given_up() -> None:
    guard, bomb = GuardedJudge(), grammar("json_schema", fan_out(45), name="killer")
    for _ in range(TRIES_PER_GRAMMAR):
        assert "timed out" in guard.judge(bomb, "1", timeout_s=0.1).violations[0].message
    started = time.perf_counter()
    assert "before" in guard.judge(bomb, "1", timeout_s=60).violations[0].message
    assert time.perf_counter() - started < 0.1
    guard.child.close()


def test_a_killed_child_is_replaced() -> None:
    guard, recursive = GuardedJudge(), schema({"properties": {"next": {"$ref": "#"}}, "type": "object"})
    assert guard.judge(recursive, '{"next": {}}', timeout_s=5).valid
    assert guard.child.process is not None
    os.kill(guard.child.process.pid, signal.SIGKILL)
    guard.child.process.wait()
    assert not guard.judge(recursive, '{"next": 1}', timeout_s=5).valid
    guard.child.close()
    assert guard.child.process is None


def test_no_child_outlives_a_killed_parent() -> None:
    code = (
        "import json, os, sys; from schemas.sample import Grammar; from tasks.guide.guarded import GUARD\n"
        "g = Grammar(grammar_id='g', kind='json_schema', content='{\"items\": {\"$ref\": \"#\"}}')\n"
        "assert GUARD.judge(g, '[]', timeout_s=5).valid\n"
        "print(GUARD.child.process.pid, flush=True); os.kill(os.getpid(), 9)"
    )
    printed = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True).stdout
    child = Path(f"/proc/{int(printed)}/stat")
    for _ in range(50):
        if not child.exists() or child.read_text().split()[2] == "Z":
            return
        time.sleep(0.1)
    pytest.fail("the child still runs")


def test_recursive_schemas_go_through_the_guard() -> None:
    tree = schema({"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#"}}}})
    verdict = validate(tree, '{"children": [{"children": [3]}]}')
    assert [violation.path for violation in verdict.violations] == ["/children/0/children/0"]
    assert validate(tree, '{"children": [{}, {"children": []}]}').valid
    assert GUARD.child.process is not None


@pytest.mark.parametrize(
    ("content", "cheap"),
    [
        ({"properties": {"a": {"$ref": "#/$defs/x"}}, "$defs": {"x": {"type": "string"}}}, True),
        ({"properties": {"$ref": {"type": "string"}}}, True),
        ({"$ref": "#"}, False),
        ({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}, False),
        (fan_out(5), True),
        (fan_out(30), False),
        ({"unevaluatedProperties": False}, False),
        ({"$ref": "http://elsewhere/x"}, False),
        ({"$ref": "#/nowhere"}, False),
        (True, True),
    ],
)
def test_is_cheap(content: Any, cheap: bool) -> None:
    assert is_cheap(content) is cheap


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ({"type": "object"}, None),
        (True, None),
        ({"type": "strin"}, "strin"),
        ({"properties": {"a": {"minLength": -1}}}, "properties/a/minLength"),
        ({"$ref": "#/$defs/none"}, "/$defs/none"),
        ({"pattern": "(a"}, "(a"),
        ({"$schema": "http://elsewhere/schema"}, "http://elsewhere/schema"),
        ([1], "a schema is an object"),
        ("x", "a schema is an object"),
    ],
)
def test_check_schema(content: Any, reason: str | None) -> None:
    found = check_schema(content)
    assert (found is None) if reason is None else (found is not None and reason in found)


@pytest.mark.parametrize(
    ("pattern", "good"), [(r"\d+(-\d+)?", True), ("(", False), ("[z-a]", False), ("(" * 9000, False)]
)
def test_check_pattern(pattern: str, good: bool) -> None:
    assert (check_pattern(pattern) is None) is good


@pytest.mark.parametrize(
    ("text", "share"),
    [("", None), ("{}", 0), ('{ "a b": 1 }', 3 / 12), ('"a \\" b"', 0), (" \n\t\r", 1), ('{"a":\n\n\n\n', 4 / 9)],
)
def test_whitespace_share(text: str, share: float | None) -> None:
    assert whitespace_share(text) == share
