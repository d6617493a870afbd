"""Text that nobody vouches for, and numbers as people read them."""

import pytest
from markupsafe import Markup

from tasks.report import numbers
from tasks.report.text import plain, shortened, visible


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("a\x00b", "a⟨NUL⟩b"),
        ("\x1b[31m", "⟨ESC⟩[31m"),
        ("\u202egnp.exe", "⟨U+202E⟩gnp.exe"),
        ("x\ud83dy", "x⟨U+D83D⟩y"),
        ("x\u2028y", "x⟨U+2028⟩y"),
        ("\U000e0041", "⟨U+E0041⟩"),
        ("\x00" * 1000, "⟨NUL⟩×1000"),
        ("\x00\x01\x00", "⟨NUL⟩⟨SOH⟩⟨NUL⟩"),
    ],
)
def test_what_cannot_be_seen_is_shown_by_a_sign(raw: str, shown: str) -> None:
    assert plain(raw) == shown
    plain(raw).encode("utf-8")
    assert visible(raw).striptags() == shown


@pytest.mark.parametrize("kept", ["two\nlines\tand a tab", "😀 👩‍💻 שלום", "naïve – “quotes”"])
def test_ordinary_text_stays_as_it_is(kept: str) -> None:
    assert plain(kept) == kept
    assert str(visible(kept)) == kept


def test_markup_is_escaped_around_and_between_the_signs() -> None:
    assert visible("<b>\x00</b>") == Markup('&lt;b&gt;<b class="c">⟨NUL⟩</b>&lt;/b&gt;')


def test_a_long_text_keeps_its_head_and_tail_and_says_what_is_missing() -> None:
    head, left_out, tail = shortened("a" * 900 + "b" * 200, limit=400)
    assert (len(head), left_out, len(tail)) == (300, 700, 100)
    assert (head[0], tail[-1]) == ("a", "b")
    assert shortened("short", limit=400) == ("short", 0, "")


@pytest.mark.parametrize(
    ("part", "shown"),
    [(1.0, "100 %"), (0.0, "0 %"), (0.633, "63 %"), (0.9996, "99.96 %"), (0.9999999, "> 99.99 %"), (0.004, "0.4 %")],
)
def test_a_share_is_all_or_nothing_only_when_it_is(part: float, shown: str) -> None:
    assert numbers.share(part).replace("\u00a0", " ") == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.00123, "0.00123"), (12.34, "12.3"), (1234.5, "1,234"), (7, "7"), (-0.5, "−0.500"), (0.0, "0")],
)
def test_a_number_keeps_three_significant_digits(value: float, shown: str) -> None:
    assert numbers.number(value) == shown


@pytest.mark.parametrize(
    ("length", "shown"),
    [(0.0421, "42.1 ms"), (3.236, "3.24 s"), (84.3, "84.3 s"), (125, "2 min 5 s"), (8000, "2 h 13 min")],
)
def test_a_length_of_time_takes_the_unit_that_fits(length: float, shown: str) -> None:
    assert numbers.seconds(length).replace("\u00a0", " ") == shown


def test_percentiles_interpolate_linearly_and_nothing_has_none() -> None:
    assert numbers.percentile([1.0, 2.0, 3.0, 4.0], 50) == 2.5
    assert numbers.percentile([10.0, 0.0], 95) == 9.5
    assert numbers.percentile([], 50) is None


def test_a_difference_that_rounds_to_nothing_has_no_sign() -> None:
    assert numbers.fixed(-0.0001, 3, signed=True) == "0.000"
    assert numbers.fixed(0.0331, 3, signed=True) == "+0.033"
    assert numbers.fixed(-0.0331, 3, signed=True) == "−0.033"
