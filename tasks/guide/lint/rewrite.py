"""Rewrites that might help a backend with a keyword, the closest to the schema first; each is tried before."""

from collections.abc import Iterator
from typing import Any

from tasks.guide.backends.parts import Parts
from tasks.guide.lint.edit import BRANCHED, changed, split, without
from tasks.guide.lint.merge import merge
from tasks.guide.lint.texts import PATTERNS
from tasks.guide.lint.values import types_of
from tasks.guide.pointers import at

Candidate = tuple[str, dict[str, Any]]
_OPEN = ("description", "title", "$schema", "$id", "id", "$defs", "definitions", "$comment", "examples", "default")


def candidates(schema: dict[str, Any], pointer: str, *, drop: bool) -> Iterator[Candidate]:
    """Words and schemas for a fault at a keyword's pointer. drop: also without the keyword, which allows more."""
    if not pointer:
        return
    for place in _upwards(schema, pointer):
        where, keyword = split(place)
        try:
            node = at(schema, where)
        except KeyError:
            continue
        if isinstance(node, dict):
            yield from _of_node(schema, where, node, keyword)
    where, keyword = split(pointer)
    if drop and isinstance(at(schema, where), dict):
        yield f"drop {keyword} at {where or 'the top'} and validate the answers after", without(schema, where, keyword)


def _upwards(schema: dict[str, Any], pointer: str) -> Iterator[str]:
    """The keyword, then each keyword that holds it and has branches: a fault in a branch may be the branching's."""
    yield pointer
    way = pointer
    while way.count("/") > 1:
        way = way.rpartition("/")[0]
        if split(way)[1] in BRANCHED:
            yield way


def _of_node(schema: dict[str, Any], where: str, node: dict[str, Any], keyword: str) -> Iterator[Candidate]:
    spot = where or "the top"
    if isinstance(node.get("required"), list):
        missing = [name for name in node["required"] if name not in (node.get("properties") or {})]
        if missing and not any(key in node for key in BRANCHED):
            properties = {**(node.get("properties") or {}), **{name: {} for name in missing}}
            words = f"spell the required {_names(missing)} in properties at {spot}"
            yield words, changed(schema, where, lambda old: {**old, "properties": properties})
    for key in ("anyOf", "oneOf"):
        if isinstance(node.get(key), list):
            beside = {name: value for name, value in node.items() if name != key and name not in _OPEN}
            if beside:
                yield _folded(schema, where, node, key=key, beside=beside)
    if isinstance(node.get("$ref"), str) and len(node.keys() - set(_OPEN)) > 1:
        target = Parts(schema).target(node["$ref"])
        if target and isinstance(at(schema, target), dict):
            beside = {key: value for key, value in node.items() if key != "$ref"}
            joined = merge(at(schema, target), beside)
            yield f"write out $ref at {spot}, with what stands beside it", changed(schema, where, lambda old: joined)
    if isinstance(node.get("allOf"), list) and all(isinstance(each, dict) for each in node["allOf"]):
        yield _joined(schema, where, node)
    if "oneOf" in node and "anyOf" not in node:
        made = changed(
            schema, where, lambda old: {("anyOf" if key == "oneOf" else key): value for key, value in old.items()}
        )
        yield f"write anyOf for oneOf at {spot}", made
    if node.get("format") in PATTERNS and "pattern" not in node:
        pattern = {"type": "string", "pattern": PATTERNS[node["format"]]}
        made = changed(schema, where, lambda old: {**{k: v for k, v in old.items() if k != "format"}, **pattern})
        yield f"write a pattern for the format {node['format']} at {spot}", made
    if keyword == "pattern" and isinstance(node.get("pattern"), str) and not node["pattern"].startswith("^"):
        pattern = {
            "pattern": f"^.*({node['pattern'].removesuffix('$')})" + ("$" if node["pattern"].endswith("$") else ".*$")
        }
        yield (
            f"anchor the pattern at {spot}: a pattern is found anywhere in a text",
            changed(schema, where, lambda old: {**old, **pattern}),
        )
    kinds = types_of(node)
    if "type" not in node and len(kinds) == 1 and "enum" not in node and "const" not in node:
        yield f'write "type": "{kinds[0]}" at {spot}', changed(schema, where, lambda old: {"type": kinds[0], **old})


def _folded(schema: dict[str, Any], where: str, node: dict[str, Any], *, key: str, beside: dict[str, Any]) -> Candidate:
    branches = [merge(beside, each) if isinstance(each, dict) else each for each in node[key]]
    kept = {name: value for name, value in node.items() if name in _OPEN}
    words = f"write {_names(list(beside))} into each branch of {key} at {where or 'the top'}"
    return words, changed(schema, where, lambda old: {**kept, key: branches})


def _joined(schema: dict[str, Any], where: str, node: dict[str, Any]) -> Candidate:
    made: dict[str, Any] = {key: value for key, value in node.items() if key != "allOf"}
    for each in node["allOf"]:
        made = merge(made, each)
    return f"write the branches of allOf at {where or 'the top'} as one", changed(schema, where, lambda old: made)


def _names(names: list[str]) -> str:
    return ", ".join(names[:4]) + (" …" if len(names) > 4 else "")
