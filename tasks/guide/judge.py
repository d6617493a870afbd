"""Judging one answer by one grammar, right here: the validators themselves, without a guard round them."""

import json
from functools import cache, lru_cache
from importlib.metadata import version
from itertools import islice
from typing import Any

import jsonschema_rs
import regex

from schemas.sample import Grammar
from tasks.guide.strict_json import NotJson, parse
from tasks.guide.verdict import Verdict, Violation, refused

REGEX_TIMEOUT_S = 2.0  # of processor time: that is what the package counts
TIMED_OUT = "timed out"
BACKTRACK_LIMIT = 1_000_000
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
def _compiled_schema(grammar: Grammar) -> jsonschema_rs.Validator:
    return build_validator(json.loads(grammar.content))


@lru_cache(maxsize=512)
def _compiled_pattern(pattern: str) -> "regex.Pattern[str]":
    return regex.compile(pattern)


def pointer(path: list[str | int]) -> str:
    """A path of keys and indices as a JSON pointer (RFC 6901)."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in path)


def _short(message: str) -> str:
    return message if len(message) <= _MOST_CHARACTERS else message[: _MOST_CHARACTERS - 1] + "…"


def first_line(error: Exception) -> str:
    """An error's first line, or its type where it has no words."""
    return _short((str(error).splitlines() or [type(error).__name__])[0])


def _schema_violations(*, grammar: Grammar, value: Any) -> list[Violation]:
    try:
        validator = _compiled_schema(grammar)
    except (ValueError, RecursionError) as error:
        return [Violation(path="", message=f"the schema is no valid one: {first_line(error)}")]
    try:
        if validator.is_valid(value):
            return []
        errors = list(islice(validator.iter_errors(value), _MOST_VIOLATIONS))
    except UnicodeEncodeError:
        return [Violation(path="", message="holds half of a surrogate pair, which is no character")]
    except (ValueError, RecursionError) as error:
        return [Violation(path="", message=f"cannot be validated: {first_line(error)}")]
    if not errors:
        return [Violation(path="", message="a pattern of the schema took too many steps")]
    return [Violation(path=pointer(error.instance_path), message=_short(error.message)) for error in errors]


def _judge_json(*, grammar: Grammar, text: str) -> Verdict:
    name = validator_name(grammar.kind)
    try:
        value, twice = parse(text)
    except NotJson as error:
        return refused(validator=name, message=str(error))
    violations = [Violation(path="", message=f"the key {key!r} stands twice in one object") for key in twice]
    if grammar.kind == "json_schema":
        violations += _schema_violations(grammar=grammar, value=value)
    elif not isinstance(value, dict):
        violations.append(Violation(path="", message="is no object"))
    return Verdict(valid=not violations, validator=name, violations=violations)


def _judge_regex(*, grammar: Grammar, text: str) -> Verdict:
    name = validator_name("regex")
    try:
        matched = _compiled_pattern(grammar.content).fullmatch(text, timeout=REGEX_TIMEOUT_S)
    except TimeoutError:
        return refused(validator=name, message=f"{TIMED_OUT}: the pattern took more than {REGEX_TIMEOUT_S:g} s")
    except (regex.error, RecursionError) as error:
        return refused(validator=name, message=f"the pattern is no valid one: {first_line(error)}")
    if matched is None:
        return refused(validator=name, message="the pattern does not match the whole answer")
    return Verdict(valid=True, validator=name)


def judge(grammar: Grammar, text: str) -> Verdict:
    """The verdict on the whole of `text`. May take as long as a schema wants: see tasks.guide.validate."""
    if grammar.kind in ("json_schema", "json_object"):
        return _judge_json(grammar=grammar, text=text)
    if grammar.kind == "regex":
        return _judge_regex(grammar=grammar, text=text)
    name = validator_name("choice")
    if text in json.loads(grammar.content):
        return Verdict(valid=True, validator=name)
    return refused(validator=name, message="is none of the options")
