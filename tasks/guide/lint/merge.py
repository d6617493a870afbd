"""Two schemas as one that holds what both say, as far as that can be written down shallowly."""

from typing import Any

_LARGER = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties", "minContains")
_SMALLER = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties", "maxContains")


def merge(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """Both schemas' keywords. Where one keyword cannot hold both, they go side by side into `allOf`."""
    made = dict(first)
    for key, value in second.items():
        if key not in made or made[key] == value:
            made[key] = value
        else:
            _both(made, key, made[key], value)
    return made


def _both(made: dict[str, Any], key: str, old: Any, new: Any) -> None:
    if key in ("properties", "patternProperties", "$defs", "definitions"):
        made[key] = dict(old)
        for name, node in new.items():
            made[key][name] = _nodes(old[name], node) if name in old else node
    elif key == "required":
        made[key] = list(dict.fromkeys([*old, *new]))
    elif key == "type":
        types = _common(_list(old), _list(new))
        made[key] = types[0] if len(types) == 1 else types
    elif key == "enum":
        made[key] = [value for value in old if value in new]
    elif key in _LARGER and _numbers(old, new):
        made[key] = max(old, new)
    elif key in _SMALLER and _numbers(old, new):
        made[key] = min(old, new)
    elif key in ("additionalProperties", "items", "additionalItems", "unevaluatedProperties") and _nodes_both(old, new):
        made[key] = _nodes(old, new)
    elif key in ("title", "description", "default", "examples", "$comment", "$schema", "$id", "id", "deprecated"):
        return
    elif key == "allOf":
        made[key] = [*old, *new]
    elif key in ("uniqueItems",):
        made[key] = bool(old or new)
    else:
        made["allOf"] = [*made.get("allOf", []), {key: new}]


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _common(old: list[Any], new: list[Any]) -> list[Any]:
    found = [each for each in old if each in new]
    if "integer" not in found and (("integer" in old and "number" in new) or ("number" in old and "integer" in new)):
        found.append("integer")
    return found


def _numbers(*values: Any) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def _nodes_both(*values: Any) -> bool:
    return all(isinstance(value, dict | bool) for value in values)


def _nodes(old: Any, new: Any) -> Any:
    if old is True:
        return new
    if new is True:
        return old
    if old is False or new is False:
        return False
    return merge(old, new)
