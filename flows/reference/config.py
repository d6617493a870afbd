"""docs/reference/config.md: every key of the kinds of file, from the models that read them."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel

from flows.reference.markdown import WRITTEN, code, paragraphs, table
from schemas.dataset import Dataset
from schemas.endpoint import EndpointEngine
from schemas.engine import VllmEngine
from schemas.experiment import ExperimentFile
from schemas.model import Model
from schemas.suite import Suite

FILES: dict[str, tuple[type[BaseModel], str]] = {
    "Experiment": (ExperimentFile, "`configs/experiments/<name>.yaml`, or any file that `assay run` is given."),
    "Dataset": (Dataset, "`configs/datasets/<name>.yaml`, or a file beside the experiment."),
    "Suite": (
        Suite,
        "`configs/suites/<name>.yaml`, or a file beside the experiment. `template` and each of `datasets` take "
        "the keys of a dataset.",
    ),
    "Model": (Model, "`configs/models/<name>.yaml`, or written out under an experiment's `model`."),
    "Engine": (VllmEngine, "`configs/engines/<name>.yaml`, or a block under an experiment's `engine`."),
    "Endpoint": (EndpointEngine, "The same of an engine that is a server: `kind: endpoint`."),
}
_WORDS = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "`true`, `false`",
    "object": "block",
    "null": "nothing",
}
_ELSEWHERE = {"model": "[Model](#model)", "engine": "[Engine](#engine)"}
"""Keys of an experiment that take a whole file's keys."""
_BOUNDS = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<", "minItems": "at least"}
_HEAD = f"""{WRITTEN}
# Every key

Six kinds of file, in YAML 1.2 (`off`, `on`, `yes` and `no` are words). An unknown key, a key that stands twice or a
value out of its bounds is refused with file, line and the nearest right one, before anything is loaded. A key is
written here with its path, as `--set` takes it: `--set engine.prefill.policy=off`. `[]` stands for each item of a
list. A name of a file or column is text.

`assay schema` prints the experiment's keys as a JSON Schema for editors.
"""


@dataclass(frozen=True, slots=True)
class Key:
    """A key with its path; default None where the key is required."""

    path: str
    type: str
    default: str | None
    bounds: str
    meaning: str


def config_page() -> str:
    """The whole page."""
    parts = [_HEAD]
    for title, (model, where) in FILES.items():
        parts.append(f"## {title}\n\n{where}\n")
        parts.append(keys_table(list(keys(model))))
    return "\n".join(parts)


def keys_table(found: list[Key]) -> str:
    """A table of keys."""
    return table(
        ("key", "type", "default", "bounds", "meaning"),
        (
            (code(key.path), key.type, "required" if key.default is None else key.default, key.bounds, key.meaning)
            for key in found
        ),
    )


def keys(model: type[BaseModel]) -> Iterator[Key]:
    """Every key of a model, those of the blocks below it after their own."""
    schema = model.model_json_schema(by_alias=True)
    yield from _block(schema, definitions=schema.get("$defs", {}), prefix="", seen=set())


def _block(schema: dict[str, Any], *, definitions: dict[str, Any], prefix: str, seen: set[str]) -> Iterator[Key]:
    """The keys of a block. seen: unions whose keys stand above already."""
    required = schema.get("required", [])
    for name, value in schema.get("properties", {}).items():
        path = f"{prefix}{name}"
        # A block that may stand alone or in a list is one block.
        refs = list(dict(_refs(value)).items())
        blocks = [definitions[_name(ref)] for ref, _ in refs]
        said = value.get("description") or " ".join(block.get("description", "") for block in blocks)
        default = None if name in required else _default(value)
        key = Key(path, _type(value), default, ", ".join(_bounds(value)), (paragraphs(said) or [""])[0])
        elsewhere = _ELSEWHERE.get(path) if "name" in schema["properties"] else None
        if len(blocks) > 1:
            together = ", ".join(sorted(_name(ref) for ref, _ in refs))
            elsewhere = f"`{name}`" if together in seen else elsewhere
            seen.add(together)
        if elsewhere:
            yield replace(key, meaning=f"{key.meaning} Its keys are those of {elsewhere}.")
            continue
        yield key
        if len(blocks) > 1:
            yield from _union(blocks, definitions=definitions, prefix=f"{path}.", seen=seen)
            continue
        for block, (_, inside) in zip(blocks, refs, strict=True):
            yield from _block(block, definitions=definitions, prefix=f"{path}{inside}.", seen=seen)


def _union(blocks: list[dict[str, Any]], *, definitions: dict[str, Any], prefix: str, seen: set[str]) -> Iterator[Key]:
    """The keys of blocks that differ by `kind`: a key that several of them have in one meaning stands once."""
    kinds = [block["properties"]["kind"]["const"] for block in blocks]
    told = "; ".join(f"`{kind}`: {block['description'].rstrip('.')}" for kind, block in zip(kinds, blocks, strict=True))
    yield Key(f"{prefix}kind", ", ".join(map(code, kinds)), None, "", f"{told}.")
    having: dict[Key, list[str]] = {}
    for kind, block in zip(kinds, blocks, strict=True):
        for key in _block(block, definitions=definitions, prefix=prefix, seen=seen):
            if key.path != f"{prefix}kind":
                having.setdefault(key, []).append(code(kind))
    for key, having_it in sorted(having.items(), key=lambda found: found[0].path):
        yield replace(key, meaning=f"Of {', '.join(having_it)}. {key.meaning}")


def _name(reference: str) -> str:
    return reference.rpartition("/")[2]


def _refs(value: dict[str, Any], *, inside: str = "") -> Iterator[tuple[str, str]]:
    """The blocks that a value may be, and what stands behind its name where they lie in a list or under names."""
    if "$ref" in value:
        yield value["$ref"], inside
    for part in (*value.get("anyOf", ()), *value.get("oneOf", ())):
        yield from _refs(part, inside=inside)
    for key, behind in (("items", "[]"), ("additionalProperties", ".NAME")):
        if isinstance(value.get(key), dict):
            yield from _refs(value[key], inside=behind)


def _type(value: dict[str, Any]) -> str:
    if "$ref" in value:
        return "block"
    for union in ("anyOf", "oneOf"):
        if union in value:
            return " or ".join(dict.fromkeys(_type(part) for part in value[union] if part.get("type") != "null"))
    if "const" in value:
        return code(str(value["const"]))
    if "enum" in value:
        return ", ".join(code(str(each)) for each in value["enum"])
    if value.get("type") == "array":
        return f"list of {_type(value['items'])}"
    return _WORDS[value["type"]]


def _default(value: dict[str, Any]) -> str:
    if "default" not in value:
        return "empty"
    default = value["default"]
    if default is None:
        return "–"
    if isinstance(default, dict):
        return "its keys below"
    return code(default if isinstance(default, str) else json.dumps(default))


def _bounds(value: dict[str, Any]) -> Iterator[str]:
    for part in (value, *value.get("anyOf", ()), *([value["items"]] if isinstance(value.get("items"), dict) else ())):
        yield from (f"{word} {part[name]:,}" for name, word in _BOUNDS.items() if name in part)
        if "pattern" in part:
            yield code(part["pattern"])
