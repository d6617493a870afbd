"""What suites needed of datasets: rows in text, joined files, local copies, answers of examples, a filter."""

from pathlib import Path
from typing import Any

import pytest
from suite_helpers import write_copy

from schemas.dataset import Dataset, NamedDataset
from schemas.engine import Sampling
from schemas.errors import ConfigError
from tasks.dataset import sandbox
from tasks.dataset.hub import choose_files
from tasks.dataset.preview import preview_rows
from tasks.dataset.sources import file_fingerprint, read_rows
from tasks.dataset.template import compile_template, render
from tasks.score.text.equality import common_form


def toy(source: dict[str, Any], **config: Any) -> NamedDataset:
    whole = {"source": source, "prompt": {"text": "{{ q }}"}, "metrics": ["exact_match"], **config}
    return NamedDataset(name="toy", config=Dataset.model_validate(whole), sampling=Sampling(), path="toy.yaml")


def rows(source: dict[str, Any]) -> list[dict[str, Any]]:
    return [row.fields for row in read_rows(toy(source).config.source)]


def refusal(source: dict[str, Any]) -> str:
    with pytest.raises(ConfigError) as caught:
        rows(source)
    return str(caught.value)


def test_each_match_in_a_text_is_a_row_with_its_line(tmp_path: Path) -> None:
    write_copy(tmp_path, {"t.txt": "head\nQ: one\nA: 1\n\nQ: two\nA: \n"})
    source = {"kind": "text", "path": str(tmp_path / "t.txt"), "pattern": "Q: (?P<q>.*)\\nA: (?P<a>[0-9])?"}
    assert rows(source) == [{"q": "one", "a": "1"}, {"q": "two", "a": None}]
    assert [row.line for row in read_rows(toy(source).config.source)] == [2, 5]
    assert "no named group" in refusal({**source, "pattern": "Q"})
    assert "no regular expression" in refusal({**source, "pattern": "(?P<q>"})
    (tmp_path / "t.txt").write_bytes(b"Q: one\n\xff")
    assert "line" in (said := refusal(source)) or ":2" in said
    assert "not UTF-8" in said


def test_two_files_are_joined_by_a_column(tmp_path: Path) -> None:
    files = {"q.json": [{"id": 1, "q": "a"}, {"id": 2, "q": "b"}], "a.json": [{"id": 2, "t": 4}, {"id": 1, "t": 3}]}
    write_copy(tmp_path, files)
    source = {
        "kind": "jsonl",
        "path": str(tmp_path / "q.json"),
        "join": {"path": str(tmp_path / "a.json"), "on": "id"},
    }
    assert rows(source) == [{"id": 1, "q": "a", "t": 3}, {"id": 2, "q": "b", "t": 4}]
    before = file_fingerprint(toy(source).config.source)
    write_copy(tmp_path, {"a.json": [{"id": 2, "t": 5}, {"id": 1, "t": 3}]})
    assert file_fingerprint(toy(source).config.source) != before
    for partners, message in (
        ([{"id": 1, "t": 3}], "no row of a.json has 'id' 2"),
        ([{"id": 1}, {"id": 1}, {"id": 2}], "'id' is 1 a second time"),
        ([{"id": 1, "q": "x"}, {"id": 2}], "both files have a column 'q'"),
        ([{"di": 1}], "the row has no column 'id' to join by"),
    ):
        write_copy(tmp_path, {"a.json": partners})
        assert message in refusal(source)


def test_a_local_copy_of_a_hub_repository(tmp_path: Path) -> None:
    write_copy(tmp_path, {"one/test.jsonl": [{"q": "1"}], "two/test-00000-of-00002.parquet": [{"q": "2"}]})
    source = {"kind": "hf", "id": "a/b", "folder": str(tmp_path)}
    assert rows({**source, "subset": "one"}) == [{"q": "1"}]
    assert "lies in several folders" in refusal({**source, "split": "test", "folder": str(copy_of_two(tmp_path))})
    assert "lacks 1 of the files of split 'test'" in refusal({**source, "subset": "two"})
    assert "there is no folder" in refusal({**source, "folder": str(tmp_path / "ton")})
    assert "has no Parquet or JSONL file of split 'dev'" in refusal({**source, "split": "dev"})


def copy_of_two(tmp_path: Path) -> Path:
    return write_copy(tmp_path / "both", {"x/test.jsonl": [{"q": "1"}], "y/test.jsonl": [{"q": "2"}]})


def test_the_only_file_of_a_repository_is_its_split_train() -> None:
    assert choose_files(["README.md", "input_data.jsonl"], split="train", subset=None) == ["input_data.jsonl"]
    assert choose_files(["input_data.jsonl"], split="test", subset=None) == []
    assert choose_files(["test.jsonl"], split="train", subset=None) == []
    assert choose_files(["a.jsonl", "b.jsonl"], split="train", subset=None) == []


def test_an_example_answers_what_it_is_told_to(tmp_path: Path) -> None:
    write_copy(tmp_path, {"r.jsonl": [{"q": "1?", "a": 0, "o": ["x", "y"]}, {"q": "2?", "a": 1, "o": ["v", "w"]}]})
    source = {"kind": "jsonl", "path": str(tmp_path / "r.jsonl")}
    shots = {"n": 1, "answer": "{{ o[a] }}"}
    first, second = preview_rows(toy(source, target="{{ a }}", few_shot=shots))
    assert (first.composed.prompt, first.target) == ("2? w\n\n1?", 0)
    assert (second.composed.prompt, second.target) == ("1? x\n\n2?", 1)
    with pytest.raises(ConfigError, match=r"few_shot.answer.*uses 'oo'"):
        preview_rows(toy(source, target="{{ a }}", few_shot={"n": 1, "answer": "{{ oo }}"}))


def test_a_filter_that_replaces_and_comes_to_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "TIME_LIMIT_S", 0.2)
    template = compile_template('{{ t | regex_replace("\\\\[.*?\\\\]", "-") }}')
    assert render(template, {"t": "a [b] c [d"}) == "a - c [d"
    endless = compile_template('{{ t | regex_replace("(a|aa)+$") }}')
    with pytest.raises(ConfigError, match=r"does not come to an end|takes longer"):
        render(endless, {"t": "a" * 60 + "b"})


def test_words_are_compared_with_their_articles() -> None:
    assert common_form("The  Elm's!", normalize="words") == common_form("the elms", normalize="words")
    assert common_form("The Elm", normalize="words") != common_form("Elm", normalize="words")
