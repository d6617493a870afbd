"""Runs whose process is gone: they are given the end that nobody was left to write.

A run holds its lock, `runs/<id>/lock`, for as long as its process lives; the kernel frees it when the process dies. So
a run that is `running` in the warehouse and whose lock is free is an orphan.
"""

import datetime
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from schemas.run import MADE_OF_RUNS
from tasks.record import mlflow_run
from tasks.record.tracking import sync
from warehouse.parquet import read_rows, write_rows
from warehouse.parts import tables_folder

_CLOSING_S = 10.0
"""The most that MLflow may take for all orphans together; what is not through by then waits in the spool."""


@dataclass(frozen=True, kw_only=True)
class ClosedRun:
    """An orphan as it was closed. mlflow_run_id: None if MLflow never had it; tracking: None if MLflow has it as
    KILLED, else why that waits."""

    run_id: str
    name: str
    started_at: datetime.datetime
    ended_at: datetime.datetime
    prefect_flow_run_id: str | None
    mlflow_run_id: str | None
    tracking: str | None


def close_orphans(home: Path, *, host: str | None = None) -> list[ClosedRun]:
    """Closes every run of this host whose process is gone: `crashed` in the warehouse, KILLED in MLflow.

    host: the machine to speak for; this one, unless named. A run that is alive, of another host, or whose folder is not
    under home (it was imported) is not touched. Two callers at once close each orphan once: whoever has its lock does.
    Its end is its last sign of life. Raises OSError where the warehouse cannot be written; what MLflow cannot take now
    waits in the spool."""
    mine = host or socket.gethostname()
    columns = ["run_id", "revision", "status", "host"]
    running = [row for row in read_rows(home, "runs", columns=columns) if row["status"] == "running"]
    closed = [
        row
        for run_id in sorted(str(row["run_id"]) for row in running if row["host"] == mine)
        if (row := _close(home, run_id)) is not None
    ]
    if not closed:
        return []
    waits = sync.sync(home, within_s=_CLOSING_S, only=[row["run_id"] for row in closed]).remaining
    return [
        ClosedRun(
            run_id=row["run_id"],
            name=row["name"],
            started_at=row["started_at"],
            ended_at=row["ended_at"],
            prefect_flow_run_id=row["prefect_flow_run_id"],
            # One that MLflow took only now has its id beside it; the row here is as it was before.
            mlflow_run_id=row["mlflow_run_id"] or mlflow_run.known_id(home / "runs" / row["run_id"]),
            tracking=row["tracking"] or waits.get(row["run_id"]),
        )
        for row in closed
    ]


def _close(home: Path, run_id: str) -> dict[str, Any] | None:
    """Writes the end of one run, if nobody lives who would. The lock is held for that moment only: a session that wants
    to go on with the run waits for it."""
    folder = home / "runs" / run_id
    if not folder.is_dir():
        return None
    lock = FileLock(folder / "lock")
    try:
        lock.acquire(blocking=False)
    except Timeout:
        return None
    try:
        row = read_rows(home, "runs", run_id, parse_json=True)[0]
        if row["status"] != "running":
            return None  # it came to its end since it was listed
        revision = row.pop("revision") + 1
        row |= {
            "status": "crashed",
            "ended_at": _last_sign(home, run_id) or row["started_at"],
            "error": "its process ended without a word (killed, out of memory, or the machine stopped); "
            f"what was answered is kept: assay {_command(row)} --resume {run_id}",
        }
        row["mlflow_run_id"] = row["mlflow_run_id"] or mlflow_run.known_id(folder)
        write_rows(
            home=home, table="runs", run_id=run_id, rows=[row], part=f"{revision:04d}-crashed", revision=revision
        )
        return row | {"tracking": _spooled(home, run_id)}
    finally:
        lock.release()


def _command(row: Mapping[str, Any]) -> str:
    """What goes on with a run; one that is made of other runs has a command of its own."""
    return str(row["flow"]) if row["flow"] in MADE_OF_RUNS else "run"


def _spooled(home: Path, run_id: str) -> str | None:
    try:
        mlflow_run.prepare(home, run_id)
    except mlflow_run.TrackingError as error:
        return str(error)
    return None


def _last_sign(home: Path, run_id: str) -> datetime.datetime | None:
    """When the run last wrote rows; None if it never did."""
    times = [path.stat().st_mtime for path in _parts(home, run_id)]
    return datetime.datetime.fromtimestamp(max(times), datetime.UTC) if times else None


def _parts(home: Path, run_id: str) -> Iterator[Path]:
    for table in tables_folder(home).iterdir():
        yield from (table / f"run={run_id}").glob("*.parquet")
