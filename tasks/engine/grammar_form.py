"""A guide's grammar in the form in which one backend of vLLM takes it. Standard library only: the worker imports it.

vLLM has six forms: a JSON schema, any JSON object, a regular expression, a choice of texts, a grammar, and a structural
tag (free text with guided parts). Where a guide needs more than its own form (tool calls; something free before the
guided part), xgrammar gets a structural tag and guidance a Lark grammar that says the same.
"""

import json
import re
from typing import Any

FORMS = ("json_schema", "json_object", "regex", "choice", "ebnf", "structural_tag")
"""vLLM's forms by assay's names. Their content: a schema's JSON, nothing, a pattern, a JSON list of texts, a grammar's
text, a structural tag's JSON."""
CALL_BEGIN, CALL_END = "<tool_call>\n", "\n</tool_call>"
MOST_BLANKS = 4
"""White space between what ends the free part and the guided one."""
_BLANKS = f"[ \\n]{{0,{MOST_BLANKS}}}"
_ANY_OBJECT = {"type": "object"}


def vllm_arguments(*, form: str, content: str) -> dict[str, Any]:
    """A form as the arguments of vLLM's StructuredOutputsParams. Raises ValueError for a form that is none."""
    match form:
        case "json_schema":
            return {"json": content}
        case "json_object":
            return {"json_object": True}
        case "regex":
            return {"regex": content}
        case "choice":
            return {"choice": json.loads(content)}
        case "ebnf":
            return {"grammar": content}
        case "structural_tag":
            return {"structural_tag": content}
    raise ValueError(f"unknown form of a grammar: {form}")


class NoForm(ValueError):
    """The backend has no form for this; the message says so."""


def engine_form(
    *, kind: str, content: str, after: str | None = None, backend: str = "xgrammar", whitespace: bool = False
) -> tuple[str, str]:
    """(form, content) for vLLM. kind and content: a grammar's, as in schemas.sample; after: the text that ends the free
    part before it; whitespace: whether JSON may have free white space. Raises NoForm."""
    if after is None and kind != "tool_calls":
        return _plain(kind, content)
    if backend == "xgrammar":
        parts = _tag_parts(kind, content)
        return "structural_tag", json.dumps(_tag(parts, after=after), ensure_ascii=False)
    if backend == "guidance":
        return "ebnf", _lark(kind, content, after=after, whitespace=whitespace)
    what = "tool calls" if kind == "tool_calls" else "anything free before a guided answer"
    raise NoForm(f"the backend {backend} does not take {what}; xgrammar and guidance do")


def _plain(kind: str, content: str) -> tuple[str, str]:
    if kind == "ebnf":
        return "ebnf", str(json.loads(content)["grammar"])
    if kind in ("python", "math", "sql"):
        return "ebnf", content
    if kind in FORMS:
        return kind, content
    raise NoForm(f"unknown kind of grammar: {kind}")


# ---------------------------------------------------------------- xgrammar


def _tag(inner: dict[str, Any], *, after: str | None) -> dict[str, Any]:
    if after is not None:
        free = {"type": "tag", "begin": "", "content": {"type": "any_text"}, "end": after}
        inner = {"type": "sequence", "elements": [free, {"type": "regex", "pattern": _BLANKS}, inner]}
    return {"type": "structural_tag", "format": inner}


def _schema_part(schema: Any) -> dict[str, Any]:
    # Within a structural tag white space cannot be forbidden, but a run of it can.
    return {"type": "json_schema", "json_schema": schema, "max_whitespace_cnt": 1}


def _tag_parts(kind: str, content: str) -> dict[str, Any]:
    form, text = (kind, content) if kind == "tool_calls" else _plain(kind, content)
    match form:
        case "json_schema":
            return _schema_part(json.loads(text))
        case "json_object":
            return _schema_part(_ANY_OBJECT)
        case "regex":
            return {"type": "regex", "pattern": text}
        case "choice":
            options = [{"type": "const_string", "value": option} for option in json.loads(text)]
            return options[0] if len(options) == 1 else {"type": "or", "elements": options}
        case "ebnf":
            return {"type": "grammar", "grammar": text}
    return _calls_tag(json.loads(content))


def _calls_tag(asked: dict[str, Any]) -> dict[str, Any]:
    listed, once = asked["calls"] == "list", not asked["parallel"]
    tags = [
        {
            "type": "tag",
            "begin": ("" if listed else CALL_BEGIN) + _call_begin(tool["name"]),
            "content": _schema_part(tool["parameters"]),
            "end": "}" if listed else "}" + CALL_END,
        }
        for tool in asked["tools"]
    ]
    if asked["tool_choice"] == "auto":
        return {
            "type": "triggered_tags",
            "triggers": [CALL_BEGIN.strip()],
            "tags": tags,
            "at_least_one": False,
            "stop_after_first": once,
        }
    calls = {
        "type": "tags_with_separator",
        "tags": tags,
        "separator": ", " if listed else "\n",
        "at_least_one": True,
        "stop_after_first": once,
    }
    if not listed:
        return calls
    ends = [{"type": "const_string", "value": text} for text in "[]"]
    return {"type": "sequence", "elements": [ends[0], calls, ends[1]]}


def _call_begin(name: str) -> str:
    return f'{{"name": {json.dumps(name, ensure_ascii=False)}, "arguments": '


# ---------------------------------------------------------------- guidance


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _pattern(pattern: str) -> str:
    """A pattern between slashes."""
    body = re.sub(r"\\(.)|/|\n", lambda found: {"/": "\\/", "\n": "\\n"}.get(found.group(), found.group()), pattern)
    return f"/{body}/"


def _schema_rule(schema: Any, *, whitespace: bool) -> str:
    if isinstance(schema, dict):
        schema = {"x-guidance": {"whitespace_flexible": whitespace}, **schema}
    return f"%json {json.dumps(schema, ensure_ascii=False)}"


def _lark(kind: str, content: str, *, after: str | None, whitespace: bool) -> str:
    if kind == "tool_calls":
        rules = _calls_lark(json.loads(content), whitespace=whitespace)
    else:
        rules = _answer_lark(*_plain(kind, content), whitespace=whitespace)
    if after is None:
        return "\n".join([f"start: {rules[0]}", *rules[1:]])
    free = _pattern(f"(?s:.*){re.escape(after)}")
    head = ["start: free blanks answer", f"free[lazy]: {free}", f"blanks: {_pattern(_BLANKS)}", f"answer: {rules[0]}"]
    return "\n".join([*head, *rules[1:]])


def _answer_lark(form: str, text: str, *, whitespace: bool) -> list[str]:
    """The body of the rule for the guided part, and what other rules it needs."""
    match form:
        case "json_schema":
            return [_schema_rule(json.loads(text), whitespace=whitespace)]
        case "json_object":
            return [_schema_rule(_ANY_OBJECT, whitespace=whitespace)]
        case "regex":
            return [_pattern(text)]
        case "choice":
            return [" | ".join(map(_quoted, json.loads(text)))]
    raise NoForm("guidance does not take a grammar with anything free before it; xgrammar does")


def _calls_lark(asked: dict[str, Any], *, whitespace: bool) -> list[str]:
    if asked["tool_choice"] == "auto":
        raise NoForm("guidance does not take `tool_choice: auto`; xgrammar does")
    listed = asked["calls"] == "list"
    begin, end = ("", "}") if listed else (CALL_BEGIN, "}" + CALL_END)
    calls = [f"call_{at}" for at in range(len(asked["tools"]))]
    rules = []
    for at, tool in enumerate(asked["tools"]):
        rules.append(f"call_{at}: {_quoted(begin + _call_begin(tool['name']))} arguments_{at} {_quoted(end)}")
        rules.append(f"arguments_{at}: {_schema_rule(tool['parameters'], whitespace=whitespace)}")
    rules.append(f"call: {' | '.join(calls)}")
    several = "call" if not asked["parallel"] else f"call ({_quoted(', ' if listed else chr(10))} call)*"
    return [f'"[" {several} "]"' if listed else several, *rules]
