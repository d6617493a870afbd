"""What counts as a number in an answer.

A number needs a digit. It may have a sign (where nothing but a blank, an opening bracket, a mark of emphasis or `=`,
`:` stands before it: the 5 of `10-5` is no -5), a currency sign on either side of the sign, thousands groups that are
groups (`1,234`; `1,2,3` is three numbers), one decimal point, an exponent, and a percent sign. Punctuation at its
edges is no part of it (`18.`, `42!`). Digits behind a letter (`H2O`) and dotted runs (`1.2.3`, `12.03.2024`) are no
numbers. Values are decimals: 29, 29.00 and $29 are equal, and 0.1 + 0.2 is no matter.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

_RUN = re.compile(
    r"(?:(?P<sign>[-+−])[ ]?)?(?:(?P<currency>[$€£¥])[ ]?(?P<inner>[-−])?)?(?P<body>[.]?\d[\d.,]*)"
    r"(?P<exponent>[eE][-+]?\d{1,6}(?![\w]))?(?P<percent>[ ]?%)?"
)
_START = re.compile(r"[-+−$€£¥.\d]")
"""What a run can begin with: looking for these alone skips the words between numbers quickly."""
_GROUPS = re.compile(r"\d{1,3}(,\d{3})+(\.\d+)?")
_PLAIN = re.compile(r"\d+(\.\d+)?|\.\d+")
_BEFORE_SIGN = " \t\r\n([{<=:*_`'\"~,;/|"
_NEGATIVE = "-−"


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """A number found in a text: its value without the percent sign, whether that sign was there, and its place."""

    value: Decimal
    percent: bool
    text: str
    start: int
    end: int


def _sign(*, text: str, match: re.Match[str]) -> int:
    """-1 where the match carries a sign that counts, else 1."""
    if match["inner"]:
        return -1
    if not match["sign"] or match["sign"] not in _NEGATIVE:
        return 1
    if text[match.end("sign")] == " ":
        return 1
    before = text[match.start("sign") - 1] if match.start("sign") else " "
    return -1 if before in _BEFORE_SIGN or before in "$€£¥" else 1


def _read_run(*, text: str, match: re.Match[str]) -> list[Number]:
    start = match.start("body")
    before = text[start - 1] if start else " "
    body = match["body"]
    if body.startswith(".") and (before == "." or before.isalnum()):
        body, start = body[1:], start + 1
    elif before.isalpha():
        return []
    sign = _sign(text=text, match=match)
    signed = bool(match["sign"] or match["inner"])
    first = start if start != match.start("body") or (signed and sign > 0) else match.start()
    trimmed = body.rstrip(".,")
    whole = len(trimmed) == len(body)
    if _GROUPS.fullmatch(trimmed) or _PLAIN.fullmatch(trimmed):
        exponent = (match["exponent"] or "") if whole else ""
        try:
            value = Decimal(trimmed.replace(",", "") + exponent)
        except InvalidOperation:
            return []
        percent = bool(match["percent"]) and whole
        end = match.end() if whole else start + len(trimmed)
        number = Number(
            value=value.copy_negate() if sign < 0 else value,
            percent=percent,
            text=text[first:end].strip(),
            start=first,
            end=end,
        )
        return [number]
    if "," not in trimmed:
        return []
    numbers: list[Number] = []
    at = start
    for part in trimmed.split(","):
        if _PLAIN.fullmatch(part):
            value = Decimal(part).copy_negate() if sign < 0 and at == start else Decimal(part)
            numbers.append(Number(value=value, percent=False, text=part, start=at, end=at + len(part)))
        at += len(part) + 1
    return numbers


def _runs(text: str) -> Iterator[re.Match[str]]:
    """What _RUN.finditer finds."""
    at = 0
    while start := _START.search(text, at):
        at = start.start()
        run = _RUN.match(text, at)
        if run is None:
            at += 1
        else:
            yield run
            at = run.end()


def find_numbers(text: str) -> list[Number]:
    """Every number in the text, from left to right."""
    return [number for run in _runs(text) for number in _read_run(text=text, match=run)]


def first_number(text: str) -> Number | None:
    """The first of find_numbers, without reading the others; None where there is none."""
    return next((number for run in _runs(text) for number in _read_run(text=text, match=run)), None)


def last_number(text: str) -> Number | None:
    """The last of find_numbers, without reading the others; None where there is none."""
    return next((numbers[-1] for run in reversed([*_runs(text)]) if (numbers := _read_run(text=text, match=run))), None)


def as_number(value: Any) -> Number | None:
    """A target or a whole answer as one number: an int, a float, a Decimal, or a text that holds one number and
    nothing else but punctuation. None for anything else (True is no number, nor is NaN)."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | float | Decimal):
        decimal = Decimal(str(value))
        if not decimal.is_finite():
            return None
        return Number(value=decimal, percent=False, text=str(value), start=0, end=len(str(value)))
    if not isinstance(value, str):
        return None
    numbers = find_numbers(value)
    if len(numbers) != 1:
        return None
    rest = value[: numbers[0].start] + value[numbers[0].end :]
    return None if any(character.isalnum() for character in rest) else numbers[0]


def json_number(value: Any) -> Decimal | None:
    """A JSON number as a decimal; None for a value that is none (a boolean, a text that looks like one)."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    decimal = Decimal(str(value))
    return decimal if decimal.is_finite() else None
