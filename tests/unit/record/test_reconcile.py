"""Runs whose process is gone are closed; runs that live, or that are not ours, are left alone."""

import datetime
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from filelock import FileLock

from tasks.record import stage
from tasks.record.reconcile import ClosedRun, close_orphans
from tasks.record.tracking import spool, sync
from tasks.session import Session
from tests.mlflow_parts import Stored, answered, assert_whole, begun, ended, free_port
from warehouse.parquet import read_rows

ROOT = Path(__file__).resolve().parents[3]

HOLDER = """
import sys
import time
from filelock import FileLock
lock = FileLock(sys.argv[1])
lock.acquire()
print("held", flush=True)
time.sleep(600)
"""


def orphan(home: Path, *, tracked: bool = True) -> Session:
    """A run whose process is gone: its lock is free, its row says running."""
    session = begun(home)
    if tracked:
        stage.start_tracking(session)
    answered(session)
    (session.run.folder / "lock").touch()
    return session


def row_of(home: Path, session: Session) -> dict:
    return read_rows(home, "runs", session.run.run_id)[0]


def test_an_orphan_is_crashed_here_and_killed_in_mlflow(empty_home: Path) -> None:
    session = orphan(empty_home)
    last = datetime.datetime.now(datetime.UTC) - datetime.timedelta(minutes=5)
    parts = list((empty_home / "tables").glob(f"*/run={session.run.run_id}/*.parquet"))
    for part in parts:
        os.utime(part, (last.timestamp() - 60, last.timestamp() - 60))
    os.utime(parts[0], (last.timestamp(), last.timestamp()))

    (closed,) = close_orphans(empty_home)
    row = row_of(empty_home, session)
    assert closed == ClosedRun(
        run_id=session.run.run_id,
        name="quickstart",
        started_at=row["started_at"],
        ended_at=row["ended_at"],
        prefect_flow_run_id="flow-1",
        mlflow_run_id=row["mlflow_run_id"],
        tracking=None,
    )
    assert row["status"] == "crashed" and f"assay run --resume {session.run.run_id}" in row["error"]
    assert abs((row["ended_at"] - last).total_seconds()) < 0.01
    parent, *_ = assert_whole(Stored(empty_home / "mlflow.db"), session.run.run_id, status="KILLED")
    assert parent["id"] == closed.mlflow_run_id
    assert parent["end"] == int(row["ended_at"].timestamp() * 1000) and parent["tags"]["assay.status"] == "crashed"
    assert f"assay run --resume {session.run.run_id}" in parent["tags"]["mlflow.note.content"]
    assert close_orphans(empty_home) == []


def test_a_run_that_lives_is_left_alone_until_it_is_killed(empty_home: Path) -> None:
    session = begun(empty_home)
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(session.run.folder / "lock")], stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None and holder.stdout.readline() == "held\n"
    try:
        assert close_orphans(empty_home) == []
        assert row_of(empty_home, session)["status"] == "running"
    finally:
        holder.kill()
        holder.wait()
    assert [run.run_id for run in close_orphans(empty_home)] == [session.run.run_id]
    holder.stdout.close()


def test_runs_of_others_are_left_alone(empty_home: Path) -> None:
    session = orphan(empty_home, tracked=False)
    assert close_orphans(empty_home, host=f"not-{socket.gethostname()}") == []
    imported = orphan(empty_home, tracked=False)
    imported.run.folder.rename(empty_home / "elsewhere")
    assert [run.run_id for run in close_orphans(empty_home)] == [session.run.run_id]
    assert row_of(empty_home, imported)["status"] == "running"
    assert not imported.run.folder.exists()


def test_runs_that_have_ended_are_left_alone(empty_home: Path) -> None:
    session = begun(empty_home)
    answered(session)
    stage.end(session, status="finished")
    before = row_of(empty_home, session)
    assert close_orphans(empty_home) == [] and row_of(empty_home, session) == before


def test_two_reconcilers_at_once_close_a_run_once(empty_home: Path) -> None:
    sessions = [orphan(empty_home, tracked=False) for _ in range(5)]
    found: list[str] = []
    threads = [
        threading.Thread(target=lambda: found.extend(run.run_id for run in close_orphans(empty_home))) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == sorted(session.run.run_id for session in sessions)
    for session in sessions:
        folder = empty_home / "tables" / "runs" / f"run={session.run.run_id}"
        assert len(list(folder.glob("*-crashed*.parquet"))) == 1
        assert_whole(Stored(empty_home / "mlflow.db"), session.run.run_id, status="KILLED")


def test_mlflow_down_waits_in_the_spool(empty_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = orphan(empty_home)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{free_port()}")
    began = time.monotonic()
    (closed,) = close_orphans(empty_home)
    assert time.monotonic() - began < 15
    assert closed.tracking is not None and row_of(empty_home, session)["status"] == "crashed"
    assert spool.waiting(empty_home) == [session.run.run_id]
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    assert sync.sync(empty_home).remaining == {}
    assert_whole(Stored(empty_home / "mlflow.db"), session.run.run_id, status="KILLED")


def test_the_mlflow_run_is_named_if_there_is_one(empty_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    orphan(empty_home, tracked=False)
    (closed,) = close_orphans(empty_home)
    parent, *_ = Stored(empty_home / "mlflow.db").runs(closed.run_id)
    assert closed.mlflow_run_id == parent["id"]
    orphan(empty_home, tracked=False)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{free_port()}")
    (closed,) = close_orphans(empty_home)
    assert closed.mlflow_run_id is None and closed.tracking is not None


def test_a_crashed_run_goes_on(empty_home: Path) -> None:
    session = orphan(empty_home)
    close_orphans(empty_home)
    stored = Stored(empty_home / "mlflow.db")
    again = begun(empty_home, resume=session.run.run_id)
    with FileLock(again.run.folder / "lock"):
        assert again.run.resumed and row_of(empty_home, again)["status"] == "running"
        assert close_orphans(empty_home) == []
        stage.start_tracking(again)
        runs = stored.runs(session.run.run_id)
        assert {run["status"] for run in runs} == {"RUNNING"}
        answered(again)
        ended(again)
    parent, *_ = stored.runs(session.run.run_id)
    assert parent["id"] == runs[0]["id"] and parent["status"] == "FINISHED"
    row = row_of(empty_home, again)
    assert row["status"] == "finished" and row["mlflow_run_id"] == parent["id"] and row["error"] is None


def test_nothing_to_close(tmp_path: Path) -> None:
    assert close_orphans(tmp_path / "none") == []
