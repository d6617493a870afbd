"""Does an answer obey its grammar? Judged by validators that have nothing to do with any grammar backend.

json_schema by jsonschema-rs (formats asserted, the draft that `$schema` names, else 2020-12; nothing is fetched),
json_object by the standard library, regex by the `regex` package (whole answer), choice by membership, ebnf by an
Earley parser of assay's own, python by `ast.parse`, math by a parser of assay's own, sql by DuckDB's parser (one
SELECT), and tool_calls by reading the calls and validating each one's arguments by its tool's schema. JSON is strict:
NaN, Infinity and a key twice in one object are violations.

Two verdicts, not to be mixed up: `validate` judges the whole text as it came and is what the column `requests.valid`
holds for every arm; `validate_free` first takes the JSON out of a fenced block or out of the words round it, and is
what the metrics use.
"""

import json
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

from schemas.sample import Grammar
from tasks.guide.cost import is_cheap
from tasks.guide.extract import extract_json
from tasks.guide.guarded import GUARD, TRIES_PER_GRAMMAR
from tasks.guide.json_text import outside_strings
from tasks.guide.judge import judge, validator_name
from tasks.guide.kinds.tool_calls import schemas_of
from tasks.guide.verdict import Verdict, Violation, refused

__all__ = ["Verdict", "Violation", "validate", "validate_free", "validate_many", "whitespace_share"]

_JSON_SPACE = " \t\n\r"
_LONG_PATTERN = 2_000
_PARSED_APART = ("ebnf", "python", "sql")
"""Kinds whose parsers may take long, or much memory, for what a model writes."""
_regex_timeouts: Counter[str] = Counter()


@lru_cache(maxsize=512)
def _safe_here(grammar: Grammar) -> bool:
    if grammar.kind == "json_schema":
        return is_cheap(json.loads(grammar.content))
    if grammar.kind == "tool_calls":
        return all(map(is_cheap, schemas_of(grammar.content)))
    if grammar.kind in _PARSED_APART:
        return False
    return grammar.kind != "regex" or len(grammar.content) <= _LONG_PATTERN


def validate(grammar: Grammar, text: str, *, timeout_s: float = 5.0) -> Verdict:
    """The verdict on the whole of `text`.

    A schema whose work is bounded is judged in this process; any other (recursive, fanning out), a very long pattern,
    and what has a parser of its own (ebnf, python, sql) in a child process that has `timeout_s` seconds and 2 GiB.
    Never raises for what a model or a schema holds.
    """
    if _regex_timeouts[grammar.grammar_id] >= TRIES_PER_GRAMMAR:
        message = f"not validated: this pattern timed out {TRIES_PER_GRAMMAR} times before"
        return refused(validator=validator_name(grammar.kind), message=message, judged=False)
    if _safe_here(grammar):
        verdict = judge(grammar, text)
        if grammar.kind == "regex" and not verdict.judged:
            _regex_timeouts[grammar.grammar_id] += 1
        return verdict
    return GUARD.judge(grammar, text, timeout_s=timeout_s)


def validate_free(grammar: Grammar, text: str, *, timeout_s: float = 5.0) -> Verdict:
    """The verdict on the JSON found in a free answer (see tasks.guide.extract); other grammars: on the whole text."""
    if grammar.kind not in ("json_schema", "json_object"):
        return validate(grammar, text, timeout_s=timeout_s)
    found = extract_json(text, prefer="array" if _wants_array(grammar) else "object")
    if found is None:
        return refused(validator=validator_name(grammar.kind), message="there is no JSON in the answer")
    return validate(grammar, found.text, timeout_s=timeout_s)


@lru_cache(maxsize=512)
def _wants_array(grammar: Grammar) -> bool:
    if grammar.kind != "json_schema":
        return False
    schema = json.loads(grammar.content)
    return isinstance(schema, dict) and schema.get("type") == "array"


def validate_many(items: Sequence[tuple[Grammar, str]], *, timeout_s: float = 5.0) -> list[Verdict]:
    """`validate` for each item, in order. timeout_s is for one item; a grammar that ran out of it three times is not
    tried again in this process, so that a batch always ends."""
    return [validate(grammar, text, timeout_s=timeout_s) for grammar, text in items]


def whitespace_share(text: str) -> float | None:
    """White space outside JSON strings (space, tab, line feed, carriage return) over all characters, 0 to 1.

    None for an empty text. Near 1 for an answer that ran on in blanks until it was cut.
    """
    if not text:
        return None
    outside = sum(character in _JSON_SPACE for _, character in outside_strings(text))
    return outside / len(text)
