"""The end of a run: its row counts; what goes wrong with the rest is a warning."""

import errno
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from tasks.record import stage
from tasks.session import Session
from tests.faults.test_disk import disk
from tests.mlflow_parts import answered, begun
from warehouse.parquet import list_parts, read_rows

ROW_ROOM = 512 << 10
"""More than a run's last row and its document for MLflow take, less than the samples below do."""


def with_samples(home: Path) -> Session:
    """A run with a megabyte that cannot be compressed, which compaction writes once more."""
    session = begun(home)
    answered(session)
    session.store.write("samples", [sample(number) for number in range(256)])
    return session


def sample(number: int) -> dict[str, Any]:
    return {
        "dataset": "toy",
        "sample_id": f"toy:{number}",
        "row_index": number,
        "raw": os.urandom(8_000),
        "prompt": f"{number}?",
    }


def the_part(session: Session, table: str) -> Path:
    (part,) = list_parts(home=session.run.home, table=table, run_id=session.run.run_id)
    return part


def status(session: Session) -> str:
    return str(read_rows(session.run.home, "runs", session.run.run_id)[0]["status"])


def shrink(folder: Path, *, room: int) -> None:
    """Makes the disk so small that only so much more goes onto it."""
    used = shutil.disk_usage(folder).used
    subprocess.run(["mount", "-o", f"remount,size={used + room}", str(folder)], check=True)


def test_a_file_that_duckdb_cannot_read_is_a_warning_that_names_it(empty_home: Path) -> None:
    session = with_samples(empty_home)
    part = the_part(session, "samples")
    content = bytearray(part.read_bytes())
    footer = int.from_bytes(content[-8:-4], "little") + 8
    content[4:-footer] = b"\xff" * (len(content) - footer - 4)  # what it holds is gone, what describes it is not
    part.write_bytes(content)
    (problem,) = stage.end(session, status="finished")
    assert str(part) in problem and "cannot be compacted" in problem and "assay vacuum" in problem
    assert "\n" not in problem
    assert status(session) == "finished"
    assert part.read_bytes() == content


def test_a_folder_that_cannot_be_worked_in_is_a_warning(empty_home: Path) -> None:
    session = with_samples(empty_home)
    (the_part(session, "samples").parent / "_lock").mkdir()
    (problem,) = stage.end(session, status="failed", error="no luck")
    assert "Is a directory" in problem
    assert status(session) == "failed"


def test_a_disk_that_is_full_after_the_row_is_a_warning_and_later_all_is_well(tmp_path: Path) -> None:
    with disk(tmp_path / "disk", megabytes=640) as folder:  # a run wants half a gigabyte free to begin
        session = with_samples(folder / "home")
        shrink(folder, room=ROW_ROOM)
        (problem,) = stage.end(session, status="finished")
        assert "No space left" in problem
        assert status(session) == "finished"
        assert list((folder / "home" / "tables").rglob("*.tmp")) == []
        assert len(read_rows(folder / "home", "samples", columns=["sample_id"])) == 256

        subprocess.run(["mount", "-o", "remount,size=64m", str(folder)], check=True)
        assert stage.end(session, status="finished") == []


def test_a_disk_that_is_full_at_the_row_is_an_error(tmp_path: Path) -> None:
    with disk(tmp_path / "disk", megabytes=640) as folder:
        session = with_samples(folder / "home")
        shrink(folder, room=0)
        assert error_at_the_end(session) == errno.ENOSPC
        assert status(session) == "running"


def error_at_the_end(session: Session) -> int | None:
    """Only its number: the error itself would hold the file that could not be written."""
    try:
        stage.end(session, status="finished")
    except OSError as error:
        return error.errno
    return None
