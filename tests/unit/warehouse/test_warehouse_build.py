"""The database file: what it shows, when it is built, what it survives."""

import multiprocessing
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from schemas.errors import AssayError, ConfigError
from warehouse.build import build, ensure_fresh
from warehouse.parquet import compact_run, list_parts, read_rows, write_rows
from warehouse.query import query
from warehouse.schema import SCHEMA_VERSION, TABLES
from warehouse.schema.changes import METADATA_KEY

RUN = "20261127T220355-3f9a2c"


def _one(home: Path, sql: str) -> object:
    return query(home=home, sql=sql).rows[0][0]


def _attempts(home: Path, *attempts: tuple[str, int, str], part: str = "p", revision: int = 0) -> None:
    rows = [{"request_id": name, "attempt": attempt, "status": status} for name, attempt, status in attempts]
    write_rows(home=home, table="requests", run_id=RUN, rows=rows, part=part, revision=revision)


def test_an_empty_warehouse_has_every_table_with_its_types(home: Path) -> None:
    build(home)
    for table in TABLES.values():
        result = query(home=home, sql=f"DESCRIBE {table.name}")
        assert [(row[0], row[1].replace('"', "")) for row in result.rows] == [
            (column.name, column.sql_type.replace('"', "")) for column in table
        ]
        if table.stored:
            assert _one(home, f"SELECT count(*) FROM {table.name}") == 0
    versions = query(home=home, sql="SELECT version FROM schema_version").rows
    assert versions == [(version,) for version in range(1, SCHEMA_VERSION + 1)]


def test_full_tables_have_the_same_types_as_empty_ones(filled: Path) -> None:
    for run in ("20261127T220355-3f9a2c", None):
        for table in TABLES.values():
            result = query(home=filled, sql=f"DESCRIBE {table.name}")
            assert [row[1].replace('"', "") for row in result.rows] == [
                column.sql_type.replace('"', "") for column in table
            ]
        if run:
            compact_run(home=filled, run_id=run)


def test_tables_and_columns_say_what_they_are(filled: Path) -> None:
    comments = dict(
        query(
            home=filled,
            sql="SELECT table_name || '.' || column_name, comment FROM duckdb_columns() WHERE schema_name = 'main'",
        ).rows
    )
    for table in TABLES.values():
        for column in table:
            assert comments[f"{table.name}.{column.name}"] == column.comment
    tables = dict(query(home=filled, sql="SELECT table_name, comment FROM duckdb_tables()").rows)
    views = dict(query(home=filled, sql="SELECT view_name, comment FROM duckdb_views() WHERE NOT internal").rows)
    assert tables["runs"] == TABLES["runs"].doc
    assert views["requests"] == TABLES["requests"].doc
    assert all(views[name] for name in ("request_attempts", "leaderboard", "failures"))


def test_requests_shows_last_attempts_and_request_attempts_all(home: Path) -> None:
    _attempts(home, ("a", 0, "error"), ("b", 0, "ok"))
    _attempts(home, ("a", 1, "ok"))
    for _ in range(2):
        rows = query(home=home, sql="SELECT request_id, attempt, status FROM requests ORDER BY ALL").rows
        assert rows == [("a", 1, "ok"), ("b", 0, "ok")]
        assert _one(home, "SELECT count(*) FROM request_attempts") == 3
        compact_run(home=home, run_id=RUN)


def test_parts_after_compaction_revise_what_was_compacted(home: Path) -> None:
    _attempts(home, ("a", 0, "error"), ("b", 0, "ok"))
    compact_run(home=home, run_id=RUN)
    _attempts(home, ("b", 0, "invalid"), revision=1)
    _attempts(home, ("a", 1, "ok"), part="late")
    for _ in range(2):
        rows = query(home=home, sql="SELECT request_id, attempt, status FROM requests ORDER BY ALL").rows
        assert rows == [("a", 1, "ok"), ("b", 0, "invalid")]
        assert _one(home, "SELECT count(*) FROM request_attempts") == 3
        assert len(read_rows(home, "requests")) == 3
        compact_run(home=home, run_id=RUN)


def test_a_key_with_null_in_it_is_one_key(home: Path) -> None:
    for revision in range(2):
        rows = [{"scope": "run", "name": "n", "arm": None, "cell_id": None, "value": float(revision)}]
        write_rows(home=home, table="metrics", run_id=RUN, rows=rows, part="m", revision=revision)
    assert query(home=home, sql="SELECT value FROM metrics").rows == [(1.0,)]
    assert [row["value"] for row in read_rows(home, "metrics")] == [1.0]


def test_deleting_or_breaking_the_file_loses_nothing(filled: Path) -> None:
    sql = "SELECT run_id, request_id, attempt, output FROM request_attempts ORDER BY ALL"
    before = query(home=filled, sql=sql).rows
    assert len(before) == 8
    (filled / "assay.duckdb").unlink()
    assert query(home=filled, sql=sql).rows == before
    (filled / "assay.duckdb").write_bytes(b"not a database")
    assert query(home=filled, sql=sql).rows == before


def test_a_file_that_vanishes_again_and_again_before_it_is_opened_is_made_again(
    filled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody deletes it between its making and its opening, and once more while it is asked whether it is another."""
    before = query(home=filled, sql="SELECT count(*) FROM samples").rows
    calls = 0

    def made_and_deleted(home: Path) -> Path:
        nonlocal calls
        calls += 1
        path = ensure_fresh(home)
        if calls <= 4:
            path.unlink()
        return path

    monkeypatch.setattr("warehouse.query.fresh", made_and_deleted)
    assert query(home=filled, sql="SELECT count(*) FROM samples").rows == before
    assert calls > 4


def test_it_is_built_anew_only_when_something_changed(filled: Path) -> None:
    def inode() -> int:
        return ensure_fresh(filled).stat().st_ino

    first = inode()
    assert inode() == first
    write_rows(home=filled, table="runs", run_id=RUN, rows=[{"status": "failed"}], part="end", revision=1)
    second = inode()
    assert second != first
    assert _one(filled, f"SELECT status FROM runs WHERE run_id = '{RUN}'") == "failed"
    assert inode() == second
    compact_run(home=filled, run_id=RUN)
    assert inode() != second
    moved = filled.rename(filled.with_name("moved"))
    assert _one(moved, "SELECT count(*) FROM samples") == 6


def test_older_parquet_lacks_columns_and_reads_as_null(home: Path) -> None:
    _attempts(home, ("new", 0, "ok"))
    folder = home / "tables" / "requests" / f"run={RUN}"
    fields = [("run_id", pa.string()), ("revision", pa.int32()), ("request_id", pa.string()), ("attempt", pa.int64())]
    schema = pa.schema(fields, metadata={METADATA_KEY: b"1"})
    old = {"run_id": RUN, "revision": 0, "request_id": "old", "attempt": 0}
    pq.write_table(pa.Table.from_pylist([old], schema=schema), folder / "old.parquet")
    for _ in range(2):
        rows = query(home=home, sql="SELECT request_id, status, gaps_ms FROM requests ORDER BY ALL").rows
        assert rows == [("new", "ok", None), ("old", None, None)]
        assert {row["request_id"]: row["status"] for row in read_rows(home, "requests")} == {"new": "ok", "old": None}
        compact_run(home=home, run_id=RUN)
    alone = folder.with_name("run=alone") / "p.parquet"
    alone.parent.mkdir()
    pq.write_table(pa.Table.from_pylist([old | {"run_id": "alone"}], schema=schema), alone)
    assert query(home=home, sql="SELECT violations FROM requests WHERE run_id = 'alone'").rows == [(None,)]


@pytest.mark.parametrize(
    ("metadata", "words"),
    [({METADATA_KEY: str(SCHEMA_VERSION + 1).encode()}, "use the newer assay"), (None, "did not write it")],
)
def test_what_a_newer_assay_or_another_program_wrote_is_refused(
    home: Path, metadata: dict[bytes, bytes] | None, words: str
) -> None:
    path = write_rows(home=home, table="runs", run_id=RUN, rows=[{"name": "n"}], part="p")
    pq.write_table(pq.ParquetFile(path).read().replace_schema_metadata(metadata), path)
    for read in (lambda: query(home=home, sql="FROM runs"), lambda: read_rows(home, "runs"), lambda: build(home)):
        with pytest.raises(AssayError, match=words):
            read()


def test_a_broken_part_is_named(home: Path) -> None:
    path = write_rows(home=home, table="runs", run_id=RUN, rows=[{"name": "n"}], part="p")
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(AssayError, match=r"p\.parquet: no Parquet file"):
        build(home)


def test_a_folder_that_duckdb_cannot_work_in_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="rename it"):
        build(tmp_path / "what?")


def test_other_folders_that_a_pattern_would_match_are_not_read(tmp_path: Path) -> None:
    for name in ("home*", "home-of-another"):
        write_rows(home=tmp_path / name, table="samples", run_id=RUN, rows=[{"sample_id": name}], part="p")
    assert query(home=tmp_path / "home*", sql="SELECT sample_id FROM samples").rows == [("home*",)]


def _build_many(home: Path, who: int) -> None:
    for number in range(3):
        rows = [{"cell_id": f"{who}-{number}"}]
        write_rows(home=home, table="cells", run_id=RUN, rows=rows, part=f"p{who}-{number}")
        sql = f"SELECT count(*) FROM cells WHERE cell_id = '{who}-{number}'"
        assert query(home=home, sql=sql).rows == [(1,)], "a builder's own row must be there"
        build(home)


def test_concurrent_builders_are_safe_and_leave_nothing(home: Path) -> None:
    (home / ".build-1-stale").mkdir(parents=True)
    context = multiprocessing.get_context("spawn")
    others = [context.Process(target=_build_many, args=(home, who)) for who in range(2)]
    for other in others:
        other.start()
    for other in others:
        other.join(120)
    assert [other.exitcode for other in others] == [0, 0]
    assert _one(home, "SELECT count(*) FROM cells") == 6
    assert sorted(path.name for path in home.iterdir()) == [".build.lock", "assay.duckdb", "tables"]
    assert len(list_parts(home=home, table="cells")) == 6


@pytest.mark.parametrize("length", [0, 100, None])
def test_a_broken_file_is_an_error_of_ours(tmp_path: Path, length: int | None) -> None:
    """None: the end of the file is right and a page is not."""
    path = write_rows(home=tmp_path, table="runs", run_id="r1", part="p", rows=[{"status": "finished", "name": "x"}])
    content = path.read_bytes()
    path.write_bytes(content[:length] if length is not None else content[:4] + b"\xff" * 396 + content[400:])
    with pytest.raises(AssayError):
        read_rows(tmp_path, "runs")
    with pytest.raises(AssayError):
        build(tmp_path)
