"""Finding the JSON in a free answer: alone, in a fenced block, or among words."""

import json
import re
from dataclasses import dataclass
from typing import Literal

from tasks.guide.strict_json import NotJson, parse

FENCE = re.compile(r"```[ \t]*([A-Za-z0-9_+-]*)[^\S\n]*\n(.*?)(?:```|\Z)", re.DOTALL)
_DECODER = json.JSONDecoder()
_MOST_TRIES = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A JSON value inside an answer: text[start:end], and how it was found."""

    start: int
    end: int
    text: str
    how: Literal["whole", "fence", "balanced"]


def _balanced(*, text: str, start: int, end: int, opening: str) -> tuple[int, int] | None:
    """The first complete value within text[start:end] that begins with `opening`.

    A value that breaks off or is malformed is skipped with all that it holds up to the fault: an object inside a cut
    answer is not the answer.
    """
    at = text.find(opening, start, end)
    for _ in range(_MOST_TRIES):
        if at < 0:
            return None
        try:
            _, stop = _DECODER.raw_decode(text, at)
        except json.JSONDecodeError as error:
            at = text.find(opening, max(at + 1, error.pos), end)
            continue
        except (RecursionError, ValueError):
            return None
        if stop <= end:
            return at, stop
        at = text.find(opening, at + 1, end)
    return None


def _first_value(*, text: str, start: int, end: int, prefer: Literal["object", "array"]) -> tuple[int, int] | None:
    order = ("{", "[") if prefer == "object" else ("[", "{")
    for opening in order:
        span = _balanced(text=text, start=start, end=end, opening=opening)
        if span is not None:
            return span
    return None


def extract_json(text: str, *, prefer: Literal["object", "array"] = "object") -> Found | None:
    """The JSON value of a free answer, or None where there is none.

    In this order: the whole answer if it is JSON; the first fenced block that holds a JSON value (blocks marked json
    first; a block that is never closed counts to the end); the first complete object (with `prefer="array"`, the first
    complete array) anywhere; the first complete value of the other kind.
    """
    bare = text.strip()
    if bare:
        try:
            parse(bare)
        except NotJson:
            pass
        else:
            start = text.index(bare)
            return Found(start=start, end=start + len(bare), text=bare, how="whole")
    fences = sorted(FENCE.finditer(text), key=lambda match: match.group(1).lower() != "json")
    for fence in fences:
        span = _first_value(text=text, start=fence.start(2), end=fence.end(2), prefer=prefer)
        if span is not None:
            return Found(start=span[0], end=span[1], text=text[span[0] : span[1]], how="fence")
    span = _first_value(text=text, start=0, end=len(text), prefer=prefer)
    if span is None:
        return None
    return Found(start=span[0], end=span[1], text=text[span[0] : span[1]], how="balanced")
