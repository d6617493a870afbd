"""The spool: a document is there whole or not at all, whoever comes, goes or is killed meanwhile."""

import signal
import subprocess
import sys
import threading
from pathlib import Path

from tasks.record import stage
from tasks.record.tracking import spool
from tasks.record.tracking.build import build_publication
from tests.mlflow_parts import begun
from warehouse.retention import Policy, plan_prune

ROOT = Path(__file__).resolve().parents[3]
KEEPER = """
import sys
from pathlib import Path
from tasks.record.tracking import spool
home, run_id = Path(sys.argv[1]), sys.argv[2]
publication = spool.read(home, run_id).publication
print("ready", flush=True)
while True:
    spool.keep(home, publication)
"""


def folder(home: Path) -> Path:
    return home / "spool" / "mlflow"


def names(home: Path) -> set[str]:
    """What lies there besides the lock's file, which may come and go."""
    return {path.name for path in folder(home).iterdir()} - {"lock"}


def test_keeping_and_removing_at_once_never_fails(empty_home: Path) -> None:
    session = begun(empty_home)
    run_id = session.run.run_id
    publication = build_publication(empty_home, run_id)
    failures: list[OSError] = []
    kept = threading.Event()

    def keep() -> None:
        try:
            for _ in range(1000):
                spool.keep(empty_home, publication)
        except OSError as error:
            failures.append(error)
        finally:
            kept.set()

    def remove() -> None:
        try:
            while not kept.is_set():
                if (spooled := spool.read(empty_home, run_id)) is not None:
                    spool.done(empty_home, run_id, spooled)
        except OSError as error:
            failures.append(error)

    threads = [threading.Thread(target=each) for each in (keep, remove, remove)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    spool.keep(empty_home, publication)
    assert names(empty_home) == {run_id} and spool.waiting(empty_home) == [run_id]


def test_what_killed_writers_left_goes_and_protects_nothing(empty_home: Path) -> None:
    session, other = begun(empty_home), begun(empty_home)
    stage.end(session, status="finished")
    waits = spool.read(empty_home, session.run.run_id)
    assert waits is not None
    for _ in range(6):
        keeper = subprocess.Popen(
            [sys.executable, "-c", KEEPER, str(empty_home), session.run.run_id],
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        with keeper:
            assert keeper.stdout is not None and keeper.stdout.readline() == "ready\n"
            keeper.send_signal(signal.SIGKILL)
    assert spool.read(empty_home, session.run.run_id) == waits
    (folder(empty_home) / "20260101T000000-aaaaaa.tmp").write_text('{"version"')  # as one killed at work leaves it

    spool.keep(empty_home, build_publication(empty_home, other.run.run_id))
    assert names(empty_home) == {session.run.run_id, other.run.run_id}
    spool.done(empty_home, session.run.run_id, waits)
    assert names(empty_home) == {other.run.run_id}


def test_only_a_document_protects_a_run_from_prune(empty_home: Path) -> None:
    session = begun(empty_home)
    stage.end(session, status="finished")
    run_id = session.run.run_id
    everything = Policy(statuses=frozenset({"finished"}))
    assert plan_prune(empty_home, everything).going == ()
    spooled = spool.read(empty_home, run_id)
    assert spooled is not None
    spool.done(empty_home, run_id, spooled)
    (folder(empty_home) / run_id).mkdir()  # as a writer that was killed before it put its document there leaves it
    assert [fate.run_id for fate in plan_prune(empty_home, everything).going] == [run_id]
