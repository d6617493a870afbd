"""Writes the shipped corpus of schemas.

python -m configs.corpora.make                 writes configs/corpora/data/faults.jsonl
python -m configs.corpora.make --check         writes nothing and says whether the file equals what this makes
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

FILE = Path(__file__).parent / "data" / "faults.jsonl"
Schema = dict[str, Any]


def _object(**properties: Any) -> Schema:
    """An object with these properties, all of them required, and no other."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


_TEXT: Schema = {"type": "string"}
_WHOLE: Schema = {"type": "integer"}
# fmt: off
CASES: list[tuple[str, str, Schema, list[Any], list[Any]]] = [
    # split, name, schema, valid, invalid
    ("types", "a flat object", _object(x=_WHOLE, name=_TEXT), [{"x": 1, "name": "b"}, {"x": -20, "name": ""}],
     [{"x": 1}, {"x": 1.5, "name": "b"}, {"x": "1", "name": "b"}, {"x": 1, "name": "b", "z": 1}, []]),
    ("types", "nested", _object(a=_object(b=_object(c={"type": "boolean"}))), [{"a": {"b": {"c": True}}}],
     [{"a": {"b": {"c": 1}}}, {"a": {"b": {}}}, {"a": {}}]),
    ("types", "several types", {"type": ["string", "null", "integer"]}, ["a", None, 3], [1.5, True, {}, []]),
    ("types", "numbers", {"type": "number"}, [0, -1.5, 1e10, 3], ["1", None, True]),
    ("types", "enum", {"enum": ["red", "green", 3, None]}, ["red", 3, None], ["blue", 4, "3"]),
    ("types", "const", {"const": {"a": [1, 2]}}, [{"a": [1, 2]}], [{"a": [2, 1]}, {"a": [1, 2, 3]}, {}]),
    ("types", "everything", {}, [1, "a", {"b": []}, None], []),
    ("types", "nothing extra in a list", {"type": "array", "items": _WHOLE}, [[], [1], [1, 2, 3]],
     [["a"], [1, "a"], {}]),
    ("required", "listed among the properties",
     {"type": "object", "properties": {"a": _WHOLE, "b": _WHOLE}, "required": ["a"]},
     [{"a": 1}, {"a": 1, "b": 2}], [{}, {"b": 2}]),
    ("required", "not among the properties", {"type": "object", "required": ["a"]},
     [{"a": 1}, {"a": "x"}, {"a": 1, "b": 2}], [{}, {"b": 1}]),
    ("required", "beside other properties", {"type": "object", "properties": {"a": _WHOLE}, "required": ["a", "b"]},
     [{"a": 1, "b": 2}], [{"a": 1}, {"b": 2}]),
    ("required", "without a type", {"properties": {"a": _WHOLE}, "required": ["a"]},
     [{"a": 1}, 3, "x"], [{}, {"a": "x"}]),
    ("required", "dependentRequired",
     {"type": "object", "properties": {"a": _WHOLE, "b": _WHOLE}, "dependentRequired": {"a": ["b"]}},
     [{}, {"b": 1}, {"a": 1, "b": 1}], [{"a": 1}]),
    ("combined", "siblings of anyOf",
     {"type": "object", "properties": {"a": _WHOLE}, "required": ["a"], "anyOf": [_object(a=_WHOLE, b=_TEXT)]},
     [{"a": 1, "b": "x"}], [{"a": "1", "b": "x"}, {"a": 1}, {"b": "x"}]),
    ("combined", "siblings of oneOf",
     {"type": "object", "properties": {"a": _WHOLE, "b": _TEXT}, "required": ["a"],
      "oneOf": [{"required": ["b"]}, {"properties": {"a": {"maximum": 0}}}]},
     [{"a": 1, "b": "x"}, {"a": -1}], [{"a": 1}, {"b": "x"}, {"a": -1, "b": "x"}]),
    ("combined", "siblings of allOf",
     {"type": "object", "properties": {"a": _WHOLE}, "required": ["a"],
      "allOf": [{"type": "object", "properties": {"b": _TEXT}, "required": ["b"]}]},
     [{"a": 1, "b": "x"}], [{"a": 1}, {"b": "x"}, {"a": "x", "b": "x"}]),
    ("combined", "allOf of two objects",
     {"allOf": [{"type": "object", "properties": {"a": _WHOLE}, "required": ["a"]},
                {"type": "object", "properties": {"b": _WHOLE}, "required": ["b"]}]},
     [{"a": 1, "b": 2}], [{"a": 1}, {"b": 2}, {"a": "x", "b": 2}]),
    ("combined", "anyOf of scalars", {"anyOf": [_WHOLE, {"type": "boolean"}]}, [1, True], ["x", 1.5, None]),
    ("combined", "oneOf that overlaps", {"oneOf": [_WHOLE, {"type": "number"}]}, [1.5], [1, "x"]),
    ("combined", "not", {"type": "string", "not": {"const": "no"}}, ["yes", ""], ["no", 1]),
    ("combined", "if, then, else",
     {"type": "object", "properties": {"kind": {"enum": ["a", "b"]}, "n": _WHOLE}, "required": ["kind"],
      "if": {"properties": {"kind": {"const": "a"}}}, "then": {"required": ["n"]}},
     [{"kind": "b"}, {"kind": "a", "n": 1}], [{"kind": "a"}, {"n": 1}]),
    ("references", "$defs", {"$ref": "#/$defs/node", "$defs": {"node": _object(v=_WHOLE)}}, [{"v": 1}],
     [{"v": "1"}, {}]),
    ("references", "recursive",
     {"$ref": "#/$defs/tree", "$defs": {"tree": {
         "type": "object", "properties": {"v": _WHOLE, "kids": {"type": "array", "items": {"$ref": "#/$defs/tree"}}},
         "required": ["v"], "additionalProperties": False}}},
     [{"v": 1}, {"v": 1, "kids": [{"v": 2, "kids": []}]}], [{"kids": []}, {"v": 1, "kids": [{}]}]),
    ("references", "siblings of $ref",
     {"type": "object", "properties": {"a": _WHOLE}, "required": ["a"], "$ref": "#/$defs/more",
      "$defs": {"more": {"properties": {"b": _TEXT}, "required": ["b"]}}},
     [{"a": 1, "b": "x"}], [{"a": 1}, {"b": "x"}]),
    ("keys", "additionalProperties of a type", {"type": "object", "additionalProperties": _WHOLE},
     [{}, {"a": 1}, {"a": 1, "b": 2}], [{"a": "x"}, {"a": 1, "b": None}]),
    ("keys", "patternProperties",
     {"type": "object", "patternProperties": {"^x-": _TEXT}, "additionalProperties": False},
     [{}, {"x-a": "1"}, {"x-": "\""}], [{"a": "1"}, {"x-a": 1}]),
    ("keys", "patternProperties beside properties",
     {"type": "object", "properties": {"id": _WHOLE}, "patternProperties": {"^n_": _WHOLE}, "required": ["id"],
      "additionalProperties": False},
     [{"id": 1}, {"id": 1, "n_a": 2}], [{"id": 1, "m": 2}, {"n_a": 2}, {"id": 1, "n_a": "x"}]),
    ("keys", "propertyNames", {"type": "object", "propertyNames": {"enum": ["a", "b"]}, "additionalProperties": _WHOLE},
     [{}, {"a": 1}], [{"c": 1}, {"a": "x"}]),
    ("keys", "minProperties", {"type": "object", "additionalProperties": _WHOLE, "minProperties": 2},
     [{"a": 1, "b": 2}, {"a": 1, "b": 2, "c": 3}], [{}, {"a": 1}]),
    ("keys", "maxProperties", {"type": "object", "additionalProperties": _WHOLE, "maxProperties": 1},
     [{}, {"a": 1}], [{"a": 1, "b": 2}]),
    ("keys", "keys in another order", _object(b=_WHOLE, a=_WHOLE), [{"b": 1, "a": 2}, {"a": 2, "b": 1}], [{"a": 2}]),
    ("lists", "minItems and maxItems", {"type": "array", "items": _WHOLE, "minItems": 1, "maxItems": 3},
     [[1], [1, 2, 3]], [[], [1, 2, 3, 4]]),
    ("lists", "prefixItems", {"type": "array", "prefixItems": [_WHOLE, _TEXT], "items": False, "minItems": 2},
     [[1, "a"]], [[1], ["a", 1], [1, "a", 2]]),
    ("lists", "uniqueItems", {"type": "array", "items": _WHOLE, "uniqueItems": True}, [[], [1, 2]], [[1, 1]]),
    ("lists", "uniqueItems without a type", {"uniqueItems": True}, [[1, 2], 3], [[1, 1]]),
    ("lists", "contains", {"type": "array", "contains": {"const": 1}}, [[1], [2, 1]], [[], [2]]),
    ("numbers", "minimum and maximum", {"type": "integer", "minimum": -5, "maximum": 12}, [-5, 0, 12], [-6, 13, 100]),
    ("numbers", "exclusive bounds", {"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 10}, [1, 9],
     [0, 10, -1]),
    ("numbers", "bounds of a number", {"type": "number", "minimum": 0.5, "maximum": 1.5}, [0.5, 1, 1.25],
     [0.4, 1.6, -1]),
    ("numbers", "multipleOf", {"type": "integer", "multipleOf": 5}, [0, 5, -5, 10], [1, 7]),
    ("numbers", "multipleOf of a fraction", {"type": "number", "multipleOf": 0.5}, [0, 1.5, 2], [0.3]),
    ("numbers", "a bound without a type", {"minimum": 3}, [3, "x", None], [2]),
    ("texts", "maxLength", _object(s={"type": "string", "maxLength": 5}), [{"s": ""}, {"s": "abcde"}],
     [{"s": "abcdef"}]),
    ("texts", "minLength", {"type": "string", "minLength": 2}, ["ab", "abc"], ["", "a"]),
    ("texts", "a long maxLength", {"type": "string", "maxLength": 300}, ["", "a" * 300], ["a" * 301]),
    ("texts", "pattern", {"type": "string", "pattern": "^[A-Z]{2}[0-9]{3}$"}, ["AB123"], ["ab123", "AB12", "AB1234"]),
    ("texts", "a pattern without anchors", {"type": "string", "pattern": "b+"}, ["b", "abbc"], ["", "a"]),
    ("texts", "pattern and maxLength", {"type": "string", "pattern": "^a*$", "maxLength": 3}, ["", "aaa"],
     ["aaaa", "b"]),
    ("texts", "date", {"type": "string", "format": "date"}, ["2024-02-29"], ["2024-13-01", "29 Feb", ""]),
    ("texts", "date-time", {"type": "string", "format": "date-time"}, ["2024-02-29T10:00:00Z"],
     ["2024-02-29", "2024-02-29T25:00:00Z"]),
    ("texts", "uuid", {"type": "string", "format": "uuid"}, ["123e4567-e89b-12d3-a456-426614174000"], ["123e4567", ""]),
    ("texts", "email", {"type": "string", "format": "email"}, ["a@example.org"], ["a", ""]),
    ("texts", "escapes", _object(s=_TEXT), [{"s": "\"\\/\n\t"}, {"s": "Grüße, 世界 🙂"}], [{"s": None}]),
    ("real", "an order",
     _object(kind={"enum": ["order", "invoice"]}, date={"type": "string", "format": "date"},
             customer=_object(name=_TEXT, city=_TEXT),
             items={"type": "array", "minItems": 1, "items": _object(name=_TEXT, quantity={**_WHOLE, "minimum": 1})},
             total={"type": "number", "minimum": 0}, note={"anyOf": [_TEXT, {"type": "null"}]}),
     [{"kind": "order", "date": "2024-05-05", "customer": {"name": "A", "city": "B"},
       "items": [{"name": "rug", "quantity": 1}], "total": 70.5, "note": None}],
     [{"kind": "order", "date": "2024-05-05", "customer": {"name": "A", "city": "B"}, "items": [], "total": 1,
       "note": None},
      {"kind": "offer", "date": "2024-05-05", "customer": {"name": "A", "city": "B"},
       "items": [{"name": "rug", "quantity": 1}], "total": 1, "note": ""},
      {"kind": "order", "date": "2024-05-05", "customer": {"name": "A", "city": "B"},
       "items": [{"name": "rug", "quantity": 0}], "total": 1, "note": ""}]),
]
# fmt: on


def content() -> bytes:
    """The whole JSON Lines file: one schema a line, UTF-8, line feeds."""
    lines = []
    for split, name, schema, valid, invalid in CASES:
        tests = [{"data": data, "valid": True} for data in valid] + [{"data": data, "valid": False} for data in invalid]
        lines.append({"split": split, "name": name, "schema": schema, "tests": tests})
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines).encode()


def main() -> int:
    """Writes or checks the file; gives the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    if parser.parse_args().check:
        same = FILE.is_file() and FILE.read_bytes() == content()
        sys.stdout.write(f"{FILE.name}: {'as made' if same else 'differs'}\n")
        return 0 if same else 1
    FILE.parent.mkdir(parents=True, exist_ok=True)
    FILE.write_bytes(content())
    sys.stdout.write(f"{FILE.name}: {len(CASES)} schemas\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
