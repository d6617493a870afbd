"""Housekeeping: runs that have ended become one file a table, and what nobody reads any more goes."""

import fcntl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from warehouse.build import DATABASE, build
from warehouse.parquet import compact_runs, read_rows, remove_superseded
from warehouse.parts import tables_folder
from warehouse.places import clear_staging, empty_trash, folder_bytes, maintenance, remove_folder
from warehouse.retention import is_running

GRACE_S = 3600.0
"""A reader that opened the database before a compaction still reads the old files for so long, in seconds."""
_PARTIAL = ".partial-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Freed:
    """What a vacuum did. Sizes are bytes that came free; database_* are the DuckDB file's own before and after.

    superseded: parts that compaction replaced, and temporaries of killed writers. trash: pruned runs. staging: killed
    imports. caches: conversions of models that were killed. compacted: the runs whose parts were joined."""

    superseded: int
    trash: int
    staging: int
    caches: int
    database_before: int
    database_after: int
    compacted: tuple[str, ...]

    @property
    def bytes(self) -> int:
        """All that came free."""
        return self.superseded + self.trash + self.staging + self.caches + self.database_before - self.database_after


def vacuum(home: Path, *, grace_s: float = GRACE_S, on_progress: Callable[[str], None] | None = None) -> Freed:
    """Compacts the runs that have ended, deletes what nobody reads any more, and builds the DuckDB file anew.

    Readers and writers may go on meanwhile: files that were replaced less than grace_s seconds ago stay for who still
    reads them. May be killed at any moment, and run again. Raises AssayError for a file that this assay cannot read.
    """
    home = home.resolve()
    say = on_progress or (lambda _: None)
    with maintenance(home):
        say("emptying the trash")
        trash = empty_trash(home)
        staging = clear_staging(home)
        ended = [
            str(row["run_id"])
            for row in read_rows(home, "runs", columns=["run_id", "status"])
            if row["status"] != "running" and not is_running(home=home, run_id=str(row["run_id"]))
        ]
        say(f"compacting {len(ended)} runs")
        compacted = compact_runs(home=home, run_ids=ended, on_progress=lambda run_id: say(f"compacted {run_id}"))
        say("removing what was replaced")
        before = folder_bytes(tables_folder(home))
        remove_superseded(home, grace_s)
        superseded = before - folder_bytes(tables_folder(home))
        caches = _clear_caches(home / "cache")
        say("building the database")
        database_before = _size(home / DATABASE)
        build(home)
    return Freed(
        superseded=max(superseded, 0),
        trash=trash,
        staging=staging,
        caches=caches,
        database_before=database_before,
        database_after=_size(home / DATABASE),
        compacted=tuple(compacted),
    )


def _clear_caches(cache: Path) -> int:
    """Removes conversions of models that were killed: a converter at work holds the lock of its model."""
    freed = 0
    for partial in sorted(cache.glob(f"models/*{_PARTIAL}*")):
        lock = partial.with_name(f"{partial.name.partition(_PARTIAL)[0]}.lock")
        with lock.open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            freed += remove_folder(partial)
    return freed


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
