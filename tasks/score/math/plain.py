r"""A plain number read without sympy: most answers are one."""

import re
from fractions import Fraction

_MOST_DIGITS = 1000
_PLAIN = re.compile(r"(?P<sign>[-+]?)\s*(?P<number>\d+(?:\.\d+)?|\.\d+)")
_RATIO = re.compile(
    r"(?P<sign>[-+]?)\s*(?:\\frac\s*\{\s*(?P<top>-?\d+)\s*\}\s*\{\s*(?P<bottom>-?\d+)\s*\}"
    r"|\\frac\s*(?P<digit>\d)\s*(?P<below>\d)|(?P<left>\d+)\s*/\s*(?P<right>\d+))"
)


def as_fraction(text: str) -> Fraction | None:
    r"""The exact value of `-12`, `0.5`, `\frac{3}{4}`, `\frac34` or `3/4`; None for anything else, also 1/0."""
    if len(text) > _MOST_DIGITS:
        return None
    plain = _PLAIN.fullmatch(text)
    if plain:
        return Fraction(f"{plain['sign']}{plain['number']}")
    ratio = _RATIO.fullmatch(text)
    if ratio is None:
        return None
    top = int(ratio["top"] or ratio["digit"] or ratio["left"])
    bottom = int(ratio["bottom"] or ratio["below"] or ratio["right"])
    if bottom == 0:
        return None
    return Fraction(top, bottom) * (-1 if ratio["sign"] == "-" else 1)
