"""The grammar of a guided answer, from a dataset's `guide` block and the row."""

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import jsonschema_rs
import regex

from schemas.dataset import NamedDataset
from schemas.errors import ConfigError, Problem
from schemas.guide import Guide, GuideKind
from schemas.sample import Grammar
from tasks.config.disk import names_in
from tasks.config.json_faults import json_faults
from tasks.config.locate import relative_to_here
from tasks.config.nearest import did_you_mean, did_you_mean_or_list
from tasks.dataset.rows import sha256_hex
from tasks.dataset.unicode import valid_unicode
from tasks.guide.kinds import ebnf, tool_calls
from tasks.guide.kinds.nodes import GrammarError
from tasks.guide.kinds.packaged import KINDS as PACKAGED
from tasks.guide.kinds.packaged import packaged_grammar

_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")
_MOST_PROBLEMS = 10
_SAME_FOR_ALL = ("json_object", *PACKAGED)


class InvalidGrammar(Exception):
    """The schema, pattern, grammar, tools or options are no valid ones; the message says where and why. line: in the
    grammar's own text, where it is known."""

    def __init__(self, message: str, *, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


def make_grammar(*, kind: GuideKind, content: str) -> Grammar:
    """A grammar named by what it is: grammar_id = first 16 hex digits of sha256 over kind, a newline, and content."""
    return Grammar(grammar_id=sha256_hex(f"{kind}\n{content}")[:16], kind=kind, content=content)


def dataset_grammar(dataset: NamedDataset) -> Grammar | None:
    """The one grammar that all rows share; None where there is no guide or each row has its own.

    Raises ConfigError: what is invalid of it, a file of it that is missing or broken."""
    guide = dataset.config.guide
    file = Path(dataset.path) if dataset.path else None
    if guide is None:
        return None
    if guide.kind == "choice" and guide.options is None and dataset.config.choices is None:
        raise ConfigError.one(
            "a choice guide needs the dataset's `choices`, or `options` of its own", file=file, key="guide"
        )
    if guide.kind in ("ebnf", "tool_calls"):
        return _written(guide, file=file)
    schema: Any = guide.schema_
    schema_file: Path | None = None
    key = {"json_schema": "guide.schema", "regex": "guide.pattern", "choice": "guide.options"}.get(guide.kind, "guide")
    if isinstance(schema, str):
        schema_file, schema = _json_file(schema, file=file, key="guide.schema", what="schema")
    try:
        if guide.kind in _SAME_FOR_ALL:
            return make_grammar(kind=guide.kind, content=_same_for_all(guide.kind))
        if schema is not None:
            return _schema_grammar(schema)
        if guide.pattern is not None:
            return _pattern_grammar(guide.pattern)
        return None if guide.options is None else _choice_grammar(guide.options)
    except InvalidGrammar as invalid:
        if schema_file is not None:
            raise ConfigError(schema_problems(schema, file=schema_file, otherwise=str(invalid))) from invalid
        raise ConfigError.one(str(invalid), file=file, key=key) from invalid


def _written(guide: Guide, *, file: Path | None) -> Grammar | None:
    """The grammar of all rows of the kind ebnf or tool_calls. Raises ConfigError."""
    own: Path | None = None
    key = "guide.grammar" if guide.kind == "ebnf" else "guide.tools"
    text, tools = guide.grammar, guide.tools
    if guide.grammar_file is not None:
        key, own = "guide.grammar_file", Path(guide.grammar_file)
        text = _text_file(own, file=file, key=key)
    if isinstance(tools, str):
        own, tools = _json_file(tools, file=file, key=key, what="tools")
    try:
        if text is not None:
            return _ebnf_grammar(text, guide=guide)
        return None if tools is None else _tools_grammar(tools, guide=guide)
    except InvalidGrammar as invalid:
        if own is not None:
            raise ConfigError.one(str(invalid), file=own, line=invalid.line) from invalid
        where = "" if invalid.line is None else f"line {invalid.line} of the grammar: "
        raise ConfigError.one(f"{where}{invalid}", file=file, key=key) from invalid


def _same_for_all(kind: str) -> str:
    return '{"type":"object"}' if kind == "json_object" else packaged_grammar(kind)


def grammar_of(
    *, guide: Guide | None, shared: Grammar | None, fields: Mapping[str, Any], choices: Sequence[str]
) -> tuple[Grammar | None, str | None]:
    """A sample's grammar, or why it has none: (grammar, error), both None without a guide.

    shared: what dataset_grammar gave. choices: the sample's options as text."""
    if guide is None or shared is not None:
        return shared, None
    try:
        if guide.kind in ("ebnf", "tool_calls"):
            return _own_of_row(guide, fields), None
        if guide.schema_field is not None:
            return _schema_grammar(_json_value(_column(fields, guide.schema_field), what="schema is")), None
        if guide.pattern_field is not None:
            pattern = _column(fields, guide.pattern_field)
            if not isinstance(pattern, str):
                raise InvalidGrammar(f"the pattern is {json.dumps(pattern)[:80]}, not a text")
            return _pattern_grammar(pattern), None
        return _choice_grammar(list(choices)), None
    except InvalidGrammar as invalid:
        return None, str(invalid) if invalid.line is None else f"line {invalid.line} of the grammar: {invalid}"


def _own_of_row(guide: Guide, fields: Mapping[str, Any]) -> Grammar:
    if guide.kind == "tool_calls":
        tools = _json_value(_column(fields, str(guide.tools_field)), what="tools are")
        return _tools_grammar(tools, guide=guide)
    written = _column(fields, str(guide.grammar_field))
    if not isinstance(written, str):
        raise InvalidGrammar(f"the grammar is {json.dumps(written)[:80]}, not a text")
    return _ebnf_grammar(written, guide=guide)


def _column(fields: Mapping[str, Any], name: str) -> Any:
    if fields.get(name) is None:
        raise InvalidGrammar(f"the row has nothing in its column {name!r}")
    return fields[name]


def _json_value(value: Any, *, what: str) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError) as broken:
        raise InvalidGrammar(f"the {what} broken JSON: {broken}") from broken


def _there(found: Path, *, file: Path | None, key: str, what: str) -> Path:
    if not found.is_file():
        raise ConfigError.one(
            f"the {what} file {relative_to_here(found)} does not exist",
            file=file,
            key=key,
            suggestion=did_you_mean(found.name, [name for name in names_in(found.parent) if name != found.name]),
        )
    return found


def _text_file(path: Path, *, file: Path | None, key: str) -> str:
    try:
        return _there(path, file=file, key=key, what="grammar").read_bytes().decode("utf-8")
    except UnicodeDecodeError as broken:
        raise ConfigError.one(f"no UTF-8: {broken}", file=path) from broken


def _json_file(path: str, *, file: Path | None, key: str, what: str) -> tuple[Path, Any]:
    found = _there(Path(path), file=file, key=key, what=what)
    with json_faults(file=found):
        return found, json.loads(found.read_bytes().decode("utf-8"))


def _schema_grammar(schema: Any) -> Grammar:
    if not isinstance(schema, dict):
        raise InvalidGrammar("a JSON schema must be an object")
    # The order of properties stays: a guided answer gives them in it.
    content = json.dumps(schema, ensure_ascii=False, separators=(",", ":"))
    problem = _schema_problem(content)
    if problem is not None:
        raise InvalidGrammar(problem)
    return make_grammar(kind="json_schema", content=content)


def schema_problems(schema: Any, *, file: Path, otherwise: str) -> list[Problem]:
    """What the draft's own schema finds wrong with a schema, each at its key in the schema's file.

    otherwise: the one message where the fault is of another kind (a reference, a pattern, a draft that is unknown)."""
    if not isinstance(schema, dict):
        return [Problem(message=otherwise, file=file)]
    draft = schema.get("$schema", _DRAFT)
    try:
        errors = list(jsonschema_rs.validator_for({"$ref": draft}, retriever=_no_fetch).iter_errors(schema))
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError, TypeError):
        errors = []
    problems = []
    for error in errors[:_MOST_PROBLEMS]:
        place, message, hint = error.instance_path, error.message, None
        if place and place[-1] == "type" and isinstance(error.instance, str):
            message, hint = f"{error.instance!r} is no type", did_you_mean_or_list(error.instance, _TYPES)
        key = ".".join(str(part) for part in place) or None
        problems.append(Problem(message=f"not a valid JSON schema: {message}", file=file, key=key, suggestion=hint))
    # The parts of a meta-schema may each say the same.
    return list(dict.fromkeys(problems)) or [Problem(message=otherwise, file=file)]


def _no_fetch(uri: str) -> Any:
    raise ValueError("a schema must be whole, nothing is fetched")


@lru_cache(maxsize=4096)
def _schema_problem(content: str) -> str | None:
    if valid_unicode(content)[1]:
        return "the schema is not valid Unicode (a lone surrogate)"
    try:
        jsonschema_rs.validator_for(json.loads(content), retriever=_no_fetch)
    except jsonschema_rs.ValidationError as invalid:
        place = ".".join(str(part) for part in invalid.instance_path)
        return f"not a valid JSON schema{f' at {place}' if place else ''}: {invalid.message}"
    except (jsonschema_rs.ReferencingError, ValueError) as invalid:
        return f"not a valid JSON schema: {invalid}"
    return None


def _ebnf_grammar(text: str, *, guide: Guide) -> Grammar:
    if not text.strip():
        raise InvalidGrammar("the grammar is empty")
    if valid_unicode(text)[1]:
        raise InvalidGrammar("the grammar is not valid Unicode (a lone surrogate)")
    flavour = str(guide.flavour)
    try:
        ebnf.check(flavour=flavour, grammar=text)
    except GrammarError as invalid:
        message = f"not a valid grammar of the flavour {flavour}: {invalid.words}"
        raise InvalidGrammar(message, line=invalid.line) from invalid
    return make_grammar(kind="ebnf", content=ebnf.content_of(flavour=flavour, grammar=text))


def _tools_grammar(tools: Any, *, guide: Guide) -> Grammar:
    try:
        content = tool_calls.content_of(tools, guide=guide)
    except tool_calls.BadTools as invalid:
        raise InvalidGrammar(str(invalid)) from invalid
    for tool in json.loads(content)["tools"]:
        problem = _schema_problem(json.dumps(tool["parameters"], ensure_ascii=False, separators=(",", ":")))
        if problem is not None:
            found = schema_problems(tool["parameters"], file=Path(), otherwise=problem)[0]
            place = "" if found.key is None else f" at {found.key}"
            hint = "" if found.suggestion is None else f" ({found.suggestion})"
            raise InvalidGrammar(f"the parameters of the tool {tool['name']!r}{place}: {found.message}{hint}")
    return make_grammar(kind="tool_calls", content=content)


def _pattern_grammar(pattern: str) -> Grammar:
    problem = _pattern_problem(pattern)
    if problem is not None:
        raise InvalidGrammar(problem)
    return make_grammar(kind="regex", content=pattern)


@lru_cache(maxsize=4096)
def _pattern_problem(pattern: str) -> str | None:
    if not pattern:
        return "the pattern is empty"
    if valid_unicode(pattern)[1]:
        return "the pattern is not valid Unicode (a lone surrogate)"
    try:
        regex.compile(pattern)
    except (regex.error, ValueError, OverflowError, RecursionError) as invalid:
        return f"not a valid regular expression: {invalid}"
    return None


def _choice_grammar(options: Sequence[str]) -> Grammar:
    if not options:
        raise InvalidGrammar("there are no options to choose from")
    if any(not option for option in options):
        raise InvalidGrammar("an option is empty")
    content = json.dumps(list(options), ensure_ascii=False, separators=(",", ":"))
    if valid_unicode(content)[1]:
        raise InvalidGrammar("an option is not valid Unicode (a lone surrogate)")
    return make_grammar(kind="choice", content=content)
