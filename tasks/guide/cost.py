"""Whether a JSON schema can be validated in the calling process without the risk of never coming back."""

from typing import Any

from tasks.guide.pointers import at

MOST_PATHS = 10_000
_REFERENCES = ("$ref",)
_UNBOUNDED = {"$dynamicRef", "$recursiveRef", "unevaluatedItems", "unevaluatedProperties"}


class _TooCostly(Exception):
    """The schema's paths are more than MOST_PATHS, loop, or cannot be counted."""


def _target(*, schema: Any, reference: str) -> Any:
    """The part of the schema that a local JSON pointer names."""
    if reference == "#":
        return schema
    if not reference.startswith("#/"):
        raise _TooCostly
    try:
        return at(schema, reference.removeprefix("#"))
    except KeyError as error:
        raise _TooCostly from error


def is_cheap(schema: Any) -> bool:
    """True if the paths through the schema, with each local `$ref` followed, are few and do not loop.

    Such a schema takes at most MOST_PATHS steps for each value of an answer. A recursive schema, one whose references
    fan out (30 definitions can make a billion paths), one with `unevaluated*` or a dynamic reference is not cheap;
    many of those are harmless too, but that is not known beforehand. Patterns need no look here: their engine is
    linear in the text, or stops after a fixed number of steps back.
    """
    paths: dict[int, int] = {}
    open_nodes: set[int] = set()

    def count(node: Any) -> int:
        if not isinstance(node, dict | list):
            return 1
        if id(node) in paths:
            return paths[id(node)]
        if id(node) in open_nodes:
            raise _TooCostly
        open_nodes.add(id(node))
        total = 1
        if isinstance(node, list):
            total += sum(count(item) for item in node)
        else:
            if _UNBOUNDED & node.keys():
                raise _TooCostly
            for key, value in node.items():
                total += count(value)
                if key in _REFERENCES and isinstance(value, str):
                    total += count(_target(schema=schema, reference=value))
        open_nodes.discard(id(node))
        if total > MOST_PATHS:
            raise _TooCostly
        paths[id(node)] = total
        return total

    try:
        count(schema)
    except (_TooCostly, RecursionError):
        return False
    return True
