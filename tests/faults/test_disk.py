"""A disk that fills up while a run is written to it: what was committed stays whole, nothing half-written is left."""

import contextlib
import errno
import gc
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.command import assay, rows, start
from tests.faults.processes import wait_for, wait_until_gone
from warehouse.parquet import list_parts, read_rows, write_rows

RUN = "20270101T000000-disk"


@contextlib.contextmanager
def disk(folder: Path, *, megabytes: int) -> Iterator[Path]:
    """A file system of that size, in memory."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("only root can mount a small file system")
    try:
        yield folder
    finally:
        gc.collect()
        subprocess.run(["umount", str(folder)], check=True)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    with disk(tmp_path / "home", megabytes=2) as folder:
        yield folder


def part(number: int) -> list[dict[str, Any]]:
    """Ten rows of text that cannot be compressed: about 60 KB."""
    return [
        {
            "dataset": "toy",
            "sample_id": f"toy:{number}-{row}",
            "row_index": 10 * number + row,
            "raw": os.urandom(6_000),
            "prompt": "p",
        }
        for row in range(10)
    ]


def write(home: Path, number: int, items: list[dict[str, Any]]) -> Path:
    return write_rows(home=home, table="samples", run_id=RUN, rows=items, part=f"0000-{number:05d}")


def stored(home: Path) -> dict[str, bytes]:
    return {row["sample_id"]: row["raw"] for row in read_rows(home, "samples", RUN, columns=["sample_id", "raw"])}


def written_until_full(home: Path) -> dict[str, bytes]:
    """What was committed before the disk was full. (The error is let go: its frames hold the file that failed.)"""
    committed: dict[str, bytes] = {}
    for number in range(100):
        items = part(number)
        try:
            write(home, number, items)
        except OSError as full:
            assert full.errno == errno.ENOSPC
            return committed
        committed |= {row["sample_id"]: row["raw"] for row in items}
    raise AssertionError("six megabytes went onto a disk of two")


def test_a_full_disk_stops_a_write_and_keeps_what_was_written_before(home: Path) -> None:
    committed = written_until_full(home)
    assert 100 <= len(committed) < 400
    assert stored(home) == committed

    # The part that failed left nothing: every file is one of the parts that were committed.
    files = [path for path in home.rglob("*") if path.is_file()]
    assert sorted(files) == sorted(list_parts(home=home, table="samples", run_id=RUN))
    assert len(files) == len(committed) // 10

    # With room again, the same part is written as if nothing had happened.
    subprocess.run(["mount", "-o", "remount,size=4m", str(home)], check=True)
    again = part(len(files))
    write(home, len(files), again)
    assert stored(home) == committed | {row["sample_id"]: row["raw"] for row in again}


@pytest.mark.engine
@pytest.mark.slow
def test_a_disk_that_fills_up_in_the_middle_ends_the_run_and_it_can_be_resumed(tmp_path: Path, model_dir: Path) -> None:
    with disk(tmp_path / "disk", megabytes=640) as folder:  # a run wants half a gigabyte free to begin
        home = folder / "home"
        (home / "cache").mkdir(parents=True)
        (home / "cache" / "models").symlink_to(model_dir.parent)
        run = start("run", "quickstart", "--limit", "20", home=home)

        def answers() -> int:
            assert run.poll() is None, run.communicate()
            return len(read_rows(home, "requests", columns=["request_id"]))

        wait_for(lambda: answers() >= 8, timeout_s=240, what="eight answers on disk")
        ballast = folder / "ballast"
        with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(1 << 20))
        _, errors = run.communicate(timeout=120)
        assert run.returncode == 1, errors
        message = errors.rstrip().splitlines()[-1]
        assert message.startswith(f"error: the disk under {home} is full") and "assay run --resume" in message
        assert wait_until_gone(f"ASSAY_HOME={home}", timeout_s=10) == []
        kept = len(read_rows(home, "requests", columns=["request_id"]))
        assert kept >= 8

        ballast.unlink()
        resumed = assay("run", *message.split()[-2:], home=home)
        assert resumed.code == 0, resumed.stderr
        assert f"{kept} from before" in resumed.stderr
        assert rows(home, "SELECT max(attempt) AS n FROM requests")[0]["n"] == 0
