"""Which parts of a schema speak of a value: the node itself, what it refers to, and the branches that take it."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

import jsonschema_rs
import regex

from tasks.guide.pointers import at, step

_ROOT = "urn:assay:schema"
_ALL = ("allOf",)
_SOME = ("anyOf", "oneOf")
_IF = ("then", "else")
_MOST_PARTS = 200
_MOST_PLACES = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part of a schema: its JSON pointer and the node itself."""

    pointer: str
    node: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A value within an instance, and the parts of the schema that speak of it."""

    path: tuple[str | int, ...]
    value: Any
    parts: tuple[Part, ...]


@dataclass
class Parts:
    """A schema, looked up by values. Only local references are followed; nothing is fetched."""

    schema: dict[str, Any]
    _takes: dict[str, Any] = field(default_factory=dict)

    def target(self, reference: str) -> str | None:
        """The pointer that a local `$ref` means; None for any other."""
        if reference == "#":
            return ""
        if not reference.startswith("#/"):
            return None
        pointer = unquote(reference[1:])
        try:
            at(self.schema, pointer)
        except KeyError:
            return None
        return pointer

    def takes(self, pointer: str, value: Any) -> bool:
        """Whether the schema's part at `pointer` allows a value. True where that cannot be told."""
        if pointer not in self._takes:
            self._takes[pointer] = self._validator(pointer)
        validator = self._takes[pointer]
        try:
            return validator is None or bool(validator.is_valid(value))
        except (ValueError, RecursionError):
            return True

    def _validator(self, pointer: str) -> Any:
        draft = self.schema.get("$schema")
        top = {"$ref": f"{_ROOT}#{pointer}"}
        if isinstance(draft, str):
            top["$schema"] = draft
        root = {key: value for key, value in self.schema.items() if key not in ("$id", "id")}
        try:
            return jsonschema_rs.validator_for(
                top, validate_formats=True, registry=jsonschema_rs.Registry([(_ROOT, root)])
            )
        except (ValueError, TypeError, RecursionError):
            return None

    def of(self, part: Part, value: Any) -> list[Part]:
        """The parts that speak of `value`, beginning with `part`: what it refers to, each of `allOf`, the branches of
        `anyOf` and `oneOf` that take the value (all, if none does), `then` and `else` as far as they take it."""
        found: list[Part] = []
        seen: set[str] = set()
        waiting = [part]
        while waiting and len(found) < _MOST_PARTS:
            now = waiting.pop(0)
            if now.pointer in seen:
                continue
            seen.add(now.pointer)
            found.append(now)
            waiting = [*self._beside(now, value), *waiting]
        return found

    def _beside(self, part: Part, value: Any) -> Iterator[Part]:
        node = part.node
        if isinstance(node.get("$ref"), str):
            pointer = self.target(node["$ref"])
            if pointer is not None:
                yield from self._part(pointer, at(self.schema, pointer))
        for key in _ALL:
            for number, branch in enumerate(_listed(node, key)):
                yield from self._part(step(part.pointer, key, number), branch)
        for key in _SOME:
            branches = [(step(part.pointer, key, number), branch) for number, branch in enumerate(_listed(node, key))]
            taking = [(pointer, branch) for pointer, branch in branches if self.takes(pointer, value)]
            for pointer, branch in taking or branches:
                yield from self._part(pointer, branch)
        for key in _IF:
            if key in node and self.takes(step(part.pointer, key), value):
                yield from self._part(step(part.pointer, key), node[key])

    @staticmethod
    def _part(pointer: str, node: Any) -> Iterator[Part]:
        if isinstance(node, dict):
            yield Part(pointer=pointer, node=node)

    def below(self, parts: list[Part], value: Any, key: str | int) -> list[Part]:
        """The parts that speak of the value under `key`, each with what it refers to."""
        direct: list[Part] = []
        for part in parts:
            pairs = _item(part, key) if isinstance(key, int) else _property(part, key)
            direct.extend(Part(pointer=pointer, node=node) for pointer, node in pairs if isinstance(node, dict))
        found: dict[str, Part] = {}
        for each in direct:
            for part in self.of(each, value[key]):
                found.setdefault(part.pointer, part)
        return list(found.values())[:_MOST_PARTS]

    def places(self, instance: Any) -> Iterator[Place]:
        """Every value within an instance, from the outside in, with its parts."""
        waiting: list[tuple[tuple[str | int, ...], Any, list[Part]]] = [
            ((), instance, self.of(Part(pointer="", node=self.schema), instance))
        ]
        count = 0
        while waiting and count < _MOST_PLACES:
            path, value, parts = waiting.pop(0)
            count += 1
            yield Place(path=path, value=value, parts=tuple(parts))
            keys: Any = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
            waiting.extend(((*path, key), value[key], self.below(parts, value, key)) for key in keys)


def _listed(node: dict[str, Any], key: str) -> list[Any]:
    branches = node.get(key)
    return branches if isinstance(branches, list) else []


def _property(part: Part, key: str) -> list[tuple[str, Any]]:
    node, found = part.node, []
    properties = node.get("properties")
    if isinstance(properties, dict) and key in properties:
        found.append((step(part.pointer, "properties", key), properties[key]))
    patterns = node.get("patternProperties")
    for pattern in patterns if isinstance(patterns, dict) else ():
        if searches(pattern, key):
            found.append((step(part.pointer, "patternProperties", pattern), patterns[pattern]))
    if not found:
        for other in ("additionalProperties", "unevaluatedProperties"):
            if other in node:
                found.append((step(part.pointer, other), node[other]))
    return found


def _item(part: Part, index: int) -> list[tuple[str, Any]]:
    node = part.node
    first, rest = ("prefixItems", "items")
    if isinstance(node.get("items"), list):
        first, rest = ("items", "additionalItems")
    firsts = _listed(node, first)
    if index < len(firsts):
        return [(step(part.pointer, first, index), firsts[index])]
    return [(step(part.pointer, rest), node[rest])] if rest in node else []


@lru_cache(maxsize=4096)
def _pattern(pattern: str) -> Any:
    try:
        return regex.compile(pattern)
    except (regex.error, RecursionError):
        return None


def searches(pattern: str, text: str) -> bool:
    """Whether a pattern of a schema is found in a text. False for one that does not compile or takes too long."""
    compiled = _pattern(pattern)
    try:
        return compiled is not None and compiled.search(text, timeout=1.0) is not None
    except TimeoutError:
        return False
