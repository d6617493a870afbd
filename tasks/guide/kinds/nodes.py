"""What a grammar over characters is made of: the sorts of node that a rule's body has."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

MOST_DEPTH = 200
"""How deep groups may stand in one another."""
MOST_REPEATS = 10_000
HEX = {"x": 2, "u": 4, "U": 8}
"""Digits of an escape, by its letter."""
LAST_CHARACTER = 0x10FFFF


class GrammarError(ValueError):
    """A text that is no grammar, or one that cannot be judged; the message says why, `line` where (1 is the first),
    `name` of which rule it speaks."""

    def __init__(self, message: str, *, line: int | None = None, name: str | None = None) -> None:
        super().__init__(message if line is None else f"line {line}: {message}")
        self.words = message
        self.name = name
        self.line = line


def escaped(letter: str, text: str, at: int) -> str:
    """The character whose hexadecimal digits stand at `at`, behind a letter of HEX. Raises GrammarError."""
    digits = text[at : at + HEX[letter]]
    if not re.fullmatch(rf"[0-9A-Fa-f]{{{HEX[letter]}}}", digits) or int(digits, 16) > LAST_CHARACTER:
        raise GrammarError(f"`\\{letter}` wants {HEX[letter]} hexadecimal digits of a character, not {digits!r}")
    return chr(int(digits, 16))


def check_times(least: int, most: int | None) -> None:
    """Raises GrammarError for a number of times that is never, or too much."""
    if most is not None and most < least:
        raise GrammarError(f"at least {least} and at most {most} times is never")
    if max(least, least if most is None else most) > MOST_REPEATS:
        raise GrammarError(f"more than {MOST_REPEATS:,} times is too much to be judged")


@dataclass(frozen=True, slots=True)
class Text:
    """A text as it stands."""

    text: str


@dataclass(frozen=True, slots=True)
class Chars:
    """One character out of some ranges of code points, both ends included."""

    ranges: tuple[tuple[int, int], ...]

    def without(self) -> "Chars":
        """Every other character."""
        gaps, begin = [], 0
        for low, high in sorted(self.ranges):
            if low > begin:
                gaps.append((begin, low - 1))
            begin = max(begin, high + 1)
        return Chars((*gaps, (begin, LAST_CHARACTER)) if begin <= LAST_CHARACTER else tuple(gaps))

    def has(self, code: int) -> bool:
        return any(low <= code <= high for low, high in self.ranges)


@dataclass(frozen=True, slots=True)
class Ref:
    """Another rule."""

    name: str


@dataclass(frozen=True, slots=True)
class Seq:
    """One after the other."""

    items: "tuple[Node, ...]"


@dataclass(frozen=True, slots=True)
class Alt:
    """One of them."""

    items: "tuple[Node, ...]"


@dataclass(frozen=True, slots=True)
class Repeat:
    """At least `least` times, at most `most` times; None: as often as one likes."""

    item: "Node"
    least: int
    most: int | None


Node = Text | Chars | Ref | Seq | Alt | Repeat
ANY = Chars(((0, LAST_CHARACTER),))


def refs(node: Node) -> Iterable[str]:
    """The names of the rules that a rule's body calls."""
    match node:
        case Ref(name):
            yield name
        case Seq(items) | Alt(items):
            for item in items:
                yield from refs(item)
        case Repeat(item):
            yield from refs(item)
