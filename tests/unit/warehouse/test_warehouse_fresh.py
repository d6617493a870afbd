"""Bringing the database file up to date: what is looked at, what is taken over, what is never missed."""

import os
import shutil
from pathlib import Path

import duckdb
import pytest

from warehouse import folders
from warehouse.build import build, ensure_fresh
from warehouse.parquet import compact_run, remove_superseded, write_rows
from warehouse.query import query

RUN = "20261127T220355-3f9a2c"
OTHER = "20261128T220355-7b01de"


def _everything(home: Path) -> dict[str, list[str]]:
    """Every row of every table and view, as text. One question: each opens the database anew."""
    tables = [row[0] for row in query(home=home, sql="SHOW TABLES").rows]
    tables.remove("schema_version")
    each = (f"SELECT '{table}' AS name, CAST(row AS VARCHAR) AS text FROM {table} AS row" for table in tables)
    found: dict[str, list[str]] = {table: [] for table in tables}
    for name, text in query(home=home, sql=" UNION ALL ".join(each) + " ORDER BY ALL").rows:
        found[name].append(text)
    return found


def test_what_is_taken_over_equals_what_is_built_anew(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ensure_fresh(filled)
    monkeypatch.setattr(folders, "_UNSURE_NS", 0)
    for step in range(4):
        if step == 0:
            write_rows(home=filled, table="runs", run_id=RUN, rows=[{"status": "failed"}], part="end", revision=1)
        elif step == 1:
            write_rows(home=filled, table="metrics", run_id="new", rows=[{"scope": "run", "name": "n"}], part="p")
        elif step == 2:
            compact_run(home=filled, run_id=OTHER)
        else:
            for folder in (filled / "tables").glob(f"*/run={RUN}"):
                shutil.rmtree(folder)
        ensure_fresh(filled)
        updated = _everything(filled)
        build(filled)
        assert _everything(filled) == updated
    assert query(home=filled, sql="SELECT run_id FROM runs").rows == [(OTHER,)]


def test_runs_that_did_not_change_are_not_opened(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ensure_fresh(filled)
    monkeypatch.setattr(folders, "_UNSURE_NS", 0)
    broken = filled / "tables" / "metrics" / f"run={OTHER}" / "part-0.parquet"
    broken.write_bytes(b"in place, which assay never does")
    write_rows(home=filled, table="runs", run_id=RUN, rows=[{"status": "failed"}], part="end", revision=1)
    assert query(home=filled, sql="SELECT count(*) FROM metrics").rows == [(2,)]


def test_a_second_change_within_one_tick_of_the_clock_is_seen(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change time may be the same before and after: then what lies in the folder decides."""
    seen = folders.look(filled)
    stopped = folders.Look(at_ns=seen.at_ns, stamps=dict.fromkeys(seen.stamps, (seen.at_ns, 0)))
    monkeypatch.setattr(folders, "look", lambda home: stopped)
    ensure_fresh(filled)
    write_rows(home=filled, table="runs", run_id=RUN, rows=[{"status": "failed"}], part="end", revision=1)
    assert query(home=filled, sql=f"SELECT status FROM runs WHERE run_id = '{RUN}'").rows == [("failed",)]


def test_cleaning_up_builds_nothing_anew(filled: Path) -> None:
    compact_run(home=filled, run_id=RUN)
    before = ensure_fresh(filled).stat().st_ino
    tidy = filled / "tables" / "runs" / f"run={OTHER}"
    changed = tidy.stat().st_ctime_ns
    assert remove_superseded(filled, 0)
    assert tidy.stat().st_ctime_ns == changed
    assert ensure_fresh(filled).stat().st_ino == before


def test_a_restored_folder_with_its_old_times_is_seen(filled: Path, tmp_path: Path) -> None:
    ensure_fresh(filled)
    folder = filled / "tables" / "metrics" / f"run={RUN}"
    state = folder.stat()
    write_rows(home=filled, table="metrics", run_id=RUN, rows=[{"scope": "run", "name": "late"}], part="q")
    os.utime(folder, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert query(home=filled, sql="SELECT count(*) FROM metrics WHERE name = 'late'").rows == [(1,)]


def test_a_run_is_asked_for_without_opening_the_others(filled: Path) -> None:
    for run in (RUN, OTHER):
        compact_run(home=filled, run_id=run)
    sql = f"EXPLAIN ANALYZE SELECT count(*), sum(output_tokens) FROM requests WHERE run_id = '{RUN}'"
    database = ensure_fresh(filled)
    with duckdb.connect() as connection:
        connection.execute(f"ATTACH '{str(database).replace(chr(39), chr(39) * 2)}' AS w (READ_ONLY)")
        connection.execute("USE w")
        plan = connection.execute(sql).fetchall()[0][1]
    assert "Scanning Files: 1/2" in plan
    assert query(home=filled, sql=f"SELECT DISTINCT run_id FROM requests WHERE run_id = '{RUN}'").rows == [(RUN,)]


def test_a_home_below_a_folder_named_like_a_run(tmp_path: Path) -> None:
    home = tmp_path / "run=mine" / "home"
    write_rows(home=home, table="samples", run_id=RUN, rows=[{"sample_id": "1"}], part="p")
    compact_run(home=home, run_id=RUN)
    assert query(home=home, sql="SELECT run_id FROM samples").rows == [(RUN,)]


def test_a_file_that_cannot_be_taken_over_is_built_anew(filled: Path) -> None:
    before = _everything(filled)
    path = ensure_fresh(filled)
    content = bytearray(path.read_bytes())
    content[8192 : len(content) - 4096] = bytes(len(content) - 12288)
    path.write_bytes(bytes(content))
    write_rows(home=filled, table="metrics", run_id="new", rows=[{"scope": "run", "name": "n"}], part="p")
    after = _everything(filled)
    assert len(after.pop("metrics")) == len(before.pop("metrics")) + 1
    before.pop("leaderboard"), after.pop("leaderboard")
    assert after == before
