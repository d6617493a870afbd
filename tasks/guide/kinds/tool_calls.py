"""Calls of tools: the tools of a guide in one form, and whether an answer holds nothing but right calls of them.

A grammar's content is JSON: {"tools": [{"name", "parameters"}], "parallel", "calls": "tags" | "list", "tool_choice":
"required" | "auto"}. The judge reads the text by itself: the tags, then strict JSON, then each call's arguments by the
tool's schema.
"""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from schemas.guide import Guide
from tasks.guide.strict_json import NotJson, parse
from tasks.guide.verdict import Violation

_NAME = re.compile(r"[A-Za-z0-9_.:/-]{1,128}")
_BEGIN, _END = "<tool_call>", "</tool_call>"
_CLOSING = re.compile(rf"\s*{_END}")
_DECODER = json.JSONDecoder()
_MOST_TOOLS = 256
_TYPES = {"dict": "object", "float": "number", "tuple": "array", "any": None}
"""Names of types that BFCL's tools have, and JSON Schema's; None: any value."""
_NO_PARAMETERS: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}

Violations = Callable[[Any, Any], list[Violation]]


class BadTools(ValueError):
    """What is given as tools is none; `path` says where in it."""

    def __init__(self, message: str, *, path: str = "") -> None:
        super().__init__(f"{path}: {message}" if path else message)


def content_of(tools: Any, *, guide: Guide) -> str:
    """The content of a guide's grammar. Raises BadTools."""
    if isinstance(tools, dict):
        tools = [tools]
    if not isinstance(tools, list) or not tools:
        raise BadTools("tools are a list of at least one")
    if len(tools) > _MOST_TOOLS:
        raise BadTools(f"more than {_MOST_TOOLS} tools")
    plain = [_tool(tool, at) for at, tool in enumerate(tools)]
    names = [tool["name"] for tool in plain]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise BadTools(f"two tools have the name {twice!r}")
    asked = {
        "tools": plain,
        "parallel": guide.parallel is not False,
        "calls": guide.calls or "tags",
        "tool_choice": guide.tool_choice or "required",
    }
    return json.dumps(asked, ensure_ascii=False, separators=(",", ":"))


def _tool(tool: Any, at: int) -> dict[str, Any]:
    if isinstance(tool, dict) and isinstance(tool.get("function"), dict):
        if tool.get("type", "function") != "function":
            raise BadTools(f"the type is {tool['type']!r}, not 'function'", path=f"{at}.type")
        tool = tool["function"]
    if not isinstance(tool, dict):
        raise BadTools("a tool is an object", path=str(at))
    name = tool.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise BadTools("a tool has a `name` of letters, digits and _ . : / -", path=f"{at}.name")
    parameters = _plain(tool.get("parameters") or _NO_PARAMETERS)
    if not isinstance(parameters, dict) or parameters.get("type", "object") != "object":
        raise BadTools("`parameters` is the JSON Schema of an object", path=f"{at}.parameters")
    return {"name": name, "parameters": {"type": "object", **parameters}}


def _plain(schema: Any) -> Any:
    """A schema with BFCL's names of types replaced."""
    if isinstance(schema, list):
        return [_plain(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: value if key in ("enum", "const", "default") else _plain(value) for key, value in schema.items()}
    if isinstance(found.get("type"), str) and found["type"] in _TYPES:
        known = _TYPES[found["type"]]
        if known is None:
            del found["type"]
        else:
            found["type"] = known
    return found


def schemas_of(content: str) -> list[Any]:
    """The tools' schemas."""
    return [tool["parameters"] for tool in json.loads(content)["tools"]]


def violations(content: str, text: str, *, check: Violations) -> list[Violation]:
    """What is wrong with an answer. check: (schema, value) -> the schema's violations, with paths into the value."""
    asked = json.loads(content)
    schemas = {tool["name"]: tool["parameters"] for tool in asked["tools"]}
    try:
        calls = _listed(text) if asked["calls"] == "list" else list(_tagged(text, free=asked["tool_choice"] == "auto"))
    except NotJson as error:
        return [Violation(path="", message=str(error))]
    if not calls and asked["tool_choice"] == "required":
        return [Violation(path="", message="there is no call in the answer")]
    found = []
    if len(calls) > 1 and not asked["parallel"]:
        found.append(Violation(path="", message=f"{len(calls)} calls, where one is allowed"))
    for at, (call, twice) in enumerate(calls):
        found += [Violation(path=f"/{at}", message=f"the key {key!r} stands twice in one object") for key in twice]
        found += _call(call, at=at, schemas=schemas, check=check)
    return found


def _call(call: Any, *, at: int, schemas: dict[str, Any], check: Violations) -> list[Violation]:
    if not isinstance(call, dict) or set(call) != {"name", "arguments"}:
        return [Violation(path=f"/{at}", message='a call is an object with "name" and "arguments"')]
    if not isinstance(call["name"], str) or call["name"] not in schemas:
        return [Violation(path=f"/{at}/name", message=f"there is no tool {json.dumps(call['name'])[:80]}")]
    return [
        Violation(path=f"/{at}/arguments{each.path}", message=each.message)
        for each in check(schemas[call["name"]], call["arguments"])
    ]


def _listed(text: str) -> list[tuple[Any, list[str]]]:
    value, twice = parse(text)
    if not isinstance(value, list):
        raise NotJson("the answer is no list of calls")
    return [(call, twice if at == 0 else []) for at, call in enumerate(value)]


def _tagged(text: str, *, free: bool) -> Iterator[tuple[Any, list[str]]]:
    """Each call between its tags. Raises NotJson for text beside them, unless `free`, and for a tag left open."""
    at = 0
    while (begin := text.find(_BEGIN, at)) >= 0:
        _beside(text[at:begin], free=free)
        begin += len(_BEGIN)
        begin += len(text) - begin - len(text[begin:].lstrip())
        try:
            _, end = _DECODER.raw_decode(text, begin)
        except (ValueError, RecursionError):
            end = begin
        closing = _CLOSING.match(text, end)
        if closing is None or end == begin:
            parse(text[begin:].partition(_END)[0].strip())  # which says what is wrong there
            raise NotJson(f"{_BEGIN} without {_END} after its call")
        yield parse(text[begin:end])
        at = closing.end()
    _beside(text[at:], free=free)


def _beside(text: str, *, free: bool) -> None:
    if not free and text.strip():
        raise NotJson(f"beside the calls there is {text.strip()[:40]!r}")
