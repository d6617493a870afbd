r"""Cutting a normalized answer into tokens. What is not in these lists is not read: no name is ever looked up."""

import re
from dataclasses import dataclass

from tasks.score.math.tree import Unreadable

FUNCTIONS = {
    "sin", "cos", "tan", "cot", "sec", "csc", "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh",
    "ln", "log", "exp", "sqrt", "frac", "binom",
}  # fmt: skip
_ALIASES = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "lg": "log", "dbinom": "binom", "tbinom": "binom"}
CONSTANTS = {"pi": "pi", "infty": "infinity", "infinity": "infinity", "inf": "infinity", "oo": "infinity"}
GREEK = {
    "alpha", "beta", "gamma", "delta", "epsilon", "varepsilon", "zeta", "eta", "theta", "kappa", "lambda", "mu", "nu",
    "xi", "rho", "sigma", "tau", "phi", "varphi", "chi", "psi", "omega", "Gamma", "Delta", "Theta", "Lambda", "Sigma",
    "Phi", "Psi", "Omega", "ell",
}  # fmt: skip
_OPERATORS = {
    "times": "*", "cdot": "*", "ast": "*", "div": "/", "pm": "±", "mp": "∓", "cup": "∪", "in": "∈", "le": "≤",
    "leq": "≤", "leqslant": "≤", "ge": "≥", "geq": "≥", "geqslant": "≥", "lt": "<", "gt": ">", "ne": "≠", "neq": "≠",
    "approx": "≈", "lbrace": r"\{", "rbrace": r"\}", "lvert": "|", "rvert": "|", "vert": "|", "mid": "|",
    "lfloor": "lfloor", "rfloor": "rfloor", "lceil": "lceil", "rceil": "rceil", "langle": "(", "rangle": ")",
    "emptyset": "∅", "varnothing": "∅",
}  # fmt: skip
_PLAIN = {"**": "^", "<=": "≤", ">=": "≥", "!=": "≠", ";": ","}
_LONGEST_WORD = 3

_TOKEN = re.compile(
    r"(?P<space>\s+)"
    r"|(?P<number>\d+(?:\.\d+)?|\.\d+)"
    r"|\\text\s*\{(?P<text>[^{}]*)\}"
    r"|\\mathbb\s*\{?\s*(?P<blackboard>[A-Z])\s*\}?"
    r"|\\begin\s*\{(?P<begin>[A-Za-z]+\*?)\}(?:\s*\{[lcr|\s]*\})?"
    r"|\\end\s*\{(?P<end>[A-Za-z]+\*?)\}"
    r"|\\(?P<command>[A-Za-z]+)"
    r"|(?P<escaped>\\[\\{}|])"
    r"|(?P<word>[A-Za-z]+)"
    r"|(?P<symbol>\*\*|<=|>=|!=|[-+*/^_!=<>(),;|\[\]{}&])"
)


@dataclass(frozen=True, slots=True)
class Token:
    """kind: number, name, function, text, begin, end, or op; text: what it is; plain: written without a backslash."""

    kind: str
    text: str
    plain: bool = False


def _command(name: str) -> Token:
    name = _ALIASES.get(name, name)
    if name in FUNCTIONS:
        return Token("function", name)
    if name in CONSTANTS:
        return Token("name", CONSTANTS[name])
    if name in GREEK:
        return Token("name", name)
    if name in _OPERATORS:
        return Token("op", _OPERATORS[name])
    raise Unreadable(f"\\{name} is not read")


def _word(word: str) -> list[Token]:
    """A known name, or the letters of a short product as `abc`; a longer word is prose."""
    known = _ALIASES.get(word.lower(), word.lower())
    if known in FUNCTIONS - {"frac"}:
        return [Token("function", known, plain=True)]
    if known in CONSTANTS and len(word) > 1:
        return [Token("name", CONSTANTS[known])]
    if word in GREEK:
        return [Token("name", word)]
    if len(word) > _LONGEST_WORD:
        raise Unreadable(f"the word {word!r} is not read")
    return [Token("name", letter) for letter in word]


def tokens(text: str) -> list[Token]:
    """The tokens of a normalized answer. Raises Unreadable at the first thing that is none."""
    found: list[Token] = []
    place = 0
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            raise Unreadable(f"{text[place]!r} is not read")
        place = match.end()
        kind, value = match.lastgroup, match[match.lastgroup or 0]
        if kind == "command":
            found.append(_command(value))
        elif kind == "word":
            found += _word(value)
        elif kind in ("symbol", "escaped"):
            found.append(Token("op", _PLAIN.get(value, "|" if value == r"\|" else value)))
        elif kind == "blackboard":
            found.append(Token("name", f"blackboard_{value}"))
        elif kind != "space":
            found.append(Token(str(kind), value))
    return found
