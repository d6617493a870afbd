"""Strings of a pattern or a format, by example."""

import random
import re
from functools import lru_cache
from typing import Any

import regex

FORMATS: dict[str, tuple[str, ...]] = {
    "date": ("2024-02-29", "1999-12-31"),
    "time": ("12:30:00Z", "23:59:59.5+01:00"),
    "date-time": ("2024-02-29T12:30:00Z", "1999-12-31T23:59:59.5+01:00"),
    "duration": ("P1D", "PT1H30M"),
    "email": ("a@example.com", "first.last@example.org"),
    "idn-email": ("a@example.com",),
    "hostname": ("example.com", "a-b.example.org"),
    "idn-hostname": ("example.com",),
    "ipv4": ("127.0.0.1", "192.168.10.254"),
    "ipv6": ("::1", "2001:db8::ff00:42:8329"),
    "uri": ("https://example.com/a?b=c#d", "urn:isbn:0451450523"),
    "uri-reference": ("/a/b", "https://example.com"),
    "iri": ("https://example.com/a",),
    "iri-reference": ("/a",),
    "uri-template": ("https://example.com/{id}",),
    "uuid": ("123e4567-e89b-12d3-a456-426614174000",),
    "json-pointer": ("/a/0",),
    "relative-json-pointer": ("1/a",),
    "regex": ("a+",),
}
"""Texts that are of a format."""

NOT_OF_A_FORMAT = ("x y", "", "13", "2024-13-45", "a@", "::::1::", "%zz", "~2")

PATTERNS: dict[str, str] = {
    "date": r"^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|1\d|2[0-8])$",
    "ipv4": r"^((25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)\.){3}(25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)$",
    "uuid": r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$",
    "email": r"^[A-Za-z0-9._+-]+@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+$",
}
"""Patterns that allow only texts of a format (not all of them)."""

_MOST = 12
_PRINTABLE = [chr(code) for code in range(0x20, 0x7F)]


@lru_cache(maxsize=4096)
def of_pattern(pattern: str) -> tuple[str, ...]:
    """A few texts in which the pattern is found, the shortest first; none where it is too strange for that. The same
    for the same pattern."""
    rng = random.Random(pattern)  # noqa: S311 - no secret
    try:
        parsed = re._parser.parse(pattern)  # type: ignore[attr-defined] - the only parser of patterns in the library
        compiled = regex.compile(pattern)
    except (re.error, regex.error, RecursionError, OverflowError):
        return ()
    found: dict[str, None] = {}
    for extra in (0, 0, 1, 3, 3):
        try:
            text = _written(parsed, rng, extra)
        except (_Strange, RecursionError):
            continue
        try:
            if compiled.search(text, timeout=0.5) is not None:
                found[text] = None
        except TimeoutError:
            return ()
    return tuple(sorted(found, key=lambda text: (len(text), text))[:_MOST])


class _Strange(Exception):
    """A part of a pattern that no text is written for."""


def _written(parsed: Any, rng: random.Random, extra: int) -> str:
    return "".join(_part(str(kind), value, rng, extra) for kind, value in parsed)


def _part(kind: str, value: Any, rng: random.Random, extra: int) -> str:  # noqa: PLR0911 - one for each kind of part
    if kind == "LITERAL":
        return chr(value)
    if kind == "NOT_LITERAL":
        return next(c for c in ("a", "b") if ord(c) != value)
    if kind == "ANY":
        return rng.choice("ab1")
    if kind == "IN":
        return _of_class(value, rng)
    if kind == "BRANCH":
        return _written(rng.choice(value[1]), rng, extra)
    if kind == "SUBPATTERN":
        return _written(value[3], rng, extra)
    if kind in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
        low, high, inner = value
        if low > 2_000:
            raise _Strange
        times = min(int(high), low + rng.randint(0, extra))
        return "".join(_written(inner, rng, extra) for _ in range(times))
    if kind in ("AT", "ASSERT_NOT", "ASSERT"):
        return ""
    if kind == "ATOMIC_GROUP":
        return _written(value, rng, extra)
    raise _Strange


def _of_class(items: Any, rng: random.Random) -> str:
    negated = bool(items) and str(items[0][0]) == "NEGATE"
    candidates: list[str] = []
    for kind, value in items[1:] if negated else items:
        if str(kind) == "LITERAL":
            candidates.append(chr(value))
        elif str(kind) == "RANGE":
            low, high = value
            candidates.extend(chr(code) for code in {low, high, rng.randint(low, high)})
        elif str(kind) == "CATEGORY":
            word = str(value)
            test = {"DIGIT": str.isdigit, "SPACE": str.isspace, "WORD": lambda c: c.isalnum() or c == "_"}[
                word.rpartition("_")[2]
            ]
            candidates.extend(c for c in _PRINTABLE if bool(test(c)) != ("NOT" in word))
    if negated:
        candidates = [c for c in _PRINTABLE if c not in candidates]
    if not candidates:
        raise _Strange
    return rng.choice(sorted(candidates))
