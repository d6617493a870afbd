"""Four writers, a compactor, a builder and four readers at once: nothing lost, nothing twice, nobody refused."""

import json
import random
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path

import pytest

from tests.e2e.command import ROOT, environment
from tests.faults.processes import wait_for
from tests.faults.warehouse_work import COUNTS, RUNS
from warehouse.parquet import compact_run, read_rows, remove_superseded
from warehouse.query import query

READERS, DELETED = 3, 6


@pytest.mark.parametrize("seconds", [5, pytest.param(30, marks=pytest.mark.slow)])
def test_everyone_at_once(seconds: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home, notes = tmp_path / "home", tmp_path / "notes"
    home.mkdir()
    notes.mkdir()
    roles = [
        *(("write", who) for who in range(4)),
        ("compact", 0),
        ("rebuild", 0),
        *(("read", who) for who in range(4)),
    ]
    processes = {each: _started(role=each[0], who=each[1], home=home, notes=notes, seconds=seconds) for each in roles}
    for process in processes.values():
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes.values():
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    lines, failures = [], []
    for (role, who), process in processes.items():
        stdout, stderr = process.communicate(timeout=seconds + 120)
        if process.returncode:
            failures.append(f"{role} {who}: {stderr}")
        else:
            lines.append(f"{role} {who}: " + ", ".join(f"{name} {n}" for name, n in json.loads(stdout).items()))
    with capsys.disabled() if seconds > 5 else nullcontext():
        print("\n" + "\n".join(lines))
    assert not failures, "\n".join(failures)
    _check_all(home=home, notes=notes)


def _started(*, role: str, who: int, home: Path, notes: Path, seconds: float) -> subprocess.Popen[str]:
    """A process that is ready to work, and begins with a line on its stdin."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.faults.warehouse_work", role, str(home), str(notes), str(seconds), str(who)],
        env=environment(home),
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _check_all(*, home: Path, notes: Path) -> None:
    """Everything that was committed is there, and no more, before the last compaction and after it."""
    told = [json.loads(path.read_text()) for path in sorted(notes.glob("writer-*.json"))]
    assert len(told) == 4
    committed = {name: sum(each[name] for each in told) for name in told[0]}
    for _ in range(2):
        assert {name: n for name, n, _ in query(home=home, sql=COUNTS).rows} == committed
        assert len(read_rows(home, "requests", columns=["request_id"])) == committed["attempts"]
        assert len(read_rows(home, "samples", columns=["sample_id"])) == committed["samples"]
        for run_id in sorted(set(RUNS)):
            compact_run(home=home, run_id=run_id)
        remove_superseded(home, 0)
    left = [path for path in home.rglob("*") if path.name.endswith(".tmp") or path.name.startswith(".build-")]
    assert not left


def test_deleting_the_database_file_while_readers_read(tmp_path: Path) -> None:
    """The file is made anew from the Parquet; whoever reads the old one keeps it."""
    home, notes = tmp_path / "home", tmp_path / "notes"
    notes.mkdir()
    home.mkdir()
    file = home / "assay.duckdb"
    writer = _started(role="write", who=0, home=home, notes=notes, seconds=1)
    writer.communicate("go\n", timeout=60)
    assert writer.returncode == 0
    wanted, choose = query(home=home, sql=COUNTS).rows, random.Random(3)
    stop, answered = threading.Event(), [0]

    def read() -> None:
        while not stop.is_set():
            assert query(home=home, sql=COUNTS).rows == wanted
            answered[0] += 1

    with ThreadPoolExecutor(READERS) as pool:
        readers = [pool.submit(read) for _ in range(READERS)]
        try:
            for _ in range(DELETED):
                file.unlink()
                before = answered[0]
                wait_for(
                    # Answers alone would not tell: each reader may still hold the file that was deleted.
                    lambda so_far=before: (
                        (file.exists() and answered[0] >= so_far + READERS) or any(each.done() for each in readers)
                    ),
                    timeout_s=60,
                    what="a new file, and answers from it",
                )
                time.sleep(choose.uniform(0, 0.1))
        finally:
            stop.set()
        for reader in readers:
            reader.result()
    assert query(home=home, sql=COUNTS).rows == wanted
