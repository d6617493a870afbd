"""Instances a step away from a valid one: each breaks, or just keeps, one keyword of the schema."""

import random
from collections.abc import Iterator
from typing import Any

from tasks.guide.backends.parts import Part, Parts, Place
from tasks.guide.lint.texts import NOT_OF_A_FORMAT, of_pattern
from tasks.guide.lint.values import Values

_OF_TYPES: tuple[Any, ...] = (None, True, 0, 1.5, "x", [], {})
_LONGEST = 4_000
_MOST_ITEMS = 200


Step = tuple[str, tuple[str | int, ...], Any]
"""The keyword that a change is aimed at, the path within the instance, and the value to put there."""


def steps_away(instance: Any, *, parts: Parts, values: Values, rng: random.Random) -> Iterator[Step]:
    """Changes of one value of an instance. Whether one breaks the schema is for the validator to say."""
    for place in parts.places(instance):
        for keyword, value in _changes(place, values, rng):
            yield keyword, place.path, value


def put(instance: Any, path: tuple[str | int, ...], value: Any) -> Any:
    """The instance with another value at `path`; the rest is shared with the old one, which stays as it is."""
    if not path:
        return value
    made = dict(instance) if isinstance(instance, dict) else list(instance)
    made[path[0]] = put(made[path[0]], path[1:], value)
    return made


def inside(instance: Any, path: tuple[str | int, ...]) -> Any:
    """The value at `path`; None where there is none."""
    for key in path:
        try:
            instance = instance[key]
        except (KeyError, IndexError, TypeError):
            return None
    return instance


def _changes(place: Place, values: Values, rng: random.Random) -> Iterator[tuple[str, Any]]:
    value = place.value
    yield from (("type", other) for other in _OF_TYPES if type(other) is not type(value))
    for part in place.parts:
        yield from _branches(part, value, values)
        node = part.node
        if "enum" in node or "const" in node:
            yield from (("enum", other) for other in ("zz", -1, None, [], {}))
            if isinstance(value, str):
                yield from (("enum", other) for other in (value + "x", value[:-1], value.upper(), ""))
        if isinstance(value, dict):
            yield from _object(node, value, values, rng)
        elif isinstance(value, list):
            yield from _array(node, value, values)
        elif isinstance(value, str):
            yield from _string(node, value, rng)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield from _number(node, value)


def _branches(part: Part, value: Any, values: Values) -> Iterator[tuple[str, Any]]:
    for key in ("anyOf", "oneOf", "allOf"):
        made = [
            values.make(branch, fullness=fullness)
            for branch in (part.node.get(key) or ())[:6]
            for fullness in (0, 1)
            if isinstance(branch, dict)
        ]
        yield from ((key, each) for each in made)
        if isinstance(value, dict):  # of two branches at once
            yield from ((key, {**value, **each}) for each in made if isinstance(each, dict))
    for key in ("not", "if"):
        if isinstance(part.node.get(key), dict):
            made = [values.make(part.node[key], fullness=fullness) for fullness in (0, 1)]
            yield from ((key, each) for each in made)
            if isinstance(value, dict):
                yield from ((key, {**value, **each}) for each in made if isinstance(each, dict))


def _object(
    node: dict[str, Any], value: dict[str, Any], values: Values, rng: random.Random
) -> Iterator[tuple[str, Any]]:
    for name in value:
        yield "required", {key: inner for key, inner in value.items() if key != name}
    yield "required", {}
    yield from (("additionalProperties", {**value, "zz": inner}) for inner in (1, "x", None))
    for name, inner in list((node.get("properties") or {}).items())[:30]:
        if name not in value and isinstance(inner, dict):
            yield "properties", {**value, name: values.make(inner, fullness=0)}
            yield from (("properties", {**value, name: other}) for other in (None, 1.5, "\u00e9", []))
    for pattern, inner in (node.get("patternProperties") or {}).items():
        for name in of_pattern(pattern)[:2]:
            yield "patternProperties", {**value, name: values.make(inner, fullness=0.5)}
            yield from (("patternProperties", {**value, name: other}) for other in (None, 1.5, "\u00e9", [], {}))
    if "propertyNames" in node:
        yield from (("propertyNames", {**value, name: 1}) for name in ("", "ZZ 9", "a", "zzzzzzzzzzzzzzzzzzzzzzzz"))
    most = node.get("maxProperties")
    if isinstance(most, int) and most < _MOST_ITEMS:
        yield "maxProperties", {**value, **{f"k{number}": 1 for number in range(most + 1)}}


def _array(node: dict[str, Any], value: list[Any], values: Values) -> Iterator[tuple[str, Any]]:
    yield "minItems", []
    yield from (("minItems", value[:count]) for count in {len(value) - 1, (node.get("minItems") or 0) - 1} if count > 0)
    inner = node.get("items") if isinstance(node.get("items"), dict) else node.get("additionalItems", {})
    more = values.make(inner, fullness=0)
    yield "items", [*value, more]
    yield from (("items", [*value, other]) for other in (None, 1.5, "zz", {}, [[]]))
    most = node.get("maxItems")
    if isinstance(most, int) and most < _MOST_ITEMS:
        made = [*value]
        while len(made) <= most:
            made.append(values.make(inner, fullness=0.5))
        yield "maxItems", made
        yield "maxItems", made[:most]
    if value:
        yield "uniqueItems", [*value, value[0]]
        yield "items", [*value[1:], value[0]]
        yield "contains", [value[0]]
        yield "contains", [value[-1]] * len(value)


def _string(node: dict[str, Any], value: str, rng: random.Random) -> Iterator[tuple[str, Any]]:
    least, most = node.get("minLength"), node.get("maxLength")
    if isinstance(least, int) and 0 < least < _LONGEST:
        yield "minLength", (value or "a")[: least - 1]
        yield "minLength", ((value or "a") * least)[:least]
        yield "minLength", "é" * least
    if isinstance(most, int) and most < _LONGEST:
        yield "maxLength", ((value or "a") * (most + 1))[:most]
        yield "maxLength", ((value or "a") * (most + 1))[: most + 1]
        yield "maxLength", "é" * most
    if isinstance(node.get("pattern"), str):
        yield from (
            ("pattern", text) for text in ("", "!", value + "~", "~" + value, value[1:], value[:-1], "a\nb", "é")
        )
        yield from (("pattern", text + end) for text in of_pattern(node["pattern"])[:3] for end in ("", "z"))
    if "format" in node:
        yield from (("format", text) for text in (*NOT_OF_A_FORMAT, value + "x", value[:-1]))
    yield from (("string", text) for text in ("", "a b", 'q"\\/', "é…", "\u2028\n\t"))


def _number(node: dict[str, Any], value: float) -> Iterator[tuple[str, Any]]:
    bounds = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
    for key in bounds:
        bound = node.get(key)
        if isinstance(bound, int | float) and not isinstance(bound, bool):
            yield from ((key, bound + nudge) for nudge in (0, -1, 1, -0.5, 0.5))
    unit = node.get("multipleOf")
    if isinstance(unit, int | float) and unit > 0:
        yield from (("multipleOf", each) for each in (value + unit, value + unit / 2, unit * 3))
        yield "multipleOf", value + 1
    yield from (("type", each) for each in (value + 0.5, -value, -1, 0, 12345678901, 0.001))
