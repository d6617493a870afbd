"""Compaction: every reader sees every row once, whatever is killed."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pyarrow.parquet as pq

from warehouse.parquet import compact_run, list_parts, read_rows, remove_superseded, write_rows
from warehouse.query import query
from warehouse.schema import SCHEMA_VERSION
from warehouse.schema.changes import METADATA_KEY

RUN = "20261127T220355-3f9a2c"

_VICTIMS = """
import os, sys
from pathlib import Path
from warehouse.compact import compact_run, remove_superseded
from warehouse.parquet import write_rows

home, acknowledged = Path(sys.argv[1]), os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        for number in range(10_000):
            name = f"{line.strip()}-{number}"
            rows = [{"request_id": name, "attempt": attempt, "output": name * 50} for attempt in range(2)]
            rows.append({"request_id": "revised", "attempt": 0, "output": name})
            revision = int(line) * 10_000 + number
            write_rows(home=home, table="requests", run_id=sys.argv[3], rows=rows, part="p", revision=revision)
            os.write(acknowledged, f"{name} {revision}\\n".encode())
            compact_run(home=home, run_id=sys.argv[3])
            if number % 3 == 2:
                remove_superseded(home, 0)
        os._exit(0)
    print(child, flush=True)
    os.waitpid(child, 0)
    print("gone", flush=True)
"""


def _write(home: Path, *names: str, attempt: int = 0, revision: int = 0) -> None:
    rows = [{"request_id": name, "attempt": attempt} for name in names]
    write_rows(home=home, table="requests", run_id=RUN, rows=rows, part="p", revision=revision)


def _folder(home: Path) -> Path:
    return home / "tables" / "requests" / f"run={RUN}"


def test_last_attempts_and_earlier_ones_go_to_two_files(home: Path) -> None:
    _write(home, "a", "b")
    _write(home, "a", attempt=1)
    _write(home, "b", revision=3)
    assert compact_run(home=home, run_id=RUN) == ["requests"]
    files = {path.name.split("-")[1]: pq.ParquetFile(path) for path in list_parts(home=home, table="requests")}
    rows = {name: file.read(["request_id", "attempt", "revision"]).to_pylist() for name, file in files.items()}
    assert sorted(tuple(row.values()) for row in rows["last"]) == [("a", 1, 0), ("b", 0, 3)]
    assert [tuple(row.values()) for row in rows["earlier"]] == [("a", 0, 0)]
    assert all(file.metadata.metadata[METADATA_KEY] == str(SCHEMA_VERSION).encode() for file in files.values())
    assert compact_run(home=home, run_id=RUN) == []


def test_compacted_rows_equal_the_parts(filled: Path) -> None:
    def everything() -> dict[str, list[dict[str, object]]]:
        tables = ("runs", "samples", "requests", "scores", "steps", "telemetry", "metrics", "profiles", "grammars")
        return {table: sorted(read_rows(filled, table), key=repr) for table in tables}

    before = everything()
    for run_id in ("20261127T220355-3f9a2c", "20261128T220355-7b01de"):
        compact_run(home=filled, run_id=run_id)
    assert everything() == before
    assert compact_run(home=filled, run_id="20990101T000000-000000") == []


def test_replaced_files_stay_until_they_are_old(home: Path) -> None:
    _write(home, "a")
    _write(home, "b")
    compact_run(home=home, run_id=RUN)
    assert remove_superseded(home, 3600) == []
    (_folder(home) / "_compacted-last-orphan.parquet").write_bytes(b"killed before its manifest")
    assert len(list_parts(home=home, table="requests")) == 1
    assert len(remove_superseded(home, 0)) == 3
    kept = sorted(path.name.split("-")[0] for path in _folder(home).iterdir())
    assert kept == ["_compacted", "_lock", "_manifest.json"]
    assert {row["request_id"] for row in read_rows(home, "requests")} == {"a", "b"}


def test_a_part_may_take_the_name_of_a_replaced_one(home: Path) -> None:
    _write(home, "a")
    compact_run(home=home, run_id=RUN)
    _write(home, "b")  # the first part's file is still there
    remove_superseded(home, 0)
    _write(home, "c")
    assert {row["request_id"] for row in read_rows(home, "requests")} == {"a", "b", "c"}
    assert query(home=home, sql="SELECT count(*) FROM requests").rows == [(3,)]


def test_readers_see_every_row_once_while_parts_are_compacted(home: Path) -> None:
    _write(home, "start")
    written, stop, failures = [1], threading.Event(), []

    def work() -> None:
        try:
            for number in range(12):
                _write(home, f"r{number}")
                written[0] += 1
                compact_run(home=home, run_id=RUN)
        except Exception as error:  # noqa: BLE001 - reported in the test's own thread
            failures.append(error)
        finally:
            stop.set()

    worker = threading.Thread(target=work)
    worker.start()
    looks = 0
    while not stop.is_set() or looks < 3:
        least = written[0]
        if looks % 2:
            sql = "SELECT count(*), count(DISTINCT request_id) FROM request_attempts"
            count, distinct = query(home=home, sql=sql).rows[0]
        else:
            names = [row["request_id"] for row in read_rows(home, "requests", RUN, columns=["request_id"])]
            count, distinct = len(names), len(set(names))
        assert count == distinct
        assert count >= least
        looks += 1
    worker.join()
    assert not failures


def test_a_kill_at_any_moment_loses_and_doubles_nothing(home: Path, tmp_path: Path) -> None:
    home.mkdir()
    log = tmp_path / "acknowledged"
    log.touch()
    choose = random.Random(20261127)
    command = [sys.executable, "-c", _VICTIMS, str(home), str(log), RUN]
    kills = 24
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as victims:
        assert victims.stdin is not None
        assert victims.stdout is not None
        for number in range(kills):
            victims.stdin.write(f"{number}\n")
            victims.stdin.flush()
            child = int(victims.stdout.readline())
            if number % 4:  # every fourth kill may come before the first part is written
                _wait_for_growth(log)
            time.sleep(choose.uniform(0, 0.15))
            os.kill(child, signal.SIGKILL)
            assert victims.stdout.readline() == "gone\n"
            _check(home=home, log=log, with_sql=number % 8 == 7)
        victims.stdin.close()
    compact_run(home=home, run_id=RUN)
    remove_superseded(home, 0)
    _check(home=home, log=log, with_sql=True)
    assert len(log.read_text().splitlines()) > kills / 2, "too few rows were written for the kills to mean anything"
    assert sum(path.suffix in {".parquet", ".tmp"} for path in _folder(home).iterdir()) == 2


def _wait_for_growth(log: Path) -> None:
    before, deadline = log.stat().st_size, time.monotonic() + 60
    while log.stat().st_size == before and time.monotonic() < deadline:
        time.sleep(0.002)


def _check(*, home: Path, log: Path, with_sql: bool) -> None:
    acknowledged = [line.split() for line in log.read_text().splitlines()]
    wanted = {(name, attempt) for name, _ in acknowledged for attempt in range(2)}
    rows = read_rows(home, "requests", RUN, columns=["request_id", "attempt", "revision"])
    keys = [(row["request_id"], row["attempt"]) for row in rows]
    assert len(keys) == len(set(keys))
    assert wanted <= set(keys)
    if acknowledged:
        revised = next(row["revision"] for row in rows if row["request_id"] == "revised")
        assert revised >= max(int(revision) for _, revision in acknowledged)
    if with_sql:
        sql = "SELECT request_id, attempt FROM request_attempts ORDER BY ALL"
        assert query(home=home, sql=sql).rows == sorted(keys)
        last = query(home=home, sql="SELECT request_id, attempt FROM requests WHERE request_id <> 'revised'").rows
        assert sorted(last) == sorted(key for key in keys if key[1] == 1)
