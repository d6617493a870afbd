"""Properties of normalizers and number parsing on any text, and of the statistics against statsmodels and scipy."""

import json
import math
import string
from decimal import Decimal
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from scipy import stats as reference

from tasks.score.normalize import bare_words, cut_at, squad
from tasks.score.numbers import as_number, find_numbers
from tasks.score.stats.clustered import clustered
from tasks.score.stats.holm import holm
from tasks.score.stats.mean_stderr import mean_stderr
from tasks.score.stats.paired import mcnemar_exact, paired
from tasks.score.stats.wilson import wilson
from tasks.score.text.equality import Normalize, common_form, equal_numbers

STATSMODELS = json.loads(
    (Path(__file__).parents[2] / "data" / "statsmodels" / "values.json").read_text(encoding="utf-8")
)
"""Made by tests/data/statsmodels/make.py."""

near = pytest.approx
quick = settings(deadline=None, max_examples=60)
TEXTS = st.text(max_size=60) | st.lists(
    st.sampled_from(["The ", "a", "AN ", "an-", "é", " \t", "X.", "the", "1,5", "\n", "İ", "ß", "—", "“"]), max_size=9
).map("".join)
FORMS = st.sampled_from(get_args(Normalize))


@quick
@given(TEXTS, FORMS)
def test_a_common_form_is_its_own(text: str, normalize: Normalize) -> None:
    once = common_form(text, normalize=normalize)
    assert common_form(once, normalize=normalize) == once
    assert once == once.strip()


@quick
@given(TEXTS, FORMS, st.text(" \t\n\r", max_size=3))
def test_white_space_round_a_text_never_counts(text: str, normalize: Normalize, blanks: str) -> None:
    assert common_form(f"{blanks}{text}{blanks}", normalize=normalize) == common_form(text, normalize=normalize)


@quick
@given(st.text(string.ascii_letters + string.punctuation + " ", max_size=40))
def test_case_and_punctuation_count_where_they_should(text: str) -> None:
    for form in (squad, bare_words):
        assert form(text.upper()) == form(text.lower()) == form(text)
        assert not set(form(text)) & set(string.punctuation)
        assert form(text.translate(str.maketrans("", "", string.punctuation))) == form(text)
    assert common_form(text.upper(), normalize="casefold") == common_form(text.lower(), normalize="casefold")
    assert set(squad(text).split()) == set(bare_words(text).split()) - {"a", "an", "the"}
    assert common_form(text, normalize="strip") == text.strip()


@quick
@given(TEXTS, st.lists(st.text("ab\n#", min_size=1, max_size=2), max_size=3))
def test_a_text_is_cut_at_its_first_marker(text: str, markers: list[str]) -> None:
    cut = cut_at(text, markers)
    assert text.startswith(cut)
    assert not any(marker in cut for marker in markers)
    assert cut == text or any(text[len(cut) :].startswith(marker) for marker in markers)


@quick
@given(st.lists(st.decimals(-(10**9), 10**9, places=2), min_size=1, max_size=5))
def test_all_numbers_of_a_sentence_are_found_in_order(values: list[Decimal]) -> None:
    text = "It is " + " and then ".join(f"{value:,f}" for value in values) + "."
    assert [number.value for number in find_numbers(text)] == values
    for number in find_numbers(text):
        assert text[number.start : number.end] == number.text


@quick
@given(st.integers(-(10**18), 10**18) | st.floats(allow_nan=False, allow_infinity=False))
@example(-0.0)
@example(5e-324)
@example(1e22)
def test_a_number_of_the_data_is_the_one_that_is_printed(value: float) -> None:
    number, printed = as_number(value), as_number(repr(value))
    assert number is not None and printed is not None
    assert number.value == printed.value == Decimal(repr(value))


@quick
@given(st.decimals(-(10**6), 10**6, places=2), st.decimals(-(10**6), 10**6, places=2))
def test_a_percentage_is_a_number_a_fraction_or_neither(one: Decimal, two: Decimal) -> None:
    [first], [second] = find_numbers(f"{one:f}%"), find_numbers(f"{two:f}")
    hundredth = find_numbers(f"{one.scaleb(-2):f}")[0]
    assert (first.percent, second.percent) == (True, False)
    assert equal_numbers(first, second, percent="number") == (one == two)
    assert equal_numbers(first, hundredth, percent="fraction")
    assert not equal_numbers(first, second, percent="same")
    for percent in ("number", "fraction", "same"):
        assert equal_numbers(first, first, percent=percent)
        assert equal_numbers(first, second, percent=percent) == equal_numbers(second, first, percent=percent)


@pytest.mark.parametrize("case", STATSMODELS["clustered"])
def test_a_clustered_mean_is_that_of_statsmodels(case: dict[str, Any]) -> None:
    found = clustered(case["values"], clusters=case["clusters"])
    assert (found.value, found.stderr) == (near(case["value"]), near(case["stderr"]))
    assert (found.lo, found.hi) == (near(case["lo"], abs=1e-9), near(case["hi"], abs=1e-9))


def test_the_other_statistics_are_those_of_statsmodels() -> None:
    for case in STATSMODELS["plain"]:
        mean = mean_stderr(case["values"])
        assert (mean.value, mean.stderr) == (near(case["value"]), near(case["stderr"]))
        assert (mean.lo, mean.hi) == (near(case["lo"]), near(case["hi"]))
    for case in STATSMODELS["wilson"]:
        interval = wilson(rate=case["hits"] / case["n"], n=case["n"])
        assert interval == (near(case["lo"], abs=1e-9), near(case["hi"], abs=1e-9))
    for case in STATSMODELS["mcnemar"]:
        assert mcnemar_exact(wins=case["wins"], losses=case["losses"]) == near(case["p"])
    for case in STATSMODELS["holm"]:
        assert holm(case["p"]) == near(case["adjusted"])


@quick
@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=40))
def test_the_mean_and_its_interval_are_scipys(values: list[float]) -> None:
    found, stderr = mean_stderr(values), reference.sem(values)
    assert found.value == near(math.fsum(values) / len(values))
    assert found.stderr == near(stderr, abs=1e-9)
    if stderr > 1e-6:
        lo, hi = reference.t.interval(0.95, len(values) - 1, loc=math.fsum(values) / len(values), scale=stderr)
        assert (found.lo, found.hi) == (near(lo, abs=1e-6), near(hi, abs=1e-6))


@quick
@given(st.lists(st.tuples(st.floats(-50, 50), st.floats(-50, 50)), min_size=3, max_size=40))
def test_unclustered_pairs_get_scipys_paired_t(pairs: list[tuple[float, float]]) -> None:
    candidate, baseline = [one for one, _ in pairs], [two for _, two in pairs]
    differences = [one - two for one, two in pairs]
    assume(max(differences) - min(differences) > 1e-3)
    assume(not {*candidate, *baseline} <= {0, 1})  # right or wrong gets McNemar
    found = paired(candidate=candidate, baseline=baseline)
    expected = reference.ttest_rel(candidate, baseline)
    bounds = expected.confidence_interval(0.95)
    assert found.method == "paired_t"
    assert found.effect == near(math.fsum(differences) / len(differences), abs=1e-9)
    assert found.p_value == near(expected.pvalue, abs=1e-9)
    assert (found.lo, found.hi) == (near(bounds.low, abs=1e-9), near(bounds.high, abs=1e-9))
    assert found.wins + found.losses + found.ties == len(pairs)
    # The other way round, everything is mirrored.
    back = paired(candidate=baseline, baseline=candidate)
    assert (back.wins, back.losses, back.p_value) == (found.losses, found.wins, near(found.p_value))
    assert back.effect == near(-found.effect, abs=1e-12)
