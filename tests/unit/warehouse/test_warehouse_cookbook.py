"""Every question has its answer, and docs/warehouse.md shows it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from schemas.errors import ConfigError
from tests.unit.warehouse.cookbook_rows import MONDAY, PAGE, TUESDAY, fill, page
from warehouse.cookbook import COOKBOOK, Recipe, recipe
from warehouse.query import query


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    yield fill(tmp_path_factory.mktemp("example"), sweep=True)


def test_the_page_shows_each_question_with_its_answer(example: Path) -> None:
    text = PAGE.read_text("utf-8")
    assert text == page(example, before=text), "run python -m tests.unit.warehouse.cookbook_rows, and read what changed"


@pytest.mark.parametrize("asked", COOKBOOK, ids=lambda each: each.question)
def test_no_answer_is_empty(example: Path, asked: Recipe) -> None:
    assert query(home=example, sql=asked.sql).rows
    assert asked.question.endswith("?")


def test_they_all_differ() -> None:
    assert len(COOKBOOK) >= 29
    assert len({each.question for each in COOKBOOK}) == len({each.sql for each in COOKBOOK}) == len(COOKBOOK)


def answer(example: Path, word: str) -> list[tuple[object, ...]]:
    return query(home=example, sql=next(each.sql for each in COOKBOOK if word in each.question)).rows


def test_answers_that_can_be_counted_by_hand(example: Path) -> None:
    # Only a-002 is answered otherwise on Tuesday, in both arms.
    assert [row[1:6] for row in answer(example, "flipped")] == [
        ("a-002", "free", "exact_match", 0.0, 1.0),
        ("a-002", "guided", "exact_match", 0.0, 1.0),
    ]
    assert [row[1:6] for row in answer(example, "flip most often")] == [
        ("a-002", "free", "exact_match", 2, 1),
        ("a-002", "guided", "exact_match", 2, 1),
    ]
    assert answer(example, "worse since the baseline") == [
        (TUESDAY, "main", "arithmetic", "one_word", "free", 1.0, 0.25, -0.94, -0.02, 4)
    ]
    # Fewest samples first; the comparison with Monday did decide.
    assert [(row[0], row[1], row[-1]) for row in answer(example, "decided nothing")] == [
        (TUESDAY, True, 44),
        (MONDAY, True, 61),
    ]
    # The counter rose by 1,000 J in each of six steps; three and five answers are right.
    assert answer(example, "energy") == [(TUESDAY, 6000.0, 5, 1200.0), (MONDAY, 6000.0, 3, 2000.0)]
    # One request of Monday was asked again by the second session.
    assert answer(example, "more than one attempt") == [(MONDAY, 2, 1)]
    assert [row[:4] for row in answer(example, "crashed")] == [
        ("20261125T090000-cccccc", "crashed", 0, 0),
        (MONDAY, "finished", 2, 9),
    ]
    assert [row[1:] for row in answer(example, "commit")] == [
        ("9a8b7c6", False, "free", 0.25, 0.5, 0.25),
        ("9a8b7c6", False, "guided", 0.5, 0.75, 0.25),
    ]
    assert answer(example, "configs") == [("$.engine.prefill.policy", '"off"', '"rule"')]


def test_a_number_that_is_none_is_refused() -> None:
    assert recipe(1) is COOKBOOK[0]
    for number in (0, len(COOKBOOK) + 1, -1):
        with pytest.raises(ConfigError, match=f"there are 1 to {len(COOKBOOK)}"):
            recipe(number)
