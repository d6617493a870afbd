r"""Bringing a mathematical answer to one way of writing it, as text: what stays different after that is for the parser.

The rules are those that the answers of the MATH benchmark (Hendrycks et al. 2021) call for, in our own order: layout
(\left, \dfrac, thin spaces, $) goes, units, percent and degree signs go, thousands commas go. A unit is not compared:
`5 cm` and `5 m` are both 5.
"""

import re

_UNICODE = {
    "−": "-", "–": "-", "×": r"\times ", "·": r"\cdot ", "⋅": r"\cdot ", "÷": r"\div ", "π": r"\pi ",
    "∞": r"\infty ", "√": " sqrt ", "≤": r"\le ", "≥": r"\ge ", "≠": r"\ne ", "±": r"\pm ", "∓": r"\mp ",
    "∪": r"\cup ", "∈": r"\in ", "∅": r"\emptyset ", "≈": r"\approx ", "²": "^2", "³": "^3", "θ": r"\theta ",
    "½": r"\frac12", "¼": r"\frac14", "¾": r"\frac34", "\u00a0": " ", "\u202f": " ", "\u2009": " ", "°": r"^\circ ",
}  # fmt: skip
_TRANSLATION = str.maketrans(_UNICODE)

_SPACING = re.compile(r"\\\\|\\([!,;: ])|~")
_LAYOUT = re.compile(
    r"\\(?:left|right|[bB]ig{1,2}[lrm]?|displaystyle|textstyle|limits|nolimits|quad|qquad)(?![A-Za-z])"
)
_EMPTY_DELIMITER = re.compile(r"\\(?:left|right)\s*\.")
_FRACTIONS = re.compile(r"\\[dtc]frac(?![A-Za-z])")
_TEXT_COMMANDS = re.compile(
    r"\\(?:mbox|textrm|textnormal|textbf|textit|texttt|textsf|mathrm|mathbf|mathit|mathsf|rm|bf)\s*(?=\{)"
)
_NAMED = re.compile(r"\\operatorname\*?\s*\{\s*([A-Za-z]+)\s*\}")
_SIGNS = re.compile(r"\\?%|\\?\$|[€£]")
_DEGREES = re.compile(r"\^\s*\{\s*\\circ\s*\}|\^\s*\\circ(?![A-Za-z])|\\degree(?![A-Za-z])")
_ANGLE_TAKERS = re.compile(r"\\(?:sin|cos|tan|cot|sec|csc)(?![A-Za-z])")
_EXPLICIT_GROUPS = re.compile(r"(?<=\d)(?:,\\!\s*|\{,\}|\\[,;! ])(?=\d{3}(?!\d))")
_THOUSANDS = re.compile(r"(?<![\d.])\d{1,3}(?:,\d{3})+(?![\d])")
_SPACED_THOUSANDS = re.compile(r"-?\d{1,3}(?: \d{3})+(?:\.\d+)?")
_CONJUNCTION = re.compile(
    r",?\s*(?:\\text\s*\{\s*,?\s*(?:and|or)\s*\}|(?<![A-Za-z\\])(?:and|or)(?![A-Za-z]))\s*", re.IGNORECASE
)
_TEXT = re.compile(r"\\text\s*\{([^{}]*)\}")
_WHOLE_TEXT = re.compile(r"\\text\s*\{([^{}]*)\}")
_TRAILING_TEXT = re.compile(r"(?<=[\w)}\]!])\s*\\text\s*\{([^{}]*)\}\s*(?:\^\s*\{?\s*\d\s*\}?)?\s*$")
_UNITS = (
    "cm|mm|km|kg|mg|ml|mph|kph|ft|in|lb|oz|hr|min|sec|inch(?:es)?|foot|feet|yards?|miles?|met(?:er|re)s?|"
    "centimet(?:er|re)s?|kilomet(?:er|re)s?|millimet(?:er|re)s?|lit(?:er|re)s?|grams?|kilograms?|pounds?|ounces?|"
    "seconds?|minutes?|hours?|days?|weeks?|months?|years?|degrees?|radians?|units?|dollars?|cents?|percent(?:age)?|pct|people|"
    "points?|ways|students?|digits?"
)
_TRAILING_UNIT = re.compile(
    rf"(?<=[\d)}}])\s*(?:(?:square|cubic|sq\.?)\s+)?(?:{_UNITS})(?:\s*\^\s*\{{?\s*[23]\s*\}}?)?\s*$", re.IGNORECASE
)
_WRAPPERS = (("$$", "$$"), ("$", "$"), (r"\(", r"\)"), (r"\[", r"\]"), ("**", "**"))
_LOOSE_SPACE = re.compile(r"(?<!\d)\s+|\s+(?!\d)")
_PROSE = re.compile(r"(?i)[a-z0-9' ]*[a-z]{3}[a-z0-9' ]*|no")
_LETTER = re.compile(r"\(([A-Za-z])\)")


def _unwrapped(text: str) -> str:
    text = text.strip()
    for opening, closing in _WRAPPERS:
        inner = text[len(opening) : -len(closing)]
        if text.startswith(opening) and text.endswith(closing) and inner and opening not in inner:
            return _unwrapped(inner)
    return text


def _joined_thousands(text: str) -> str:
    """Thousands groups as one number. Inside brackets a comma separates, so only outside of them, and only where every
    comma of the text belongs to such a group: `1,234` is a number, `1,200,5` is a list."""
    if _SPACED_THOUSANDS.fullmatch(text):
        return text.replace(" ", "")
    if any(bracket in text for bracket in "([") or r"\{" in text:
        return text
    joined = _THOUSANDS.sub(lambda match: match.group().replace(",", ""), text)
    return text if "," in joined else joined


def _without_unit(text: str) -> str:
    shorter = _TRAILING_TEXT.sub("", text)
    return _TRAILING_UNIT.sub("", shorter).strip()


def normalize(text: str) -> str:
    r"""The answer in its common form: LaTeX without layout, units and signs; `\text{Friday}` alone is `Friday`."""
    text = _unwrapped(text.translate(_TRANSLATION)).rstrip(".").strip()
    if r"\begin" not in text:  # no row of a matrix ends here: the backslash was escaped once too often
        text = text.replace(r"\\", "\\")
    text = _EXPLICIT_GROUPS.sub("", text)
    text = _SPACING.sub(lambda match: match.group() if match.group() == r"\\" else " " * (match[1] != "!"), text)
    text = _LAYOUT.sub("", _EMPTY_DELIMITER.sub("", text))
    text = _FRACTIONS.sub(r"\\frac", text)
    text = _NAMED.sub(r"\\\1 ", _TEXT_COMMANDS.sub(r"\\text", text))
    # behind a sine it makes a difference what 45 is; an angle by itself is its number
    text = _DEGREES.sub(r" \\frac{\\pi}{180} " if _ANGLE_TAKERS.search(text) else "", text)
    text = _SIGNS.sub("", text).strip()
    whole = _WHOLE_TEXT.fullmatch(text)
    if whole:
        text = whole[1].strip()
    text = _without_unit(text)
    text = _CONJUNCTION.sub(", ", text)
    letter = _LETTER.fullmatch(text)
    text = letter[1] if letter else _joined_thousands(text)
    return text.rstrip(".").strip()


def bare(text: str) -> str:
    """A normalized answer for comparing letter by letter: no braces of \\text, no white space but between digits; the
    case of prose (a word of three letters or more) does not count."""
    text = _TEXT.sub(r"\1", text)
    text = _LOOSE_SPACE.sub("", text)
    return text.casefold() if _PROSE.fullmatch(text) else text
