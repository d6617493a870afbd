"""What counts as a number."""

from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.score.normalize import cut_at, squad
from tasks.score.numbers import as_number, find_numbers


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("10-5", ["10", "5"]),
        ("19 - 5 = 14", ["19", "5", "14"]),
        ("-$5 or $-5 or -5", ["-5", "-5", "-5"]),
        ("x=-3, (−7), **-2**", ["-3", "-7", "-2"]),
        ("20-$5", ["20", "5"]),
        ("- 5 eggs", ["5"]),
        ("42! 18. $29.00", ["42", "18", "29.00"]),
        ("... , $, -", []),
        ("1,2,3", ["1", "2", "3"]),
        ("1,234,567.50 and 12,34", ["1234567.50", "12", "34"]),
        ("1.2.3 and 12.03.2024", []),
        ("H2O", []),
        ("2nd, 5kg", ["2", "5"]),
        (".5 and -.5 and ...5 and No.5", ["0.5", "-0.5", "5", "5"]),
        ("1e5, 2.5E-3", ["1E+5", "0.0025"]),
        ("\\boxed{18}", ["18"]),
        ("٤٢", ["42"]),
        ("9" * 40, ["9" * 40]),
    ],
)
def test_find_numbers(text: str, values: list[str]) -> None:
    assert [number.value for number in find_numbers(text)] == [Decimal(value) for value in values]


@pytest.mark.parametrize("value", [True, None, float("nan"), float("inf"), "two", "3 eggs", "3 4", "", ",", [3]])
def test_no_number(value: object) -> None:
    assert as_number(value) is None


@settings(deadline=None, max_examples=50)
@given(st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-(10**12), max_value=10**12))
def test_a_written_number_is_read_back(value: Decimal) -> None:
    for text in (f"{value:f}", f"it is {value:f}.", f"{value:,f}!"):
        assert [number.value for number in find_numbers(text)] == [value]


@settings(deadline=None, max_examples=50)
@given(st.text(max_size=200))
def test_any_text_can_be_searched(text: str) -> None:
    for number in find_numbers(text):
        assert number.value.is_finite()
        assert 0 <= number.start < number.end <= len(text)
        assert any(character.isdecimal() for character in number.text)


def test_squad() -> None:
    assert squad(" The Cat, a dog & an ANT's  hat.") == "cat dog ants hat"
    assert squad("theatre") == "theatre"


def test_cut_at_the_first_of_the_markers() -> None:
    assert cut_at("one\nQ: two\nEnd", ["End", "Q:"]) == "one\n"
    assert cut_at("one", ["Q:"]) == "one"
