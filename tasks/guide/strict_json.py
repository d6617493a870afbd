"""JSON as RFC 8259 has it: no NaN, no Infinity, and no key twice in one object."""

import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any


class NotJson(ValueError):
    """A text that is no JSON; the message says why and where."""


def _refuse_constant(name: str) -> Any:
    raise NotJson(f"{name} is no JSON value")


class _KeyTwice(Exception):
    """A key stands twice in an object: the text must be read again, by what keeps account of that."""


def _unique(items: list[tuple[str, Any]]) -> dict[str, Any]:
    built = dict(items)
    if len(built) != len(items):
        raise _KeyTwice
    return built


def _decoder(pairs: Callable[[list[tuple[str, Any]]], dict[str, Any]]) -> json.JSONDecoder:
    return json.JSONDecoder(object_pairs_hook=pairs, parse_float=Decimal, parse_constant=_refuse_constant)


_DECODER = _decoder(_unique)
"""For texts where no key stands twice, which is nearly all: making a decoder takes as long as reading a short text."""


def _with_keys_twice(text: str) -> tuple[Any, list[str]]:
    twice: list[str] = []

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        built = dict(items)
        if len(built) != len(items):
            seen: set[str] = set()
            for key, _ in items:
                if key in seen:
                    twice.append(key)
                seen.add(key)
        return built

    return _decoder(pairs).decode(text), twice


def parse(text: str) -> tuple[Any, list[str]]:
    """The value of a JSON text and the keys that stand twice in one of its objects (the last one's value is kept).

    Numbers with a fraction or an exponent become Decimal, so that 0.1 stays 0.1. Raises NotJson.
    """
    try:
        try:
            return _DECODER.decode(text), []
        except _KeyTwice:
            return _with_keys_twice(text)
    except json.JSONDecodeError as error:
        raise NotJson(f"no JSON: {error.msg} at line {error.lineno}, column {error.colno}") from error
    except RecursionError as error:
        raise NotJson("nested too deeply to be read") from error
    except NotJson:
        raise
    except ValueError as error:  # an integer with more digits than Python reads
        raise NotJson(f"no JSON that can be read: {error}") from error
