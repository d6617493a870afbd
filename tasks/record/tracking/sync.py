"""Getting what lies in the spool into MLflow: within bounds while a run runs, all of it with `assay sync`."""

import queue
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from filelock import FileLock, Timeout

from tasks.record.tracking import spool, store
from tasks.record.tracking.errors import TrackingError, TrackingUnreachable
from warehouse.parquet import read_rows, write_rows

ID_FILE = "mlflow_run_id"
"""The file in a run's folder that holds the id of its MLflow run."""
BEGIN_S, END_S, CLOSE_S, OTHERS_S = 5.0, 10.0, 3.0, 5.0
"""The most that MLflow may hold a run up: at its beginning, at its end, when it is broken off, and for what other runs
left in the spool."""
PROBE_S, AGAIN_S = 2.0, 6.0
"""The same where the last attempt of this run failed: for a first answer, without which there is no other attempt, and
for all of that attempt."""
_LOCAL_S = 60.0
"""For a store that is a file here: only its first use is slow, when its tables are made."""

T = TypeVar("T")

_in_trouble: set[str] = set()
"""Runs of this process whose last attempt failed: they do not wait for the same server again and again."""


@dataclass(kw_only=True)
class Synced:
    """What `sync` did. replayed: run ids; remaining: why each run's document still waits, by run id."""

    replayed: list[str] = field(default_factory=list)
    remaining: dict[str, str] = field(default_factory=dict)


def send(home: Path, run_id: str, *, within_s: float) -> str | None:
    """Publishes what the spool has of a run, and gives the id of its MLflow run; None where nothing waited.

    Takes at most within_s seconds (more where the store is a local file), whatever the server does: what is not through
    by then goes on in its thread until its next request, and stays in the spool. After a failure in this process the
    next attempt is only made if the server answers at once. Raises TrackingError."""
    store.warm_up()
    local = store.is_local(home)
    began = time.monotonic()
    again = run_id in _in_trouble and not local
    limit = _LOCAL_S if local else min(within_s, AGAIN_S) if again else within_s
    try:
        if again:
            bounded(lambda: store.answers(home), seconds=PROBE_S, what=_place(home))
        left = limit - (time.monotonic() - began)
        found = bounded(
            lambda: publish_waiting(home, run_id, deadline=store.Deadline(left)), seconds=left, what=_place(home)
        )
    except TrackingError as error:
        _in_trouble.add(run_id)
        raise type(error)(f"{error}; it is kept, and `assay sync` or the next run brings it to MLflow") from error
    _in_trouble.discard(run_id)
    return found


def has_trouble(run_id: str) -> bool:
    """The last attempt to publish this run from this process failed."""
    return run_id in _in_trouble


def publish_waiting(home: Path, run_id: str, *, deadline: store.Deadline) -> str | None:
    """Publishes what the spool has of a run, writes down its MLflow id, takes it out of the spool. One at a time.

    Raises TrackingError, or whatever MLflow and its stores raise."""
    folder = home / "runs" / run_id
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / "mlflow.lock", timeout=max(0.0, min(deadline.left_s, 60.0)))
    try:
        with lock:
            waiting = spool.read(home, run_id)
            if waiting is None:
                return None
            mlflow_run_id = store.publish(
                waiting.publication, home=home, deadline=deadline, above=_above(home, waiting.publication.below)
            )
            write_id(home, run_id, mlflow_run_id)
            spool.done(home, run_id, waiting)
            return mlflow_run_id
    except Timeout as error:
        raise TrackingUnreachable("another process is sending this run to MLflow") from error


def _above(home: Path, run_id: str | None) -> str | None:
    """The id of the MLflow run of the sweep that a run is a cell of; None where there is none, or none yet."""
    file = None if run_id is None else home / "runs" / run_id / ID_FILE
    return file.read_text().strip() if file is not None and file.exists() else None


def write_id(home: Path, run_id: str, mlflow_run_id: str) -> None:
    """Keeps the id of the MLflow run in the run's folder and, as the next revision, in the warehouse."""
    file = home / "runs" / run_id / ID_FILE
    if not file.exists() or file.read_text().strip() != mlflow_run_id:
        file.write_text(mlflow_run_id)
    rows = read_rows(home, "runs", run_id, parse_json=True)
    if rows and rows[0]["mlflow_run_id"] != mlflow_run_id:
        revision = rows[0]["revision"] + 1
        row = {name: value for name, value in rows[0].items() if name not in ("run_id", "revision")}
        write_rows(
            home=home,
            table="runs",
            run_id=run_id,
            rows=[row | {"mlflow_run_id": mlflow_run_id}],
            part=f"{revision:04d}-mlflow",
            revision=revision,
        )


def sync(
    home: Path,
    *,
    within_s: float | None = None,
    leave: str | None = None,
    only: Collection[str] | None = None,
    on_progress: Callable[[int, int, str], None] | None = None,
) -> Synced:
    """Publishes everything that waits, oldest first. Raises nothing that MLflow or its stores raise.

    within_s: no run is begun after that, and the one that is being sent is given up; None: as long as it takes.
    leave: a run that is not looked at. only: the runs that are; None: all. on_progress: called with how many are done,
    of how many, and the run that comes next. A server that is silent is asked once more, not once for each run."""
    ids = [each for each in spool.waiting(home) if each != leave and (only is None or each in only)]
    synced = Synced()
    if not ids:
        return synced
    deadline = store.Deadline(within_s)
    gone: str | None = None
    for index, run_id in enumerate(ids):
        if gone is None and deadline.left_s <= 0:
            gone = "not tried: the time was over"
        if gone is not None:
            synced.remaining[run_id] = gone
            continue
        if on_progress is not None:
            on_progress(index, len(ids), run_id)
        reason = _replayed(home, run_id, deadline, within_s)
        if reason is None:
            synced.replayed.append(run_id)
            continue
        synced.remaining[run_id] = reason
        if index < len(ids) - 1 and (silent := _silent(home, deadline)) is not None:
            gone = f"not tried: {silent}"
    return synced


def _replayed(home: Path, run_id: str, deadline: store.Deadline, within_s: float | None) -> str | None:
    """None if the run is in MLflow now, else why not."""
    try:
        bounded(
            lambda: publish_waiting(home, run_id, deadline=deadline),
            seconds=None if within_s is None else deadline.left_s,
            what=_place(home),
        )
    except TrackingError as error:
        return str(error)
    return None


def _silent(home: Path, deadline: store.Deadline) -> str | None:
    """Why it makes no sense to send another run; None if the store answers."""
    try:
        bounded(lambda: store.answers(home), seconds=max(0.0, min(deadline.left_s, 10.0)), what=_place(home))
    except TrackingError as error:
        return str(error)
    return None


def bounded(work: Callable[[], T], *, seconds: float | None, what: str) -> T:
    """What work gives, or TrackingUnreachable after so many seconds; None: it may take its time.

    It runs in a thread, because not everything that waits for a network can be told for how long (a name that does not
    resolve, an answer that trickles). Whatever it raises becomes a TrackingError that begins with `what`."""
    results: queue.SimpleQueue[T | Exception] = queue.SimpleQueue()

    def run() -> None:
        try:
            results.put(work())
        except Exception as error:  # noqa: BLE001 - a store's driver raises what it likes; it is raised again below
            results.put(error)

    threading.Thread(target=run, name="mlflow", daemon=True).start()
    try:
        result = results.get(timeout=None if seconds is None else max(0.0, seconds))
    except queue.Empty:
        raise TrackingUnreachable(f"{what}: no answer within {seconds:.0f} s") from None
    if isinstance(result, TrackingError):
        raise type(result)(f"{what}: {result}") from result
    if isinstance(result, Exception):
        raise TrackingError(f"{what}: {_told(result)}") from result
    return result


def _told(error: Exception) -> str:
    """The first line of what may be pages of nested messages."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:300] if lines else 'no message'}"


def _place(home: Path) -> str:
    return f"MLflow at {store.tracking_uri(home)}"
