from pathlib import Path
from typing import Any

import pytest
from dataset_helpers import jsonl, named

from schemas.errors import ConfigError
from tasks.dataset.load import load_rows


def problem_of(dataset: Any) -> Any:
    with pytest.raises(ConfigError) as caught:
        load_rows(dataset)
    return caught.value.problems[0]


def test_rows_are_named_by_content_and_occurrence(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"q": "x", "n": 1}\n{"q": "y"}\n{"n": 1,   "q": "x"}\n')
    loaded = load_rows(named(path))
    first, second, third = (row.sample_id for row in loaded.rows)
    assert first.startswith("toy:")
    assert first.endswith("-0")
    assert third == first.removesuffix("0") + "1"
    assert second != first
    assert loaded.columns == ["q", "n"]
    assert "1 of 3 rows repeat" in loaded.warnings[0]
    # an id does not depend on the prompt, on what stands before, or on the order of keys
    path.write_text('{"q": "z"}\n{"n": 1, "q": "x"}\n')
    assert load_rows(named(path, prompt={"text": "other {{ q }}"})).rows[1].sample_id == first


def test_limit_takes_the_first_and_counts_all(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "a.jsonl", [{"id": n, "q": str(n)} for n in range(10)])
    loaded = load_rows(named(path, id_field="id", limit=3))
    assert [row.sample_id for row in loaded.rows] == ["toy:0", "toy:1", "toy:2"]
    assert loaded.rows_total == 10
    assert loaded.shot_pool == []


def test_the_pool_of_examples_does_not_move_with_the_limit(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "a.jsonl", [{"q": str(n), "a": n} for n in range(10)])
    loaded = load_rows(named(path, limit=3, few_shot={"n": 2}, target="{{ a }}"))
    assert len(loaded.rows) == 3
    # as many as can be chosen: two, and one more for a row that is one of them
    assert [row.fields["q"] for row in loaded.shot_pool] == ["0", "1", "2"]
    drawn = load_rows(named(path, limit=3, few_shot={"n": 2, "pick": "random"}, target="{{ a }}"))
    assert (len(drawn.rows), len(drawn.shot_pool)) == (3, 10)
    train = jsonl(tmp_path / "train.jsonl", [{"q": "t", "a": 1, "extra": 0}])
    source = {"kind": "jsonl", "path": str(train)}
    other = load_rows(named(path, few_shot={"n": 1, "source": source}, target="{{ a }}"))
    assert [row.fields["q"] for row in other.shot_pool] == ["t"]
    assert other.shot_columns == ["q", "a", "extra"]


def test_duplicate_ids_name_both_rows(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "a.jsonl", [{"id": "a"}, {"id": "b"}, {"id": "a"}])
    problem = problem_of(named(path, id_field="id"))
    assert "row 0 (line 1) and row 2 (line 3)" in problem.message
    assert "'a'" in problem.message
    # past the limit too: the file is wrong either way
    assert "row 2" in problem_of(named(path, id_field="id", limit=1)).message


def test_a_missing_id_names_the_nearest_column(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "a.jsonl", [{"idx": 1, "q": "x"}])
    problem = problem_of(named(path, id_field="id"))
    assert problem.key == "id_field"
    assert str(problem.file) == "configs/toy.yaml"
    assert "'idx'" in problem.suggestion
    path = jsonl(tmp_path / "b.jsonl", [{"id": 1}, {"id": None}])
    assert "row 1 (line 2) has None" in problem_of(named(path, id_field="id")).message


def test_an_empty_dataset_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("\n\n")
    assert "is empty" in problem_of(named(path)).message
