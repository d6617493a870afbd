import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.errors import ConfigError
from schemas.source import CsvSource, JsonlSource, ParquetSource, SavedSource
from tasks.dataset.hub import choose_files, missing_parts
from tasks.dataset.rows import canonical_json
from tasks.dataset.sources import file_fingerprint, read_rows


def rows_of(path: Path, content: bytes) -> list[Any]:
    path.write_bytes(content)
    return list(read_rows(JsonlSource(kind="jsonl", path=str(path))))


def problem_of(action: Any) -> Any:
    with pytest.raises(ConfigError) as caught:
        action()
    assert len(caught.value.problems) == 1
    return caught.value.problems[0]


def test_hostile_text_comes_through_with_its_bytes(tmp_path: Path) -> None:
    lines = [
        '{"t": "👩‍👩‍👧 emoji"}'.encode(),
        rb'{"t": "lone \ud800 surrogate"}',
        rb'{"t": "nul \u0000 inside"}',
        '{"t": "مرحبا \u202e rtl"}'.encode(),
        json.dumps({"t": "x" * 100_000}).encode(),
        b'  {"t":   1}  ',
    ]
    rows = rows_of(tmp_path / "a.jsonl", b"\n\n".join(lines) + b"\r\n\r\n")
    assert [row.raw for row in rows] == lines
    assert [row.line for row in rows] == [1, 3, 5, 7, 9, 11]
    assert [row.index for row in rows] == list(range(6))
    assert rows[1].fields["t"] == "lone \ud800 surrogate"
    assert rows[2].fields["t"] == "nul \0 inside"


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        (b'{"a": 1', "broken JSON"),
        (b"[1]", "an array"),
        (b"null", "null"),
        (b"true", "a boolean"),
        (b'{"a": NaN}', "NaN"),
        (b'{"a": 1e999}', "out of range"),
        (b'{"a": "\xff"}', "not UTF-8"),
        (b'{"a": ' + b"[" * 100_000, "broken JSON"),
        (b'{"a": ' + b"9" * 5000 + b"}", "broken JSON"),
    ],
)
def test_a_broken_line_is_named(tmp_path: Path, broken: bytes, says: str) -> None:
    path = tmp_path / "b.jsonl"
    problem = problem_of(lambda: rows_of(path, b'{"a": 1}\n\n' + broken + b'\n{"a": 2}\n'))
    assert (problem.file, problem.line) == (path, 3)
    assert says in problem.message


@given(st.lists(st.dictionaries(st.text(min_size=1), st.one_of(st.text(), st.integers(), st.none()), max_size=4)))
@settings(max_examples=20, deadline=None)
def test_what_json_writes_is_read_back(tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]]) -> None:
    path = tmp_path_factory.mktemp("h") / "rows.jsonl"
    read = rows_of(path, "".join(json.dumps(row) + "\n" for row in rows).encode())
    assert [row.fields for row in read] == rows
    assert [json.loads(row.raw) for row in read] == rows


def test_csv_rows_and_faults(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    source = CsvSource(kind="csv", path=str(path))
    path.write_bytes(b'\xef\xbb\xbfid,q\r\n1,"two\r\nlines"\r\n\r\n2,"comma, ""quoted"""\r\n')
    rows = list(read_rows(source))
    assert [row.fields for row in rows] == [{"id": "1", "q": "two\r\nlines"}, {"id": "2", "q": 'comma, "quoted"'}]
    assert [row.line for row in rows] == [2, 5]
    assert rows[0].raw == canonical_json(rows[0].fields).encode()

    for content, line, says in (
        (b"a,b\n1,2\n3\n", 3, "1 fields"),
        (b"a,b\n1,2,3\n", 2, "3 fields"),
        (b"a,a\n", 1, "twice"),
        (b"a,\n", 1, "no name"),
        (b"", 1, "header"),
        (b"a\nx\n\xff\n", 3, "not UTF-8"),
        (b'a\n"x\n', 2, "broken CSV"),
    ):
        path.write_bytes(content)
        problem = problem_of(lambda: list(read_rows(source)))
        assert (problem.file, problem.line) == (path, line), content
        assert says in problem.message
    path.write_bytes(b"a\n" + b"y" * 300_000 + b"\n")
    assert len(next(read_rows(source)).fields["a"]) == 300_000


def test_parquet_gives_json_values(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    table = pa.table({"n": [1.5, float("nan"), None], "d": pa.array([0, 1, None], pa.date32()), "l": [[1], [], None]})
    pq.write_table(table, path)
    rows = list(read_rows(ParquetSource(kind="parquet", path=str(path))))
    assert [row.fields for row in rows] == [
        {"n": 1.5, "d": "1970-01-01", "l": [1]},
        {"n": None, "d": "1970-01-02", "l": []},
        {"n": None, "d": None, "l": None},
    ]
    assert json.loads(rows[0].raw) == rows[0].fields
    path.write_bytes(b"PAR1 not really")
    assert problem_of(lambda: list(read_rows(ParquetSource(kind="parquet", path=str(path))))).file == path


SAVE = """
import sys, datasets
whole = datasets.Dataset.from_list([{"id": i, "q": f"row {i}", "n": {"a": [i]}} for i in range(7)])
whole.save_to_disk(sys.argv[1] + "/whole", num_shards=2)
datasets.DatasetDict({"train": whole, "test": whole.select([5, 1])}).save_to_disk(sys.argv[1] + "/splits")
"""


LIGHT = """
import sys
from schemas.source import SavedSource
from tasks.dataset.sources import read_rows
print(sum(1 for _ in read_rows(SavedSource(kind="saved", path=sys.argv[1]))))
print([name for name in ("pandas", "datasets", "torch", "transformers", "prefect") if name in sys.modules])
"""


def test_saved_folder_without_the_datasets_library(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", SAVE, str(tmp_path)], check=True, capture_output=True, timeout=120)
    whole = SavedSource(kind="saved", path=str(tmp_path / "whole"))
    rows = list(read_rows(whole))
    assert [row.index for row in rows] == list(range(7))
    assert rows[6].fields == {"id": 6, "q": "row 6", "n": {"a": [6]}}
    splits = SavedSource(kind="saved", path=str(tmp_path / "splits"), split="test")
    assert [row.fields["id"] for row in read_rows(splits)] == [5, 1]
    assert file_fingerprint(whole) != file_fingerprint(splits)

    unsplit = SavedSource(kind="saved", path=str(tmp_path / "splits"))
    problem = problem_of(lambda: list(read_rows(unsplit)))
    assert "test, train" in (problem.suggestion or "")
    assert problem.key == "source.split"

    light = subprocess.run([sys.executable, "-c", LIGHT, whole.path], check=True, capture_output=True, text=True)
    assert light.stdout.split("\n")[:2] == ["7", "[]"]

    # indices as older releases of the library keep them: the rows they name, in their order
    folder = tmp_path / "whole"
    with pa.OSFile(str(folder / "indices.arrow"), "wb") as sink:
        table = pa.table({"indices": pa.array([6, 0, 3], pa.uint64())})
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
    state = json.loads((folder / "state.json").read_text())
    state["_indices_data_files"] = [{"filename": "indices.arrow"}]
    (folder / "state.json").write_text(json.dumps(state))
    assert [row.fields["id"] for row in read_rows(whole)] == [6, 0, 3]

    state["_data_files"] = [{"filename": "../splits/test/data-00000-of-00001.arrow"}]
    (folder / "state.json").write_text(json.dumps(state))
    assert "not there" in problem_of(lambda: list(read_rows(whole))).message


def test_a_file_of_another_revision_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"a": 1}\n')
    right = hashlib.sha256(path.read_bytes()).hexdigest()
    assert file_fingerprint(JsonlSource(kind="jsonl", path=str(path))) == right
    assert len(list(read_rows(JsonlSource(kind="jsonl", path=str(path), revision=f"sha256:{right}")))) == 1
    wrong = JsonlSource(kind="jsonl", path=str(path), revision="sha256:" + "0" * 64)
    problem = problem_of(lambda: list(read_rows(wrong, file=Path("d.yaml"), key="few_shot.source")))
    assert problem.key == "few_shot.source.revision"
    assert right in problem.message
    odd = JsonlSource(kind="jsonl", path=str(path), revision="main")
    assert "no revision" in problem_of(lambda: list(read_rows(odd))).message


def test_a_missing_file_names_where_it_was_written_down(tmp_path: Path) -> None:
    source = JsonlSource(kind="jsonl", path=str(tmp_path / "none.jsonl"))
    problem = problem_of(lambda: list(read_rows(source, file=Path("d.yaml"))))
    assert (problem.file, problem.key) == (Path("d.yaml"), "source.path")
    folder = JsonlSource(kind="jsonl", path=str(tmp_path))
    assert "is a folder" in problem_of(lambda: list(read_rows(folder))).message


def test_hub_files_of_a_split() -> None:
    names = ["README.md", "main/test-00001-of-00002.parquet", "main/test-00000-of-00002.parquet"]
    names += ["main/train-00000-of-00001.parquet", "socratic/test-00000-of-00001.parquet", "x/latest.parquet"]
    assert choose_files(names, split="test", subset="main") == names[2:0:-1]
    assert missing_parts(names[1:3]) == 0
    assert missing_parts(names[1:2]) == 1
    assert missing_parts(["test.jsonl"]) == 0
    with pytest.raises(ValueError, match="main, socratic"):
        choose_files(names, split="test", subset=None)
    assert choose_files(names, split="validation", subset=None) == []
    assert choose_files(["test.jsonl", "train.jsonl"], split="test", subset=None) == ["test.jsonl"]
    assert choose_files(["data/en_test.jsonl", "data/de_test.jsonl"], split="test", subset="de") == [
        "data/de_test.jsonl"
    ]


OFFLINE = """
import sys
from schemas.source import HubDatasetSource
from schemas.errors import ConfigError
from tasks.dataset.sources import read_rows
try:
    list(read_rows(HubDatasetSource(kind="hf", id="someone/something")))
except ConfigError as error:
    print(error.problems[0].key, "|", error.problems[0].suggestion)
"""


def test_hub_without_network_says_what_to_do(tmp_path: Path) -> None:
    env = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path), "PYTHONPATH": str(Path.cwd())}
    asked = subprocess.run(
        [sys.executable, "-c", OFFLINE], check=True, env=env, capture_output=True, text=True, timeout=120
    )
    assert asked.stdout.startswith("source.id |"), asked.stderr[-2000:]
    assert "local copy of its files as `folder`" in asked.stdout


def cached(home: Path, files: dict[str, str], *, name: str = "someone/something", commit: str = "c" * 40) -> None:
    """A hub's cache as an earlier download left it: a revision's name, its commit, that commit's files."""
    folder = home / "hub" / f"datasets--{name.replace('/', '--')}"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text(commit)
    for path, content in files.items():
        file = folder / "snapshots" / commit / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)


FROM_CACHE = """
import sys
from schemas.source import HubDatasetSource
from schemas.errors import ConfigError
from tasks.dataset.sources import file_fingerprint, read_rows
source = HubDatasetSource(kind="hf", id="someone/something", split=sys.argv[1], subset=sys.argv[2] or None)
try:
    print([row.fields["a"] for row in read_rows(source)], file_fingerprint(source)[:8])
except ConfigError as error:
    print(error.problems[0].key, "|", error.problems[0].message, "|", error.problems[0].suggestion)
"""


@pytest.mark.parametrize(
    ("split", "subset", "says"),
    [
        ("test", "", "[1, 2, 3] "),
        ("train", "big", "[9] "),
        ("train", "", "source.subset | the split 'train' of someone/something lies in several folders | name one of"),
        ("validation", "", "source.split | someone/something has no Parquet or JSONL file of split 'validation' |"),
        ("dev", "", "source.split | the hub's cache holds only a part of split 'dev'"),
    ],
)
def test_what_the_hubs_cache_holds_needs_no_network(tmp_path: Path, split: str, subset: str, says: str) -> None:
    rows = {
        "data/test-00000-of-00002.jsonl": '{"a": 1}\n{"a": 2}\n',
        "data/test-00001-of-00002.jsonl": '{"a": 3}\n',
        "big/train.jsonl": '{"a": 9}\n',
        "small/train.jsonl": '{"a": 8}\n',
        "dev-00001-of-00003.jsonl": '{"a": 7}\n',
        "README.md": "words",
    }
    cached(tmp_path, rows)
    env = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path), "PYTHONPATH": str(Path.cwd())}
    env.pop("HF_HUB_CACHE", None)
    asked = subprocess.run(
        [sys.executable, "-c", FROM_CACHE, split, subset],
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert asked.stdout.startswith(says), asked.stdout + asked.stderr[-2000:]
    if "[1" in says:
        expected = hashlib.sha256("".join(rows[name] for name in sorted(rows) if "test" in name).encode()).hexdigest()
        assert expected[:8] in asked.stdout
