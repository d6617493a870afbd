"""The calls of tools that a text or a JSON value holds, and how two of them differ."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tasks.guide.extract import extract_json
from tasks.guide.strict_json import NotJson, parse
from tasks.score.numbers import json_number

_TAGGED = re.compile(r"<tool_call>(.*?)(?:</tool_call>|\Z)", re.DOTALL)
_DECODER = json.JSONDecoder()
_BETWEEN = re.compile(r"[\s,;]*")
_ABSENT = object()
_MOST_TRIES = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call: which tool, and its arguments by name."""

    name: str
    arguments: dict[str, Any]


class NoCall(ValueError):
    """A JSON value that is no call; the message says why."""


def as_calls(value: Any) -> list[Call]:
    """The calls of a JSON value: an object {name, arguments}, or a list of them. Raises NoCall.

    `parameters` may stand for `arguments`; the arguments may be the text of their object; where there are none, they
    are empty. An object may stand within {function: …}, as in the messages of chat APIs.
    """
    return [_as_call(each) for each in (value if isinstance(value, list) else [value])]


def _as_call(value: Any) -> Call:
    if isinstance(value, dict) and isinstance(value.get("function"), dict):
        value = value["function"]
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        raise NoCall(f"no call with a name: {_short(value)}")
    arguments = value["arguments"] if "arguments" in value else value.get("parameters", {})
    if isinstance(arguments, str):
        try:
            arguments = parse(arguments)[0]
        except NotJson as error:
            raise NoCall(f"the arguments of {value['name']} are {error}") from error
    if not isinstance(arguments, dict):
        raise NoCall(f"the arguments of {value['name']} are no object: {_short(arguments)}")
    return Call(name=value["name"].strip(), arguments=arguments)


def find_calls(text: str) -> tuple[list[Call], str | None, str | None]:
    """The calls of an answer, the text where they stand, and the reason why there are none.

    In this order: all that stands between <tool_call> and </tool_call> (the last may be unclosed); the whole answer, if
    it is JSON values one after the other; the first JSON value in a fence or among words that is a call or calls.
    """
    tagged = [block.strip() for block in _TAGGED.findall(text)]
    if tagged:
        try:
            calls = [call for block in tagged for call in as_calls(parse(block)[0])]
        except (NotJson, NoCall) as error:
            return [], "\n".join(tagged), str(error)
        return calls, "\n".join(tagged), None
    pieces = _row_of_values(text.strip())
    if pieces:
        try:
            return [call for piece in pieces for call in as_calls(parse(piece)[0])], text.strip(), None
        except (NotJson, NoCall) as error:
            return [], text.strip(), str(error)
    return _among_words(text)


def _row_of_values(text: str) -> list[str]:
    """The objects and lists that are the whole text, with blanks, commas or semicolons between; else none."""
    pieces: list[str] = []
    at = 0
    while at < len(text):
        if text[at] not in "{[":
            return []
        try:
            _, end = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            return []
        pieces.append(text[at:end])
        between = _BETWEEN.match(text, end)
        at = end if between is None else between.end()
    return pieces


def _among_words(text: str) -> tuple[list[Call], str | None, str | None]:
    found = [extract_json(text, prefer="object"), extract_json(text, prefer="array")]
    pieces = [piece for _, piece in sorted({(each.start, each.text) for each in found if each is not None})]
    reason = "there is no call in the answer"
    for piece in [*pieces, _first_object(text)]:
        try:
            calls = as_calls(parse(piece)[0]) if piece else []
        except (NotJson, NoCall) as error:
            reason = str(error)
        else:
            if calls:
                return calls, piece, None
    return [], None, reason


def _first_object(text: str) -> str | None:
    """The first object anywhere, for a fence that an argument with a fence in it seems to close."""
    at = -1
    for _ in range(_MOST_TRIES):
        at = text.find("{", at + 1)
        if at < 0:
            return None
        try:
            return text[at : _DECODER.raw_decode(text, at)[1]]
        except (ValueError, RecursionError):
            continue
    return None


def equal(one: Any, two: Any) -> bool:
    """Whether two JSON values are equal: numbers by value (5 = 5.0, but neither "5" nor true), texts without the blanks
    around them, lists in their order, objects in any."""
    if isinstance(one, str) and isinstance(two, str):
        return one.strip() == two.strip()
    if isinstance(one, dict) and isinstance(two, dict):
        return one.keys() == two.keys() and all(equal(item, two[key]) for key, item in one.items())
    if isinstance(one, list) and isinstance(two, list):
        return len(one) == len(two) and all(map(equal, one, two))
    numbers = json_number(one), json_number(two)
    if numbers[0] is not None and numbers[1] is not None:
        return numbers[0] == numbers[1]
    return type(one) is type(two) and bool(one == two)


def permitted(value: Any, among: Any) -> bool:
    """Whether a value is one of a list of permitted ones. `among` that is no list permits itself alone.

    A permitted object whose values are lists permits, key by key, each of those; "" permits that it is left out.
    """
    return any(_fits(value, each) for each in (among if isinstance(among, list) else [among]))


def _fits(value: Any, wanted: Any) -> bool:
    if value is _ABSENT:
        return isinstance(wanted, str) and not wanted
    if equal(value, wanted):
        return True
    if isinstance(value, list) and isinstance(wanted, list):
        return len(value) == len(wanted) and all(map(_fits, value, wanted))
    if isinstance(value, dict) and isinstance(wanted, dict) and all(isinstance(each, list) for each in wanted.values()):
        return value.keys() <= wanted.keys() and all(
            permitted(value.get(key, _ABSENT), among) for key, among in wanted.items()
        )
    return False


def differences(*, found: Call, wanted: Call, any_of: bool) -> list[str]:
    """What differs between a call and the wanted one, in words; empty where nothing does."""
    said = [] if found.name == wanted.name else [f"the name is {found.name!r}, not {wanted.name!r}"]
    right: Callable[[Any, Any], bool] = permitted if any_of else equal
    for key, value in wanted.arguments.items():
        if key in found.arguments:
            if not right(found.arguments[key], value):
                said.append(f"{key} is {_short(found.arguments[key])}, not {_short(value)}")
        elif not (any_of and permitted(_ABSENT, value)):
            said.append(f"{key} is missing")
    return said + [f"{key} is not asked for" for key in found.arguments if key not in wanted.arguments]


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else f"{text[:59]}…"
