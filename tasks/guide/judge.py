"""Judging one answer by one grammar, right here: the validators themselves, without a guard round them."""

import ast
import json
import platform
import warnings
from functools import cache, lru_cache
from importlib.metadata import version
from itertools import islice
from typing import Any

import jsonschema_rs
import regex

from schemas.sample import Grammar
from tasks.guide.kinds import ebnf, math_expression, tool_calls
from tasks.guide.kinds.nodes import GrammarError
from tasks.guide.pointers import step
from tasks.guide.strict_json import NotJson, parse
from tasks.guide.verdict import Verdict, Violation, refused

REGEX_TIMEOUT_S = 2.0  # of processor time: that is what the package counts
BACKTRACK_LIMIT = 1_000_000
_GAVE_UP = (
    jsonschema_rs.ValidationErrorKind.BacktrackLimitExceeded,
    jsonschema_rs.ValidationErrorKind.RegexEngineFailure,
)
_MOST_VIOLATIONS = 20
_MOST_CHARACTERS = 300


@cache
def validator_name(kind: str) -> str:
    """The validator of a kind of grammar, with its version."""
    names = {
        "json_schema": lambda: f"jsonschema-rs {version('jsonschema-rs')}",
        "regex": lambda: f"regex {version('regex')}",
        "json_object": lambda: "json",
        "choice": lambda: "membership",
        "ebnf": lambda: "earley",
        "python": lambda: f"ast {platform.python_version()}",
        "math": lambda: "expression parser",
        "sql": lambda: f"duckdb {version('duckdb')}",
        "tool_calls": lambda: f"tool calls, jsonschema-rs {version('jsonschema-rs')}",
    }
    return names[kind]()


def build_validator(schema: Any) -> jsonschema_rs.Validator:
    """A compiled JSON Schema: the draft that `$schema` names (else 2020-12), formats asserted, nothing ever fetched.

    Patterns without look-around or back-references run in linear time; the others give up after BACKTRACK_LIMIT steps
    back, and the answer then counts as not valid. Raises ValueError for a schema that is none.
    """
    return jsonschema_rs.validator_for(
        schema,
        validate_formats=True,
        offline=True,
        pattern_options=jsonschema_rs.FancyRegexOptions(backtrack_limit=BACKTRACK_LIMIT),
    )


@lru_cache(maxsize=512)
def _compiled_schema(content: str) -> jsonschema_rs.Validator:
    return build_validator(json.loads(content))


@lru_cache(maxsize=512)
def _compiled_pattern(pattern: str) -> "regex.Pattern[str]":
    return regex.compile(pattern)


def _short(message: str) -> str:
    return message if len(message) <= _MOST_CHARACTERS else message[: _MOST_CHARACTERS - 1] + "…"


def first_line(error: Exception) -> str:
    """An error's first line, or its type where it has no words."""
    return _short((str(error).splitlines() or [type(error).__name__])[0])


def _schema_violations(*, schema: str, value: Any) -> list[Violation]:
    try:
        validator = _compiled_schema(schema)
    except (ValueError, RecursionError) as error:
        return [Violation(path="", message=f"the schema is no valid one: {first_line(error)}", judged=False)]
    try:
        if validator.is_valid(value):
            return []
        errors = list(islice(validator.iter_errors(value), _MOST_VIOLATIONS))
    except UnicodeEncodeError:
        return [Violation(path="", message="holds half of a surrogate pair, which is no character")]
    except (ValueError, RecursionError) as error:
        return [Violation(path="", message=f"cannot be validated: {first_line(error)}", judged=False)]
    if not errors:
        return [Violation(path="", message="a pattern of the schema took too many steps", judged=False)]
    return [
        Violation(
            path=step("", *error.instance_path),
            message=_short(error.message),
            judged=not isinstance(error.kind, _GAVE_UP),
        )
        for error in errors
    ]


def _judge_json(*, grammar: Grammar, text: str) -> Verdict:
    name = validator_name(grammar.kind)
    try:
        value, twice = parse(text)
    except NotJson as error:
        return refused(validator=name, message=str(error))
    violations = [Violation(path="", message=f"the key {key!r} stands twice in one object") for key in twice]
    if grammar.kind == "json_schema":
        violations += _schema_violations(schema=grammar.content, value=value)
    elif not isinstance(value, dict):
        violations.append(Violation(path="", message="is no object"))
    return Verdict(valid=not violations, validator=name, violations=violations)


def _judge_regex(*, grammar: Grammar, text: str) -> Verdict:
    name = validator_name("regex")
    try:
        matched = _compiled_pattern(grammar.content).fullmatch(text, timeout=REGEX_TIMEOUT_S)
    except TimeoutError:
        message = f"timed out: the pattern took more than {REGEX_TIMEOUT_S:g} s"
        return refused(validator=name, message=message, judged=False)
    except (regex.error, RecursionError) as error:
        return refused(validator=name, message=f"the pattern is no valid one: {first_line(error)}")
    if matched is None:
        return refused(validator=name, message="the pattern does not match the whole answer")
    return Verdict(valid=True, validator=name)


def _judge_tool_calls(*, grammar: Grammar, text: str) -> Verdict:
    def check(schema: Any, value: Any) -> list[Violation]:
        return _schema_violations(schema=json.dumps(schema, sort_keys=True), value=value)

    violations = tool_calls.violations(grammar.content, text, check=check)
    return Verdict(valid=not violations, validator=validator_name("tool_calls"), violations=violations)


def _ebnf_fault(content: str, text: str) -> str | None:
    flavour, written = ebnf.flavour_and_text(content)
    try:
        found = ebnf.fault(flavour=flavour, grammar=written, text=text)
    except GrammarError as error:
        return f"the grammar is no valid one: {first_line(error)}"
    return None if found is None else ebnf.words(found, text)


def _python_fault(text: str) -> str | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
    except SyntaxError as error:
        return f"no Python: {error.msg} at line {error.lineno}, column {error.offset}"
    except (ValueError, RecursionError, MemoryError) as error:
        return f"no Python that can be read: {first_line(error)}"
    return None


def _math_fault(text: str) -> str | None:
    try:
        math_expression.check(text)
    except math_expression.NotMath as error:
        return first_line(error)
    return None


def _sql_fault(text: str) -> str | None:
    from warehouse.selects import select_fault  # noqa: PLC0415 - DuckDB is loaded by who judges SQL

    fault = select_fault(text)
    return None if fault is None else _short(fault)


def _text_fault(grammar: Grammar, text: str) -> str | None:
    match grammar.kind:
        case "ebnf":
            return _ebnf_fault(grammar.content, text)
        case "python":
            return _python_fault(text)
        case "math":
            return _math_fault(text)
        case "sql":
            return _sql_fault(text)
    return None if text in json.loads(grammar.content) else "is none of the options"


def judge(grammar: Grammar, text: str) -> Verdict:
    """The verdict on the whole of `text`. May take as long as a grammar wants: see tasks.guide.validate."""
    if grammar.kind in ("json_schema", "json_object"):
        return _judge_json(grammar=grammar, text=text)
    if grammar.kind == "regex":
        return _judge_regex(grammar=grammar, text=text)
    if grammar.kind == "tool_calls":
        return _judge_tool_calls(grammar=grammar, text=text)
    name, fault = validator_name(grammar.kind), _text_fault(grammar, text)
    return Verdict(valid=True, validator=name) if fault is None else refused(validator=name, message=fault)
