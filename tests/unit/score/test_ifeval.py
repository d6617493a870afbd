"""ifeval beyond its golden cases: counting rules one by one, hostile texts, and properties of strict and loose."""

import time
from pathlib import Path
from typing import Any

import langdetect
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.metric import Score
from schemas.sample import Response, Sample
from tasks.score.ifeval.arguments import BadInstruction
from tasks.score.ifeval.form import json_format
from tasks.score.ifeval.instructions import INSTRUCTIONS, Asked, read_instructions, variants
from tasks.score.ifeval.language import LANGUAGES, is_in, language_of
from tasks.score.ifeval.sentences import capital_words, count_sentences
from tasks.score.registry import metric

IFEVAL = metric("ifeval")
ARGUMENTS: dict[str, Any] = {
    "keywords": ["sun", "moon"],
    "keyword": "sun",
    "frequency": 2,
    "relation": "at least",
    "forbidden_words": ["rain"],
    "letter": "e",
    "let_frequency": 3,
    "let_relation": "less than",
    "language": "en",
    "num_sentences": 2,
    "num_paragraphs": 2,
    "num_words": 5,
    "nth_paragraph": 1,
    "first_word": "The",
    "num_placeholders": 1,
    "postscript_marker": "P.S.",
    "num_bullets": 2,
    "num_highlights": 1,
    "section_spliter": "Section",
    "num_sections": 2,
    "prompt_to_repeat": "Say it.",
    "end_phrase": "The end.",
    "capital_frequency": 2,
    "capital_relation": "at least",
}
ALL = read_instructions(
    names=list(INSTRUCTIONS),
    arguments=[{key: ARGUMENTS[key] for key in instruction.needs} for instruction in INSTRUCTIONS.values()],
)


def scored(*, target: object, row: dict[str, Any], output: str, **options: object) -> Score:
    sample = Sample(
        dataset="d",
        sample_id="s",
        row_index=0,
        raw=b"{}",
        input=row,
        prompt="p",
        prompt_hash="h",
        prompt_token_ids=[1],
        target=target,
    )
    response = Response(
        request_id="r", dataset="d", sample_id="s", arm="free", kind="generate", status="ok", output=output
    )
    return IFEVAL.score(sample=sample, response=response, options=IFEVAL.Options(**options))


def test_there_are_25_in_9_categories() -> None:
    assert len(INSTRUCTIONS) == 25
    assert len({name.partition(":")[0] for name in INSTRUCTIONS}) == 9


def test_the_row_holds_the_instructions_where_the_target_does_not() -> None:
    row = {"instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}], "prompt": "p"}
    assert scored(target=None, row=row, output="a, b").value == 0
    assert scored(target="text", row=row, output="a b").value == 1
    target = {"instruction_id_list": ["detectable_format:title"], "kwargs": [None]}
    assert scored(target=target, row=row, output="a, <<b>>").value == 1


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0),
        ("No end", 1),
        ("One. Two! Three?", 3),
        ("What?! No!!! Yes.", 3),
        ("A line\nanother line\n\na third", 1),
        ("Mr. Smith met Dr. Jones.", 1),
        ("He left at 5 p.m. She stayed.", 2),
        ("He left at 5 p.m. Monday.", 1),
        ("In the U.S. many people", 1),
        ("It costs 3.50 or 1,000. Good.", 2),
        ("J. K. Rowling wrote it.", 1),
        ("So do I. The end.", 2),
        ("Well... that is it.", 1),
        ("I see, e.g. this. And i.e. that.", 2),
        ('He said "Go." She left.', 2),
        ("(It rained.) We stayed.", 2),
        ("“Go.” She left.", 2),
        ("1. The first.\n2. The second.", 4),
        ("1. first\n2. second", 1),
        ("Version 2.0 is out", 1),
        ("See example.com now.", 1),
        ("Bold.** Next", 2),
    ],
)
def test_sentences(text: str, count: int) -> None:
    assert count_sentences(text) == count


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("NASA and the FBI", 2),
        ("I am A man", 2),
        ("TV-SHOW, 3D, U.S.", 3),
        ("CAN'T. IT'S WE'LL", 6),
        ("CANNOT", 2),
        ("the OS's path", 1),
        ("R&D (USA) 100 --", 3),
        ("**BOLD** Not This", 1),
        ("ÉTÉ ΑΒΓ 漢字", 2),
    ],
)
def test_words_in_capitals(text: str, count: int) -> None:
    assert capital_words(text) == count


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("en", "The weather is very nice today and we go for a walk."),
        ("en", "THE WEATHER IS VERY NICE TODAY AND WE GO FOR A WALK."),
        ("de", "Das Wetter ist heute sehr schön und wir gehen spazieren."),
        ("fr", "Il fait très beau aujourd'hui et nous allons nous promener."),
        ("ru", "Сегодня очень хорошая погода, и мы идём гулять."),
        ("ko", "오늘은 날씨가 아주 좋아서 산책을 갑니다."),
        ("zh", "今天天气很好，我们去散步。"),
        ("hi", "आज मौसम बहुत अच्छा है और हम टहलने जा रहे हैं।"),
    ],
)
def test_languages(code: str, text: str) -> None:
    assert is_in(text, language=code)
    assert not is_in(text, language="sw")
    assert len({language_of(text) for _ in range(5)}) == 1


def test_the_languages_are_those_that_are_detected() -> None:
    profiles = {path.name for path in Path(langdetect.PROFILES_DIRECTORY).iterdir() if path.is_file()}
    assert {"zh", *profiles} == LANGUAGES


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        "<<" * 50_000,
        "*" * 100_000,
        "* \n" * 30_000,
        "." * 100_000,
        ". " * 50_000,
        "'" * 100_000,
        "A'S " * 30_000,
        "p. " * 30_000,
        "Section" * 20_000,
        "```" * 30_000,
        "\n" * 100_000,
        "\ud800\x00 a",
    ],
)
def test_long_and_odd_texts_end_soon(text: str) -> None:
    started = time.monotonic()
    for asked in ALL:
        assert asked.followed(text) in (True, False)
    assert time.monotonic() - started < 10


def test_deep_json_is_no_crash() -> None:
    assert not json_format("[" * 100_000)
    assert json_format("```\n[" + "[" * 50 + "]" * 50 + "]\n```")


_PIECES = 'The sun moon rain end. Say it. Yes! P.S. I NASA [x] *a* **b** <<t>> *** ****** Section 1 2 - , " # { } ```'
_TEXT = st.lists(st.sampled_from([*_PIECES.split(), "\n", "\n\n", "\n* "]), max_size=25).map(" ".join)


@settings(max_examples=150, deadline=None)
@given(_TEXT)
def test_loose_takes_all_that_strict_takes(text: str) -> None:
    for asked in ALL:
        if asked.followed(text):
            assert asked.followed_loosely(text)


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=80) | _TEXT)
def test_the_variants(text: str) -> None:
    found = variants(text)
    assert len(found) == 8
    assert found[0] == text
    assert sum("*" in variant for variant in found[4:]) == 0
    assert all(set(variant) <= set(text) for variant in found)


@settings(max_examples=200, deadline=None)
@given(_TEXT | st.text(max_size=80), st.integers(0, 12))
def test_less_than_and_at_least_are_opposites(text: str, bound: int) -> None:
    for name, count, relation, rest in (
        ("keywords:frequency", "frequency", "relation", {"keyword": "sun"}),
        ("keywords:letter_frequency", "let_frequency", "let_relation", {"letter": "e"}),
        ("length_constraints:number_sentences", "num_sentences", "relation", {}),
        ("length_constraints:number_words", "num_words", "relation", {}),
        ("change_case:capital_word_frequency", "capital_frequency", "capital_relation", {}),
    ):
        less, least = (
            Asked(name=name, arguments={**rest, count: bound, relation: word}).followed(text)
            for word in ("less than", "at least")
        )
        assert (less, least) == (False, False) if not text.strip() else less != least


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(["It rained", "We left", "The sun shone"]), min_size=1, max_size=9), st.data())
def test_plain_sentences_are_counted_exactly(sentences: list[str], data: st.DataObject) -> None:
    marks = data.draw(st.lists(st.sampled_from(".?!"), min_size=len(sentences), max_size=len(sentences)))
    gap = data.draw(st.sampled_from([" ", "\n", "\n\n", "  "]))
    assert count_sentences(gap.join(map("".join, zip(sentences, marks, strict=True)))) == len(sentences)


@settings(max_examples=100, deadline=None)
@given(_TEXT, st.lists(st.sampled_from(ALL), min_size=1, max_size=5))
def test_the_four_figures_agree(text: str, asked: list[Asked]) -> None:
    target = {
        "instruction_id_list": [one.name for one in asked],
        "kwargs": [dict(one.arguments) for one in asked],
    }
    value = {
        (level, mode): scored(target=target, row={}, output=text, level=level, mode=mode).value
        for level in ("prompt", "instruction")
        for mode in ("strict", "loose")
    }
    for mode in ("strict", "loose"):
        assert value["prompt", mode] == float(value["instruction", mode] == 1)
    assert value["instruction", "strict"] <= value["instruction", "loose"]


@pytest.mark.parametrize("wrong", [None, "3", True, -1, 2.5, float("nan"), [3]])
def test_a_count_is_a_whole_number(wrong: object) -> None:
    with pytest.raises(BadInstruction, match="needs num_bullets"):
        read_instructions(names=["detectable_format:number_bullet_lists"], arguments=[{"num_bullets": wrong}])
