"""Corpora as they are read: their own file, bare data, what is wrong with them."""

import json
from pathlib import Path

import pytest

from configs.corpora import make
from flows.cli_grammar import _backend_lists
from schemas.errors import ConfigError
from tasks.corpus.ask import judged
from tasks.corpus.ask_for import Asked, checked
from tasks.corpus.keywords import keywords_of
from tasks.corpus.read import read_corpus

LINES = [
    {"name": "a---one", "schema": {"type": "integer"}, "tests": [{"data": 1, "valid": True}]},
    {"name": "b---two", "schema": '{"type": "string"}'},
    {"name": "b---three", "schema": True, "split": "own"},
]


def corpus(folder: Path, *lines: object, name: str = "x.jsonl") -> str:
    path = folder / name
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(path)


def test_a_file_of_lines(tmp_path: Path) -> None:
    read = read_corpus(corpus(tmp_path, *LINES))
    assert (read.name, read.of, read.splits) == ("x", 3, ["a", "b", "own"])
    first, second, third = read.cases
    assert first.case_id.startswith("00000-") and first.tests[0].valid is True
    assert second.content == {"type": "string"} and second.tests == ()
    assert third.content is True and len({case.case_id for case in read.cases}) == 3
    assert read_corpus(corpus(tmp_path, *LINES, name="y.jsonl")).cases == read.cases  # the same, wherever it lies


def test_one_list_and_keys_of_another_name(tmp_path: Path) -> None:
    (tmp_path / "rows.json").write_text(json.dumps([{"s": {"type": "null"}, "t": [{"i": None, "ok": True}]}]))
    own = tmp_path / "own.yaml"
    own.write_text("path: rows.json\nfields: {schema: s, tests: t, data: i, valid: ok}\n")
    read = read_corpus(str(own))
    assert (read.name, read.cases[0].name, read.cases[0].split) == ("own", "number 1", "all")
    assert read.cases[0].tests[0].data is None


def test_a_limit_is_of_each_split_and_the_same_for_a_seed(tmp_path: Path) -> None:
    lines = [{"split": f"s{number % 3}", "schema": {"const": number}} for number in range(60)]
    path = corpus(tmp_path, *lines)
    drawn = read_corpus(path, limit=4, seed=1)
    assert [sum(case.split == split for case in drawn.cases) for split in drawn.splits] == [4, 4, 4] and drawn.of == 60
    assert read_corpus(path, limit=4, seed=1).cases == drawn.cases != read_corpus(path, limit=4, seed=2).cases
    assert {case.split for case in read_corpus(path, splits=["s2"]).cases} == {"s2"}


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ('{"schema": {}}\n{"schema": ', 2, "broken JSON"),
        ('{"schema": {}}\n\n{"other": 1}\n', 3, "has no `schema` (it has `other`)"),
        ("[1]\n", 1, "has no `schema`"),
        ('{"schema": 3}\n', 1, "is no JSON Schema"),
        ('{"schema": "{"}\n', 1, "is a text that is no JSON"),
        ('{"schema": {}, "tests": {}}\n', 1, "`tests` is no list"),
        ('{"schema": {}, "tests": [{"data": 1, "valid": "yes"}]}\n', 1, "test 1 is not of the form"),
        ("\n", None, "holds no schema"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(tmp_path: Path, text: str, line: int | None, words: str) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        read_corpus(str(path))
    (problem,) = caught.value.problems
    assert words in problem.message and problem.line == line and problem.file is not None


def test_names_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"there is no split `B`"):
        read_corpus(corpus(tmp_path, *LINES), splits=["B"])
    with pytest.raises(ConfigError, match="faults"):
        read_corpus("fault")
    with pytest.raises(ConfigError, match="no such file"):
        read_corpus(str(tmp_path / "none.jsonl"))
    raw = tmp_path / "raw.jsonl"
    raw.write_bytes(b'{"schema": {}}\n{"schema": "\xff"}\n')
    with pytest.raises(ConfigError, match="not UTF-8") as caught:
        read_corpus(str(raw))
    assert caught.value.problems[0].line == 2


def test_another_content_than_the_file_names_is_refused(tmp_path: Path) -> None:
    corpus(tmp_path, *LINES)
    own = tmp_path / "own.yaml"
    own.write_text(f"path: x.jsonl\nrevision: 'sha256:{'0' * 64}'\n")
    with pytest.raises(ConfigError, match="is another file than the corpus names"):
        read_corpus(str(own))
    own.write_text("path: x.jsonl\nsplit: 3\n")
    with pytest.raises(ConfigError, match="split"):
        read_corpus(str(own))


def test_the_shipped_corpus_is_as_made_and_right() -> None:
    assert make.FILE.read_bytes() == make.content()
    read = read_corpus("faults")
    assert len(read.cases) >= 50 and all(case.tests for case in read.cases)
    for case in read.cases:
        asked = judged(case)
        assert asked.fault is None, case.name
        assert asked.validated == tuple(test.valid for test in case.tests), case.name


def test_keywords_are_those_of_every_node() -> None:
    schema = {
        "properties": {"enum": {"anyOf": [{"minLength": 1}, {"type": "null"}]}},
        "description": "x",
        "items": {"$ref": "#"},
    }
    assert keywords_of(schema) == ["$ref", "anyOf", "items", "minLength", "properties", "type"]
    assert keywords_of(True) == []


def test_what_is_asked_is_found_again_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus(tmp_path, *LINES)
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    asked = checked(Asked(corpus="../x.jsonl", backends=["xgrammar", "xgrammar"]))
    assert asked.corpus == str(tmp_path / "x.jsonl") and asked.backends == ["xgrammar"]
    assert checked(Asked(corpus="faults")).corpus == "faults"
    with pytest.raises(ConfigError, match=r"there is no backend `xgramar` \(did you mean `xgrammar`"):
        checked(Asked(corpus="faults", backends=["xgramar"]))


def test_a_list_of_backends_is_completed_one_by_one() -> None:
    assert _backend_lists("x") == ["xgrammar"]
    assert _backend_lists("xgrammar,") == ["xgrammar,guidance", "xgrammar,outlines", "xgrammar,lm-format-enforcer"]
    assert _backend_lists("xgrammar,x") == []
