"""Short forms in the JSON Schema that editors read: one in place of a list, a number in place of a block."""

from typing import Any

_BESIDE = ("description", "default", "title")


def or_one(schema: dict[str, Any]) -> None:
    """A list may also be written as its only entry."""
    own = _taken(schema)
    schema["anyOf"] = [own["items"], own]


def or_number(schema: dict[str, Any]) -> None:
    """A block may also be written as a whole number."""
    own = _taken(schema)
    schema["anyOf"] = [{"type": "integer", "minimum": 1}, own]


def _taken(schema: dict[str, Any]) -> dict[str, Any]:
    """What the schema says of its value; what it says of its key stays."""
    return {key: schema.pop(key) for key in [*schema] if key not in _BESIDE}
