"""A Lark grammar cut into its words, and the terminals that `%import common` brings."""

import re
from dataclasses import dataclass

from tasks.guide.kinds.nodes import GrammarError

_INT = r"[0-9]+"
_DECIMAL = rf"({_INT}\.({_INT})?|\.{_INT})"
_FLOAT = rf"({_INT}[eE][+-]?{_INT}|{_DECIMAL}([eE][+-]?{_INT})?)"
COMMON = {
    "DIGIT": "[0-9]",
    "HEXDIGIT": "[0-9a-fA-F]",
    "INT": _INT,
    "SIGNED_INT": rf"[+-]?{_INT}",
    "DECIMAL": _DECIMAL,
    "FLOAT": _FLOAT,
    "SIGNED_FLOAT": rf"[+-]?{_FLOAT}",
    "NUMBER": rf"({_FLOAT}|{_INT})",
    "SIGNED_NUMBER": rf"[+-]?({_FLOAT}|{_INT})",
    "ESCAPED_STRING": r'"(\\.|[^"\\\n])*"',
    "LCASE_LETTER": "[a-z]",
    "UCASE_LETTER": "[A-Z]",
    "LETTER": "[A-Za-z]",
    "WORD": "[A-Za-z]+",
    "CNAME": "[_A-Za-z][_A-Za-z0-9]*",
    "WS_INLINE": r"[ \t]+",
    "WS": r"[ \t\f\r\n]+",
    "CR": r"\r",
    "LF": r"\n",
    "NEWLINE": r"(\r?\n)+",
}
"""What `%import common.NAME` brings."""

_TOKEN = re.compile(
    r"""
    (?P<comment>(//|\#)[^\n]*)
  | (?P<newline>\r?\n)
  | (?P<blank>[ \t\f]+)
  | (?P<string>"(\\.|[^"\\\n])*"i?)
  | (?P<pattern>/(?!/)(\\.|\[(\\.|[^\]\\\n])*\]|[^/\\\n])+/[a-z]*)
  | (?P<directive>%[a-z]+)
  | (?P<special><[^>\n]*>)
  | (?P<arrow>->)
  | (?P<dots>\.\.)
  | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<number>[0-9]+)
  | (?P<sign>[-:|()\[\]{}*+?,~&!.=;@^$])
    """,
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Piece:
    """A word, what sort it is, and its line."""

    kind: str
    text: str
    line: int


def pieces(text: str) -> list[Piece]:
    """The words of a grammar, without blanks and comments; the last one is the end. Raises GrammarError."""
    found, at, line = [], 0, 1
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise GrammarError(f"{text[at]!r} cannot stand here", line=line)
        kind = str(match.lastgroup)
        if kind not in ("comment", "blank"):
            found.append(Piece(kind, match.group(), line))
        line += match.group().count("\n")
        at = match.end()
    return [*found, Piece("end", "", line)]
