"""Arithmetic expressions, read by a parser of its own: whether a text is one.

Numbers, variables of one letter, `pi`, `+ - * / ^ **`, signs, parentheses, and functions with as many arguments as they
take. Blanks may stand between all of them. A sign binds less than a power, as on paper: -x^2 is -(x^2).
"""

import re
from collections.abc import Iterator

ONE = frozenset({"sqrt", "sin", "cos", "tan", "asin", "acos", "atan", "exp", "log", "ln", "abs", "floor", "ceil"})
SEVERAL = frozenset({"min", "max"})
_OPERAND = "a number, a variable or a parenthesis"
_TOKEN = re.compile(
    r"""[ \t]*(?:
        (?P<number>(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:e[-+]?[0-9]+)?)
      | (?P<call>[A-Za-z]+)[ \t]*\(
      | (?P<word>[A-Za-z]+)
      | (?P<sign>\*\*|[-+*/^(),])
    )""",
    re.VERBOSE,
)


class NotMath(ValueError):
    """The text is no expression; the message says why and where."""


def check(text: str) -> None:  # noqa: PLR0912 - one for each sort of token, before and after an operand
    """Raises NotMath for a text that is no arithmetic expression. However deep it is nested, it takes one pass."""
    inside: list[str] = []  # what each open parenthesis belongs to: a function's name, or nothing
    ended = False  # whether what was read so far may end there
    for kind, word, column in _tokens(text):
        if kind != "sign" or word == "(":
            if ended:
                raise NotMath(f"an operator is missing at column {column}")
            ended = kind != "sign" and not _opens(kind, word, column=column)
            if kind == "sign":
                inside.append("")
            elif not ended:
                inside.append(word)
        elif word in (")", ","):
            if not ended:
                raise NotMath(f"{_OPERAND} is missing at column {column}, not {word!r}")
            if not inside or (word == "," and inside[-1] not in SEVERAL):
                raise NotMath(f"`{')' if inside else '('}` is missing at column {column}, not {word!r}")
            ended = word == ")"
            if ended:
                inside.pop()
        elif ended or word == "-":
            ended = False
        else:
            raise NotMath(f"{_OPERAND} is missing at column {column}, not {word!r}")
    if not ended:
        raise NotMath(f"{_OPERAND} is missing at column {len(text) + 1}, where the text ends")
    if inside:
        raise NotMath(f"`)` is missing at column {len(text) + 1}, where the text ends")


def _tokens(text: str) -> Iterator[tuple[str, str, int]]:
    """(kind, text, column). A function's name is one with its parenthesis."""
    at, end = 0, len(text.rstrip(" \t"))
    while at < end:
        found = _TOKEN.match(text, at)
        if found is None:
            column = at + len(text[at:]) - len(text[at:].lstrip(" \t")) + 1
            raise NotMath(f"{text[column - 1]!r} at column {column} is no part of an expression")
        kind = str(found.lastgroup)
        at = found.end()
        yield kind, found.group(kind), found.start(kind) + 1


def _opens(kind: str, word: str, *, column: int) -> bool:
    """Whether a word is a function, whose parenthesis is part of the token. Raises NotMath for one that is nothing."""
    if kind == "call":
        if word not in ONE | SEVERAL:
            raise NotMath(f"there is no function {word!r}, at column {column}")
        return True
    if kind == "word" and word != "pi" and len(word) != 1:
        raise NotMath(f"a variable of one letter or a function is missing at column {column}, not {word!r}")
    return False
