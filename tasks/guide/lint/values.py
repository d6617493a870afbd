"""Values that a schema should allow, by example: made from its keywords, so the validator has the last word on each."""

import json
import random
from typing import Any

from tasks.guide.backends.parts import Parts, searches
from tasks.guide.lint.merge import merge
from tasks.guide.lint.texts import FORMATS, of_pattern
from tasks.guide.pointers import at

_DEEPEST = 8
_MOST_ITEMS = 60
_LONGEST = 4_000
_ANY: tuple[Any, ...] = ("a", 1, True, None, {}, [], 0.5, "", {"k": 1})
_OF_KEYWORD = {
    "object": (
        "properties", "required", "additionalProperties", "patternProperties", "propertyNames", "minProperties",
        "maxProperties", "dependentRequired", "dependencies", "dependentSchemas", "unevaluatedProperties",
    ),
    "array": ("items", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains", "additionalItems"),
    "string": ("pattern", "format", "minLength", "maxLength"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
}  # fmt: skip


def types_of(node: dict[str, Any]) -> list[str]:
    """The types that a schema's node names, or that its keywords are about; none if nothing tells."""
    named = node.get("type")
    if isinstance(named, str):
        return [named]
    if isinstance(named, list):
        return [each for each in named if isinstance(each, str)]
    return [kind for kind, keywords in _OF_KEYWORD.items() if any(keyword in node for keyword in keywords)]


class Values:
    """Makes values by one schema. fullness: the share of what a schema leaves open that is there, 0 to 1."""

    def __init__(self, parts: Parts, rng: random.Random) -> None:
        self._parts = parts
        self._rng = rng

    def make(self, node: Any, *, fullness: float, depth: int = 0) -> Any:  # noqa: PLR0911 - one for each kind
        """A value for a node. It may be wrong: the validator is asked."""
        if not isinstance(node, dict):
            return self._rng.choice(_ANY)
        node = self.flat(node, depth=depth)
        if "const" in node:
            return node["const"]
        if isinstance(node.get("enum"), list) and node["enum"]:
            return (
                self._rng.choice(node["enum"])
                if fullness
                else min(node["enum"], key=lambda each: len(json.dumps(each)))
            )
        kinds = types_of(node)
        if not kinds:
            return self._rng.choice(_ANY) if fullness else "a"
        kind = self._rng.choice(kinds) if fullness else kinds[0]
        makers = {"object": self._object, "array": self._array, "string": self._string}
        if kind in makers:
            return makers[kind](node, fullness, depth)
        if kind in ("integer", "number"):
            return self._number(node, kind, fullness)
        return self._rng.choice([True, False]) if kind == "boolean" else None

    def flat(self, node: dict[str, Any], *, depth: int = 0) -> dict[str, Any]:
        """A node with what it refers to, its `allOf`, and one branch each of `anyOf` and `oneOf` in it."""
        made = {key: value for key, value in node.items() if key not in ("$ref", "allOf", "anyOf", "oneOf", "if")}
        if depth > _DEEPEST * 3:
            return made
        inner: list[Any] = []
        if isinstance(node.get("$ref"), str):
            target = self._parts.target(node["$ref"])
            if target is not None:
                inner.append(at(self._parts.schema, target))
        inner.extend(node.get("allOf") or ())
        for key in ("anyOf", "oneOf"):
            if isinstance(node.get(key), list) and node[key]:
                branches = (
                    node[key] if depth < _DEEPEST else sorted(node[key], key=lambda each: len(json.dumps(each)))[:1]
                )
                inner.append(self._rng.choice(branches))
        if isinstance(node.get("if"), dict):
            inner.append(merge(node["if"], made.pop("then", {})) if self._rng.random() < 0.5 else made.pop("else", {}))
        for each in inner:
            if isinstance(each, dict):
                made = merge(made, self.flat(each, depth=depth + 1))
        return made

    def _object(self, node: dict[str, Any], fullness: float, depth: int) -> dict[str, Any]:
        properties = node.get("properties") if isinstance(node.get("properties"), dict) else {}
        required = [name for name in node.get("required") or () if isinstance(name, str)]
        wanted = set(required)
        if depth < _DEEPEST:
            wanted |= {name for name in properties if fullness >= 1 or self._rng.random() < fullness}
        made: dict[str, Any] = {}
        for name in [*properties, *required]:
            if name in wanted and name not in made and properties.get(name) is not False:
                made[name] = self.make(self._of_name(node, name), fullness=fullness, depth=depth + 1)
        if fullness and depth < _DEEPEST:
            self._more(node, made, fullness, depth)
        least = node.get("minProperties")
        for name in self._names(node) if isinstance(least, int) else ():
            if len(made) >= least:
                break
            made.setdefault(name, self.make(self._of_name(node, name), fullness=0, depth=depth + 1))
        return made

    def _more(self, node: dict[str, Any], made: dict[str, Any], fullness: float, depth: int) -> None:
        """Keys that the schema has a rule for without their names."""
        for pattern, inner in (node.get("patternProperties") or {}).items():
            names = of_pattern(pattern)
            if names and inner is not False:
                made.setdefault(names[0], self.make(inner, fullness=fullness, depth=depth + 1))
        if isinstance(node.get("additionalProperties"), dict):
            for name in self._names(node)[: 1 if fullness < 1 else 2]:
                if name not in (node.get("properties") or {}):
                    made.setdefault(name, self.make(node["additionalProperties"], fullness=fullness, depth=depth + 1))

    def _of_name(self, node: dict[str, Any], name: str) -> Any:
        properties = node.get("properties") or {}
        if name in properties:
            return properties[name]
        for pattern, inner in (node.get("patternProperties") or {}).items():
            if searches(pattern, name):
                return inner
        return node.get("additionalProperties", {})

    def _names(self, node: dict[str, Any]) -> list[str]:
        rule = node.get("propertyNames")
        found = list(node.get("properties") or ())
        for pattern in node.get("patternProperties") or {}:
            found.extend(of_pattern(pattern)[:2])
        if isinstance(rule, dict):
            made = [self.make({"type": "string", **rule}, fullness=0.5) for _ in range(4)]
            found.extend(name for name in made if isinstance(name, str))
        else:
            found.extend(f"k{number}" for number in range(20))
        return list(dict.fromkeys(found))

    def _array(self, node: dict[str, Any], fullness: float, depth: int) -> list[Any]:
        firsts = node.get("prefixItems") or (node["items"] if isinstance(node.get("items"), list) else [])
        rest: Any = node.get("items", {})
        if isinstance(rest, list) or ("prefixItems" not in node and isinstance(node.get("items"), list)):
            rest = node.get("additionalItems", {})
        least = node.get("minItems") if isinstance(node.get("minItems"), int) else 0
        most = node.get("maxItems") if isinstance(node.get("maxItems"), int) else _MOST_ITEMS
        contains = node.get("contains")
        count = max(least, len(firsts) if fullness else 0)
        if fullness and depth < _DEEPEST and rest is not False:
            count = max(count, least + self._rng.randint(0, 2), 1)
        made: list[Any] = []
        for index in range(min(count, most, _MOST_ITEMS)):
            inner = firsts[index] if index < len(firsts) else rest
            made.append(self.make(inner, fullness=fullness, depth=depth + 1))
            if node.get("uniqueItems"):
                self._unique(made, inner, fullness, depth)
        if contains is not None and not made[len(firsts) :]:
            made.append(self.make(contains, fullness=0, depth=depth + 1))
        return made

    def _unique(self, made: list[Any], inner: Any, fullness: float, depth: int) -> None:
        for _ in range(8):
            if made[-1] not in made[:-1]:
                return
            made[-1] = self.make(inner, fullness=max(fullness, 0.5), depth=depth + 1)

    def _string(self, node: dict[str, Any], fullness: float, depth: int) -> str:
        del depth
        least = node.get("minLength") if isinstance(node.get("minLength"), int) else 0
        most = node.get("maxLength") if isinstance(node.get("maxLength"), int) else _LONGEST
        if isinstance(node.get("pattern"), str):
            found = [text for text in of_pattern(node["pattern"]) if least <= len(text) <= most]
            return (self._rng.choice(found) if fullness else found[0]) if found else "a"
        if node.get("format") in FORMATS:
            return self._rng.choice(FORMATS[node["format"]])
        text = self._rng.choice(["a", "Ab c", "x1", "é ü", 'q"\\', ""]) if fullness else ""
        return (text + "a" * max(0, min(least, _LONGEST) - len(text)))[:most]

    def _number(self, node: dict[str, Any], kind: str, fullness: float) -> Any:
        low, high = node.get("minimum"), node.get("maximum")
        nudge = 1 if kind == "integer" else 0.5
        for name, sign in (("exclusiveMinimum", 1), ("exclusiveMaximum", -1)):
            bound = node.get(name)
            if bound is True:
                low, high = (low + nudge, high) if sign > 0 and low is not None else (low, high)
                high = high - nudge if sign < 0 and high is not None else high
            elif isinstance(bound, int | float) and bound is not False:
                low, high = (bound + nudge, high) if sign > 0 else (low, bound - nudge)
        choices = [each for each in (0, 1, low, high) if each is not None]
        if fullness:
            choices += [7, 42, -3, 1000] if kind == "integer" else [0.5, -2.25, 3, 100.125]
        fitting = [each for each in choices if (low is None or each >= low) and (high is None or each <= high)]
        made = self._rng.choice(fitting or choices) if fullness else (fitting or choices)[0]
        unit = node.get("multipleOf")
        if isinstance(unit, int | float) and unit > 0:
            made = unit * -(-(low if low is not None else made) // unit)
        return int(made) if kind == "integer" else made
