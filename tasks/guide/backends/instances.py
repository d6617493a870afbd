"""Values of a JSON schema as the texts that a backend may write them as.

Validity in JSON depends on neither the order of keys nor on white space, but grammars fix both: most backends take the
keys only in the order of `properties`. So a value counts as accepted if one of its texts is, and which one is said.
"""

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, permutations, product
from typing import Any, Literal

from tasks.guide.backends.answers import Compiled, Match
from tasks.guide.backends.parts import Part, Parts
from tasks.guide.backends.session import Backends

_HALF = re.compile("[\ud800-\udfff]")

Form = Literal["given", "ordered", "branches first", "whole numbers", "escaped"]
IN_ANOTHER_ORDER: tuple[Form, ...] = ("ordered", "branches first")


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """Whether a backend takes a value.

    accepted: None where no text of it could be asked (`match` says why). form: which text it was: `given` (its own
    order of keys), `ordered` (the schema's), `branches first` (what a node refers to or branches into before its own),
    `whole numbers` (1.0 written as 1), `escaped` (characters beyond ASCII as
    their escapes). text: that one, or the last that was refused. match: of that text."""

    accepted: bool | None
    form: Form | None
    text: str
    match: Match


def texts(value: Any, *, parts: Parts) -> Iterator[tuple[Form, str]]:
    """The texts that a value may be written as, the likeliest first, each once."""
    seen: set[str] = set()
    ordered = in_order(value, parts=parts)
    whole = _whole(ordered)
    forms: list[tuple[Form, str]] = [
        ("given", compact(value)),
        ("ordered", compact(ordered)),
        ("branches first", compact(in_order(value, parts=parts, branches_first=True))),
        ("whole numbers", compact(whole)),
        ("escaped", compact(whole, ascii_only=True)),
    ]
    for form, text in forms:
        if text not in seen:
            seen.add(text)
            yield form, text


def take(
    backends: Backends, compiled: Compiled, *, value: Any, parts: Parts, masks: bool = False, timeout_s: float = 10.0
) -> Taken:
    """Asks the backend for each text of `value` until one is accepted, or none is left."""
    last: Taken | None = None
    for form, text in texts(value, parts=parts):
        match = backends.match(compiled, text=text, masks=masks, timeout_s=timeout_s)
        if match.accepted:
            return Taken(accepted=True, form=form, text=text, match=match)
        if last is None or last.accepted is not None:
            last = Taken(accepted=match.accepted, form=None, text=text, match=match)
    assert last is not None  # noqa: S101 - there is always the given text
    return last


def compact(value: Any, *, ascii_only: bool = False) -> str:
    """JSON without white space. Half a surrogate pair, which is no character, is written as its escape."""
    text = json.dumps(value, ensure_ascii=ascii_only, separators=(",", ":"))
    if ascii_only:
        return text.replace("\x7f", "\\u007f")
    return _HALF.sub(lambda half: f"\\u{ord(half[0]):04x}", text)


def in_order(value: Any, *, parts: Parts, branches_first: bool = False) -> Any:
    """The value with each object's keys as the schema lists them: its properties, then required keys that it does not
    list, then the others as they come. branches_first: the keys of what a node refers to or branches into come before
    its own."""
    speaking = parts.of(Part(pointer="", node=parts.schema), value)
    return _ordered(value, speaking, parts, branches_first)


def orders(value: Any, *, most: int = 200) -> Iterator[Any]:
    """The value with its objects' keys in every order, as far as `most` allows."""
    yield from islice(_orders(value), most)


def _orders(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for names in permutations(value):
            for inner in product(*(list(islice(_orders(value[name]), 24)) for name in names)):
                yield dict(zip(names, inner, strict=True))
    elif isinstance(value, list):
        for items in product(*(list(islice(_orders(item), 24)) for item in value)):
            yield list(items)
    else:
        yield value


def _ordered(value: Any, speaking: list[Part], parts: Parts, branches_first: bool) -> Any:
    if isinstance(value, list):
        return [
            _ordered(item, parts.below(speaking, value, index), parts, branches_first)
            for index, item in enumerate(value)
        ]
    if not isinstance(value, dict):
        return value
    names: dict[str, None] = {}
    for key in ("properties", "required"):
        for part in [*speaking[1:], *speaking[:1]] if branches_first else speaking:
            listed = part.node.get(key)
            if isinstance(listed, dict | list):
                names |= dict.fromkeys(name for name in listed if isinstance(name, str) and name in value)
    names |= dict.fromkeys(value)
    return {name: _ordered(value[name], parts.below(speaking, value, name), parts, branches_first) for name in names}


def _whole(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _whole(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_whole(item) for item in value]
    if isinstance(value, float) and math.isfinite(value) and value.is_integer():
        return int(value)
    return value
