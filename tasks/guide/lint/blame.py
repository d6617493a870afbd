"""Which keyword makes a backend refuse what the schema allows: the one without which it does not."""

from collections.abc import Callable, Iterator
from typing import Any

from tasks.guide.backends.parts import Parts
from tasks.guide.lint.edit import everywhere, nodes, without
from tasks.guide.pointers import step

_WORDLESS = frozenset(
    ("title", "description", "default", "examples", "example", "$comment", "$schema", "$id", "id", "definitions",
     "$defs", "deprecated", "readOnly", "writeOnly")
)  # fmt: skip
_LATE = ("properties", "$ref", "type", "items", "anyOf", "oneOf", "allOf")
_MOST_TRIES = 60
_SUSPECTS = (
    "uniqueItems", "multipleOf", "propertyNames", "patternProperties", "contains", "minContains", "maxContains", "not",
    "if", "then", "else", "dependentRequired", "dependentSchemas", "dependencies", "unevaluatedProperties",
    "unevaluatedItems", "format", "pattern", "oneOf", "allOf", "anyOf", "minLength", "maxLength", "minItems",
    "maxItems", "minProperties", "maxProperties", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
    "additionalItems", "prefixItems", "additionalProperties", "required", "enum", "const", "type", "items",
)  # fmt: skip


def blame(parts: Parts, instance: Any, *, freed: Callable[[dict[str, Any]], bool]) -> str | None:
    """The pointer of the keyword without which `freed` holds for the schema; the deepest that speaks of the instance.
    None where no single one is it."""
    for tries, (pointer, keyword) in enumerate(_keywords(parts, instance)):
        if tries >= _MOST_TRIES:
            return None
        if freed(without(parts.schema, pointer, keyword)):
            return step(pointer, keyword)
    return None


def _keywords(parts: Parts, instance: Any) -> Iterator[tuple[str, str]]:
    found: dict[tuple[str, str], tuple[bool, int]] = {}
    for place in parts.places(instance):
        for part in place.parts:
            for keyword in part.node.keys() - _WORDLESS:
                found.setdefault((part.pointer, keyword), (keyword in _LATE, -len(place.path)))
    yield from sorted(found, key=lambda each: (found[each], each))


def unwanted(schema: dict[str, Any], *, accepted: Callable[[dict[str, Any]], bool]) -> frozenset[str] | None:
    """The fewest keywords, by name and gone everywhere, without which a backend takes the schema; None where even
    without all of those that may be at fault it does not."""
    present = {keyword for part in nodes(schema) for keyword in part.node}
    suspects = [keyword for keyword in _SUSPECTS if keyword in present]
    for keyword in suspects:
        if accepted(everywhere(schema, frozenset((keyword,)))):
            return frozenset((keyword,))
    kept = set(suspects)
    if not accepted(everywhere(schema, frozenset(kept))):
        return None
    for keyword in reversed(suspects):
        if accepted(everywhere(schema, frozenset(kept - {keyword}))):
            kept.discard(keyword)
    return frozenset(kept)
