"""The validator's word on instances of one schema, and which keyword it names."""

import json
from typing import Any

from schemas.sample import Grammar
from tasks.guide.backends.instances import compact
from tasks.guide.backends.parts import Parts
from tasks.guide.judge import build_validator
from tasks.guide.pointers import at, step
from tasks.guide.validate import validate
from tasks.guide.verdict import Verdict

_MOST_ERRORS = 20


class Verdicts:
    """Judges values by tasks.guide.validate; nothing here knows of any backend."""

    def __init__(self, schema: dict[str, Any], *, grammar_id: str) -> None:
        self.schema = schema
        self.parts = Parts(schema)
        self._grammar = Grammar(grammar_id=grammar_id, kind="json_schema", content=compact(schema))
        self._validator = build_validator(json.loads(self._grammar.content))
        self._verdicts: dict[str, Verdict] = {}
        self._keywords: dict[str, tuple[str, ...]] = {}

    def valid(self, value: Any) -> bool:
        """Whether the schema allows a value."""
        return self._verdict(value).valid

    def judged(self, value: Any) -> bool:
        """Whether the validator has a word on a value at all: it may have run out of time, or of steps."""
        return self._verdict(value).judged

    def _verdict(self, value: Any) -> Verdict:
        text = compact(value)
        if text not in self._verdicts:
            self._verdicts[text] = validate(self._grammar, text)
        return self._verdicts[text]

    def keywords(self, value: Any) -> tuple[str, ...]:
        """The JSON pointers of the keywords that a value breaks, as the validator names them; none for a valid one."""
        text = compact(value)
        if self.valid(value) or not self.judged(value):
            return ()
        if text not in self._keywords:
            self._keywords[text] = self._broken(value)
        return self._keywords[text]

    def _broken(self, value: Any) -> tuple[str, ...]:
        found: dict[str, None] = {}
        try:
            for number, error in enumerate(self._validator.iter_errors(value)):
                found[self._pointer(list(error.schema_path))] = None
                if number >= _MOST_ERRORS:
                    break
        except (ValueError, RecursionError):
            return ()
        return tuple(found)

    def _pointer(self, path: list[Any]) -> str:
        """Where the keyword stands in the schema: a path through `$ref` continues at what that refers to."""
        pointer, node = "", self.schema
        for number, key in enumerate(path):
            if (
                key == "$ref"
                and isinstance(node, dict)
                and isinstance(node.get("$ref"), str)
                and number < len(path) - 1
            ):
                target = self.parts.target(node["$ref"])
                if target is not None:
                    pointer, node = target, at(self.schema, target)
                    continue
            pointer, node = step(pointer, key), _child(node, key)
        return pointer


def _child(node: Any, key: Any) -> Any:
    try:
        return node[int(key)] if isinstance(node, list) else node[key]
    except (KeyError, IndexError, ValueError, TypeError):
        return None
