"""When a text or a number of an answer equals that of a target: what exact_match and extract_match share."""

from typing import Literal

from tasks.score.normalize import bare_words, squad
from tasks.score.numbers import Number

Normalize = Literal["squad", "words", "casefold", "strip"]
Percent = Literal["number", "fraction", "same"]


def common_form(text: str, *, normalize: Normalize) -> str:
    """The form in which two texts are compared."""
    if normalize == "squad":
        # where only articles are left, they are the answer: `(A)` must not equal an empty text
        return squad(text) or bare_words(text)
    if normalize == "words":
        return bare_words(text)
    return text.strip().casefold() if normalize == "casefold" else text.strip()


def equal_numbers(one: Number, two: Number, *, percent: Percent) -> bool:
    """Whether two numbers are equal as decimals; `percent` says what 20% is: 20, 0.2, or only equal to a percentage."""
    if percent == "same" and one.percent != two.percent:
        return False
    if percent == "fraction":
        values = [number.value.scaleb(-2) if number.percent else number.value for number in (one, two)]
        return values[0] == values[1]
    return one.value == two.value
