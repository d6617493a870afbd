"""JSON, Arrow, packed files, patterns of several files, DuckDB queries."""

import gzip
import hashlib
import json
import subprocess
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.feather
import pytest
from dataset_helpers import named
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from schemas.errors import ConfigError
from schemas.source import DatasetSource
from tasks.dataset.load import load_rows
from tasks.dataset.sources import file_fingerprint, read_rows

ROWS = [{"id": n, "q": f"row {n} é"} for n in range(3)]


def source(**keys: Any) -> Any:
    return TypeAdapter(DatasetSource).validate_python({name: str(value) for name, value in keys.items()})


def fields(**keys: Any) -> list[Any]:
    return [row.fields for row in read_rows(source(**keys), file=Path("d.yaml"))]


def problem_of(**keys: Any) -> Any:
    with pytest.raises(ConfigError) as caught:
        fields(**keys)
    assert len(caught.value.problems) == 1
    return caught.value.problems[0]


def packed(path: Path, content: bytes) -> Path:
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(content))
    elif path.suffix == ".zst":
        with pa.CompressedOutputStream(str(path), "zstd") as stream:
            stream.write(content)
    else:
        path.write_bytes(content)
    return path


# JSON


def test_a_json_list_is_read_row_by_row_with_its_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b'\xef\xbb\xbf[\n {"a": "x]\\"}", "n":\n 1.50},\n\n {"a": {"b": [1]}}\n]\n')
    rows = list(read_rows(source(kind="json", path=path)))
    assert [row.fields for row in rows] == [{"a": 'x]"}', "n": 1.5}, {"a": {"b": [1]}}]
    assert [(row.line, row.index, row.file) for row in rows] == [(2, 0, path), (5, 1, path)]
    assert rows[0].raw == b'{"a": "x]\\"}", "n":\n 1.50}'
    path.write_text("[]")
    assert fields(kind="json", path=path) == []


def test_the_list_may_lie_in_a_field(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"version": 1.25, "n": 12, "meta": {"rows": []}, "rows": ROWS, "end": None}))
    assert fields(kind="json", path=path, field="rows") == ROWS
    problem = problem_of(kind="json", path=path, field="row")
    assert problem.suggestion == "did you mean `rows`?"
    assert problem.file == path
    assert "end, meta, n, rows, version" in problem_of(kind="json", path=path).suggestion
    assert "a list of rows" in problem_of(kind="json", path=path, field="meta").message
    path.write_text(json.dumps(ROWS))
    assert problem_of(kind="json", path=path, field="rows").suggestion == "leave `field` out"


@pytest.mark.parametrize(
    ("content", "line", "says"),
    [
        (b'[{"a": 1},\n {"a": }]', 2, "column 8"),
        (b'[{"a": 1},\n\n 3]', 3, "a number"),
        (b'[{"a": 1}\n {"a": 2}]', 2, "stands where ']'"),
        (b'[{"a": 1}', 1, "the file ends"),
        (b'[{"a": "x', 1, "Unterminated"),
        (b'[{"a": NaN}]', 1, "NaN"),
        (b'[{"a": 1e999}]', 1, "out of range"),
        (b'[{"a": 1}]\n[]', 2, "after its end"),
        (b'[{"a": 1},]', 1, "Expecting value"),
        (b'[\n{"a": "\xff"}]', 2, "not UTF-8"),
        (b'"text"', 1, "a list of rows"),
        (b"", 1, "a list of rows"),
        (b"[" * 100_000, 1, "an array|broken JSON"),
    ],
)
def test_broken_json_is_said_with_its_line(tmp_path: Path, content: bytes, line: int, says: str) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(content)
    problem = problem_of(kind="json", path=path)
    assert (problem.file, problem.line) == (path, line)
    assert any(word in problem.message for word in says.split("|")), problem.message


VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(st.characters(exclude_categories=["Cs"]))),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text('ab]}"\\', max_size=3), inner)),
    max_leaves=8,
)


@given(
    st.lists(st.dictionaries(st.text("xyz", min_size=1), VALUES, max_size=3), max_size=6), st.sampled_from([None, 2])
)
@settings(max_examples=40, deadline=None)
def test_json_read_in_small_pieces_is_the_same(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Any], indent: int | None
) -> None:
    path = tmp_path_factory.mktemp("j") / "a.json"
    path.write_text(
        json.dumps({"n": 17, "f": -1.25e3, "rows": rows, "m": 5}, indent=indent, ensure_ascii=False), "utf-8"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tasks.dataset.text_rows._PIECE", 3)
        read = list(read_rows(source(kind="json", path=path, field="rows")))
    assert [row.fields for row in read] == rows
    assert [json.loads(row.raw) for row in read] == rows
    text = path.read_text("utf-8").split("\n")
    assert all(text[(row.line or 0) - 1].lstrip().startswith(("{", '"rows"')) for row in read)


# packed files


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
@pytest.mark.parametrize("kind", ["jsonl", "json", "csv"])
def test_packed_files_read_like_plain_ones(tmp_path: Path, kind: str, suffix: str) -> None:
    rows = [{"id": str(n), "q": f"é {n}"} for n in range(2000)]
    text = {
        "jsonl": "".join(json.dumps(row) + "\n" for row in rows),
        "json": json.dumps(rows, indent=1),
        "csv": "id,q\n" + "".join(f"{row['id']},{row['q']}\n" for row in rows),
    }[kind]
    path = packed(tmp_path / f"a.{kind}{suffix}", text.encode())
    assert fields(kind=kind, path=path) == rows
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert file_fingerprint(source(kind=kind, path=path)) == digest
    assert len(fields(kind=kind, path=path, revision=f"sha256:{digest}")) == 2000


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_a_broken_packed_file_is_named(tmp_path: Path, suffix: str) -> None:
    content = "".join(json.dumps({"q": hashlib.sha256(str(n).encode()).hexdigest()}) + "\n" for n in range(5000))
    path = packed(tmp_path / f"a.jsonl{suffix}", content.encode())
    whole = path.read_bytes()
    for broken in (b"no such thing", whole[: len(whole) // 2]):
        path.write_bytes(broken)
        problem = problem_of(kind="jsonl", path=path)
        assert problem.file == path
        assert "readable" in problem.message or "broken JSON" in problem.message


# several files


def test_a_pattern_reads_its_files_in_order(tmp_path: Path) -> None:
    for name in ("part-2.jsonl", "part-10.jsonl.gz", "part-1.jsonl", "other.jsonl", "deep/part-3.jsonl"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        packed(path, f'{{"id": "{name}"}}\n\n{{"id": "{name}b"}}\n'.encode())
    pattern = tmp_path / "part-*.jsonl*"
    rows = list(read_rows(source(kind="jsonl", path=pattern)))
    assert [row.fields["id"] for row in rows][::2] == ["part-1.jsonl", "part-10.jsonl.gz", "part-2.jsonl"]
    assert [row.index for row in rows] == list(range(6))
    assert rows[5].file == tmp_path / "part-2.jsonl"
    assert rows[5].line == 3
    assert len(fields(kind="jsonl", path=tmp_path / "**" / "*.jsonl")) == 8

    # what stands in the shell: sha256sum part-*.jsonl* | sha256sum
    told = subprocess.run(
        "LC_ALL=C sha256sum part-*.jsonl* | sha256sum", shell=True, check=True, cwd=tmp_path, capture_output=True
    )
    fingerprint = file_fingerprint(source(kind="jsonl", path=pattern))
    assert told.stdout.decode().split()[0] == fingerprint
    (tmp_path / "part-2.jsonl").rename(tmp_path / "part-3.jsonl")
    assert file_fingerprint(source(kind="jsonl", path=pattern)) != fingerprint
    assert "has changed" in problem_of(kind="jsonl", path=pattern, revision=f"sha256:{fingerprint}").message

    (tmp_path / "part-3.jsonl").write_text('{"id": 1}\n{"id": \n')
    problem = problem_of(kind="jsonl", path=pattern)
    assert (problem.file, problem.line) == (tmp_path / "part-3.jsonl", 2)


def test_faults_of_ids_name_the_file_that_has_them(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"id": "x"}\n{"id": "y"}\n')
    (tmp_path / "b.jsonl").write_text('{"id": "z"}\n\n{"id": "y"}\n')
    with pytest.raises(ConfigError) as caught:
        load_rows(named({"kind": "jsonl", "path": str(tmp_path / "*.jsonl")}, id_field="id"))
    problem = caught.value.problems[0]
    assert (problem.file, problem.line) == (tmp_path / "b.jsonl", 3)
    assert "row 1 (line 2 of a.jsonl) and row 3 (line 3)" in problem.message
    (tmp_path / "b.jsonl").write_text('{"id": "z"}\n{"idd": "y"}\n')
    with pytest.raises(ConfigError) as caught:
        load_rows(named({"kind": "jsonl", "path": str(tmp_path / "*.jsonl")}, id_field="id"))
    assert (caught.value.problems[0].file, caught.value.problems[0].line) == (tmp_path / "b.jsonl", 2)


def test_a_pattern_that_nothing_matches_says_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text("{}\n")
    problem = problem_of(kind="jsonl", path=tmp_path / "part-*.jsonl")
    assert (problem.file, problem.key) == (Path("d.yaml"), "source.path")
    assert "rows.jsonl" in problem.suggestion
    odd = tmp_path / "rows[1].jsonl"  # a name that looks like a pattern
    odd.write_text('{"a": 1}\n')
    assert fields(kind="jsonl", path=odd) == [{"a": 1}]


# Arrow


def test_arrow_files_and_streams(tmp_path: Path) -> None:
    table = pa.table({"id": list(range(3000)), "q": [f"row {n}" for n in range(3000)]})
    for name, opened in (("file", pa.ipc.new_file), ("stream", pa.ipc.new_stream)):
        path = tmp_path / f"{name}.arrow"
        with pa.OSFile(str(path), "wb") as sink, opened(sink, table.schema) as writer:
            writer.write_table(table)
        assert fields(kind="arrow", path=path) == table.to_pylist()
    feather = tmp_path / "a.feather"
    pyarrow.feather.write_feather(table, str(feather), compression="zstd")
    assert fields(kind="arrow", path=feather) == table.to_pylist()
    assert len(fields(kind="arrow", path=tmp_path / "*.arrow")) == 6000
    for content in (b"ARROW1 not really", b"", b"junk"):
        feather.write_bytes(content)
        assert problem_of(kind="arrow", path=feather).file == feather


# DuckDB


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "rows"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    (folder / "names.csv").write_text("id,name\n2,two\n0,zero\n")
    (folder / "sub" / "more.csv").write_text("id,name\n1,one\n")
    pa.parquet.write_table(pa.table({"id": [7]}), folder / "p.parquet")
    (tmp_path / "secret.csv").write_text("word\nhidden\n")
    return folder


def test_a_query_over_files(folder: Path) -> None:
    sql = "SELECT a.id, name, q FROM 'a.jsonl' a JOIN 'names.csv' USING (id) ORDER BY names.id"
    assert fields(kind="duckdb", path=folder, query=sql) == [
        {"id": 0, "name": "zero", "q": "row 0 é"},
        {"id": 2, "name": "two", "q": "row 2 é"},
    ]
    given = fields(kind="duckdb", path=folder, query="WITH x AS (FROM 'sub/*.csv') SELECT x.* FROM x UNION ALL FROM x")
    assert given == [{"id": 1, "name": "one"}] * 2
    assert fields(kind="duckdb", path=folder, query="FROM read_parquet('p.parquet')") == [{"id": 7}]
    whole = f"SELECT count(*) AS n FROM '{folder}/a.jsonl' WHERE id IN (SELECT id FROM 'names.csv')"
    assert fields(kind="duckdb", path=folder, query=whole) == [{"n": 2}]


def test_a_query_is_named_by_the_rows_that_it_gives(folder: Path) -> None:
    one = source(kind="duckdb", path=folder, query="SELECT id FROM 'names.csv' ORDER BY id")
    other = source(kind="duckdb", path=folder, query="SELECT id FROM 'names.csv' WHERE id < 9 ORDER BY 1")
    fingerprint = file_fingerprint(one)
    assert fingerprint == file_fingerprint(other) == hashlib.sha256(b'{"id":0}\n{"id":2}\n').hexdigest()
    keys = {"kind": "duckdb", "path": folder, "query": one.query, "revision": f"sha256:{fingerprint}"}
    assert len(fields(**keys)) == 2
    (folder / "names.csv").write_text("id,name\n3,three\n")
    problem = problem_of(**keys)
    assert problem.key == "source.revision"
    assert "what the query gives has changed" in problem.message


def test_a_query_of_a_database_file(tmp_path: Path) -> None:
    path = tmp_path / "rows.duckdb"
    with duckdb.connect(str(path)) as made:
        made.execute("CREATE TABLE questions AS SELECT range AS id, 'q' || range AS q FROM range(5000)")
    before = path.read_bytes()
    rows = list(read_rows(source(kind="duckdb", path=path, query="FROM questions ORDER BY id")))
    assert len(rows) == 5000
    assert (rows[4999].index, rows[4999].fields, rows[4999].line) == (4999, {"id": 4999, "q": "q4999"}, None)
    assert path.read_bytes() == before
    (tmp_path / "x.csv").write_text("a\n1\n")
    assert "only its tables" in problem_of(kind="duckdb", path=path, query=f"FROM '{tmp_path}/x.csv'").suggestion


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("DROP TABLE x", "does more than read"),
        ("SELECT 1; SELECT 2", "2 statements"),
        ("COPY (SELECT 1) TO 'out.csv'", "does more than read"),
        ("INSTALL httpfs", "does more than read"),
        ("SET memory_limit = '10GB'", "does more than read"),
        ("SELECT * FROM read_text('a.jsonl')", "read_text"),
        ("SELECT * FROM glob('/*')", "glob"),
        ("SELECT * FROM '../secret.csv'", "Cannot access file"),
        ("SELECT * FROM read_parquet('/etc/x.parquet')", "Cannot access file"),
        ("SELECT * FROM read_parquet(['p.parquet', '../p.parquet'])", "Cannot access file"),
        ("SELECT * FROM 'https://example.invalid/x.csv'", "Cannot access file|there is no file"),
        ("SELECT id, id FROM 'p.parquet'", "two columns named 'id'"),
        ("SELECT 1 / 'x'", "Conversion Error"),
    ],
)
def test_a_query_can_do_nothing_but_read_its_folder(folder: Path, sql: str, says: str) -> None:
    before = sorted(folder.rglob("*"))
    problem = problem_of(kind="duckdb", path=folder, query=sql)
    assert (problem.file, problem.key) == (Path("d.yaml"), "source.query")
    assert any(word in problem.message for word in says.split("|")), problem.message
    assert sorted(folder.rglob("*")) == before


def test_a_query_says_the_nearest_name(folder: Path) -> None:
    assert problem_of(kind="duckdb", path=folder, query="FROM 'name.csv'").suggestion == "did you mean 'names.csv'?"
    assert problem_of(kind="duckdb", path=folder, query="SELECT nam FROM 'names.csv'").suggestion.endswith("`name`?")
    assert "stands as" in problem_of(kind="duckdb", path=folder, query="SELECT 1 FROM names").suggestion
    assert problem_of(kind="duckdb", path=folder / "none", query="SELECT 1").key == "source.path"


def test_a_query_streams_and_keeps_what_json_cannot_hold(folder: Path) -> None:
    rows = read_rows(source(kind="duckdb", path=folder, query="SELECT range AS n FROM range(1000000000)"))
    assert [next(rows).fields["n"] for _ in range(3)] == [0, 1, 2]
    sql = "SELECT DATE '2024-01-02' AS d, 1.50::DECIMAL(4,2) AS c, 'NaN'::DOUBLE AS x, [1, NULL] AS l, {'a': 1} AS s"
    assert fields(kind="duckdb", path=folder, query=sql) == [
        {"d": "2024-01-02", "c": "1.50", "x": None, "l": [1, None], "s": {"a": 1}}
    ]
