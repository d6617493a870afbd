"""Compaction: a run's many parts into one file a table, in one step for every reader; and the clean-up after it."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from schemas.errors import AssayError
from warehouse import scan
from warehouse.parts import (
    COMPACTED_PREFIX,
    MANIFEST,
    TEMPORARY_SUFFIX,
    Compacted,
    Manifest,
    RunFiles,
    locked,
    read_manifest,
    run_files,
    run_folder,
    run_ids,
    stored_tables,
    write_manifest,
)
from warehouse.schema import TABLES, Table
from warehouse.schema.table import literal
from warehouse.sql_errors import first_line
from warehouse.stream import Sink, batches

LAST_OF = "requests"
"""The table whose last attempts are kept apart from the earlier ones."""
_MEMORY = "512MB"
_AT_ONCE = 2
_Places: TypeAlias = npt.NDArray[np.int64]


def compact_run(*, home: Path, run_id: str) -> list[str]:
    """Compacts every table of a run that has parts to take in, and returns those tables' names.

    Of each key only the highest revision is kept; the last attempts of requests go to one file, earlier ones to
    another. May be killed at any moment, may run while parts are written and read, and more than once at a time.
    Raises AssayError for a file that this assay cannot read, OSError where the disk is full.
    """
    return [name for name in stored_tables() if _compact(home=home, table=TABLES[name], run_id=run_id)]


def compact_runs(*, home: Path, run_ids: Sequence[str], on_progress: Callable[[str], None]) -> list[str]:
    """Compacts runs, two at once: one run's decoding and encoding do not keep two cores busy. on_progress is told each
    run that is done. Returns the runs that had parts to take in. Raises as compact_run, after the runs at work."""

    def compact(run_id: str) -> bool:
        changed = bool(compact_run(home=home, run_id=run_id))
        on_progress(run_id)
        return changed

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return [run_id for run_id, changed in zip(run_ids, pool.map(compact, run_ids), strict=True) if changed]


def remove_superseded(home: Path, older_than_s: float) -> list[Path]:
    """Deletes files that compaction replaced longer ago than older_than_s (seconds), and what killed writers left.
    Returns what it deleted. Leave time for readers: a query that began before still reads those files."""
    removed: list[Path] = []
    for table in stored_tables():
        for run_id in run_ids(home=home, table=table):
            folder = run_folder(home=home, table=table, run_id=run_id)
            if _has_leftovers(folder):
                with locked(folder):
                    removed += _remove_in(folder=folder, before=time.time() - older_than_s)
    return removed


def _has_leftovers(folder: Path) -> bool:
    """Whether a clean-up may find something. Most are tidy: these get no lock file and stay as they are."""
    try:
        names = [entry.name for entry in folder.iterdir()]
    except FileNotFoundError:
        return False
    if any(name.endswith(TEMPORARY_SUFFIX) for name in names):
        return True
    compacted = {name for name in names if name.startswith(COMPACTED_PREFIX)}
    if not compacted and MANIFEST not in names:
        return False
    manifest = read_manifest(folder)
    return bool(manifest.superseded) or not compacted <= {each.name for each in manifest.compacted}


def _compact(*, home: Path, table: Table, run_id: str) -> bool:
    folder = run_folder(home=home, table=table.name, run_id=run_id)
    if not folder.is_dir():
        return False
    with locked(folder):
        files = run_files(home=home, table=table.name, run_id=run_id)
        if not files.fresh or (table.small and len(files.paths) == 1):
            return False
        made = _write(table=table, files=files)
        now = time.time()
        old = read_manifest(folder).superseded
        replaced = {path.name: now for path in files.paths}
        write_manifest(folder=folder, manifest=Manifest(compacted=tuple(made), superseded=old | replaced))
    return True


def _write(*, table: Table, files: RunFiles) -> list[Compacted]:
    """Writes the files that replace these; each row goes through memory once."""
    kept, earlier = ("last", "earlier") if table.name == LAST_OF else ("rows", None)
    outdone = _outdone(table=table, files=files)
    with ExitStack() as stack:
        sinks = {
            holds: stack.enter_context(Sink(folder=files.folder, table=table, holds=holds))
            for holds in (kept, earlier)
            if holds is not None
        }
        for path, lost, not_last in zip(files.paths, outdone.lost, outdone.earlier, strict=True):
            at = 0
            for batch in batches(path=path, table=table):
                stays = _marks(places=np.concatenate((lost, not_last)), at=at, rows=batch.num_rows)
                sinks[kept].add(batch if stays is None else batch.filter(pc.invert(stays)))
                goes = _marks(places=not_last, at=at, rows=batch.num_rows)
                if earlier is not None and goes is not None:
                    sinks[earlier].add(batch.filter(goes))
                at += batch.num_rows
        return [
            Compacted(name=name, holds=holds)
            for holds, sink in sinks.items()
            if (name := sink.publish(even_if_empty=holds == kept)) is not None
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outdone:
    """By file, the numbers of the rows that a newer revision replaced (lost), or a later attempt followed (earlier)."""

    lost: list[_Places]
    earlier: list[_Places]


def _outdone(*, table: Table, files: RunFiles) -> _Outdone:
    try:
        found = _found(
            scan.outdone(table=table, paths=files.paths, last_of="attempt" if table.name == LAST_OF else None)
        )
    except duckdb.Error as error:
        which = files.paths[0] if len(files.paths) == 1 else files.folder
        raise AssayError(
            f"{which}: cannot be compacted: {first_line(error)} (nothing is changed; make room if a disk is full, move"
            " a broken file away: the other rows stay)"
        ) from error
    file = found["file_index"].to_numpy().astype(np.int64)
    place = found["file_row_number"].to_numpy().astype(np.int64)
    earlier = found["earlier"].to_numpy().astype(bool)
    order = np.lexsort((place, file))
    file, place, earlier = file[order], place[order], earlier[order]
    ends = np.searchsorted(file, np.arange(len(files.paths) + 1))
    parts = [slice(begin, end) for begin, end in pairwise(ends)]
    return _Outdone(
        lost=[place[part][~earlier[part]] for part in parts], earlier=[place[part][earlier[part]] for part in parts]
    )


def _found(query: str) -> pa.Table:
    settings: dict[str, str | bool | int | float | list[str]] = {"memory_limit": _MEMORY, "threads": 2}
    with TemporaryDirectory(prefix="assay-compact-") as spill, duckdb.connect(config=settings) as connection:
        connection.execute(f"SET temp_directory = {literal(spill)}")
        connection.execute("SET TimeZone = 'UTC'")
        return connection.sql(query).to_arrow_table()


def _marks(*, places: _Places, at: int, rows: int) -> pa.Array | None:
    """Which of these rows are among the places; None where none is."""
    here = places[(places >= at) & (places < at + rows)] - at
    if not len(here):
        return None
    marks = np.zeros(rows, dtype=bool)
    marks[here] = True
    return pa.array(marks)


def _remove_in(*, folder: Path, before: float) -> list[Path]:
    manifest = read_manifest(folder)
    counted = {each.name for each in manifest.compacted}
    old = {name for name, moment in manifest.superseded.items() if moment <= before}
    removed = []
    for path in sorted(folder.iterdir()):
        # A compacted file that no manifest names, or a temporary one: its writer was killed, or is at work just now.
        left = path.name.endswith(TEMPORARY_SUFFIX) or (
            path.name.startswith(COMPACTED_PREFIX) and path.name not in counted | manifest.superseded.keys()
        )
        if path.name in old or (left and _modified(path) <= before):
            path.unlink(missing_ok=True)
            removed.append(path)
    if old:
        # Only after the files are gone: a name that leaves the list while its file is there would count again.
        kept = {name: moment for name, moment in manifest.superseded.items() if name not in old}
        write_manifest(folder=folder, manifest=Manifest(compacted=manifest.compacted, superseded=kept))
    return removed


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0
