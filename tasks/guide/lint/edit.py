"""Changes of a schema: without a keyword, with another node, with all keywords of a name gone."""

import json
from collections.abc import Callable, Iterator
from typing import Any

from tasks.guide.backends.parts import Part
from tasks.guide.pointers import at, step, steps

BRANCHED = ("anyOf", "oneOf", "allOf", "$ref")
"""Keywords that lead to other nodes of which some speak of the same value."""
_NAMES = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies")
_NODES = (
    "additionalProperties", "unevaluatedProperties", "propertyNames", "items", "additionalItems", "unevaluatedItems",
    "contains", "not", "if", "then", "else",
)  # fmt: skip
_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems", "items")


def nodes(schema: dict[str, Any]) -> Iterator[Part]:
    """Every node of a schema that is an object, from the outside in. Names of properties are not taken for keywords."""
    waiting = [Part(pointer="", node=schema)]
    while waiting:
        part = waiting.pop(0)
        yield part
        for key, inner in part.node.items():
            if key in _NAMES and isinstance(inner, dict):
                pairs = [(step(part.pointer, key, name), each) for name, each in inner.items()]
            elif key in _LISTS and isinstance(inner, list):
                pairs = [(step(part.pointer, key, index), each) for index, each in enumerate(inner)]
            elif key in _NODES:
                pairs = [(step(part.pointer, key), inner)]
            else:
                continue
            waiting.extend(Part(pointer=pointer, node=each) for pointer, each in pairs if isinstance(each, dict))


def changed(schema: dict[str, Any], pointer: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> dict[str, Any]:
    """A copy of a schema with another node at `pointer`."""
    made: dict[str, Any] = json.loads(json.dumps(schema))
    if not pointer:
        return change(made)
    way = steps(pointer)
    above = at(made, step("", *way[:-1]))
    key: Any = int(way[-1]) if isinstance(above, list) else way[-1]
    above[key] = change(above[key])
    return made


def without(schema: dict[str, Any], pointer: str, keyword: str) -> dict[str, Any]:
    """A copy without one keyword of the node at `pointer`."""
    return changed(schema, pointer, lambda node: {key: value for key, value in node.items() if key != keyword})


def everywhere(schema: dict[str, Any], keywords: frozenset[str]) -> dict[str, Any]:
    """A copy in which no node has any of these keywords."""
    made = json.loads(json.dumps(schema))
    for part in list(nodes(made)):
        for keyword in keywords & part.node.keys():
            del part.node[keyword]
    return dict(made)


def split(pointer: str) -> tuple[str, str]:
    """A keyword's pointer as that of its node and the keyword."""
    way = steps(pointer)
    return step("", *way[:-1]), way[-1]
