"""Compaction: a run's many parts into one file a table, in one step for every reader; and the clean-up after it."""

import secrets
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb

from warehouse import scan
from warehouse.parts import (
    COMPACTED_PREFIX,
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
    sync_file,
    temporary_name,
    write_manifest,
)
from warehouse.schema import SCHEMA_VERSION, TABLES, Table
from warehouse.schema.changes import METADATA_KEY
from warehouse.schema.table import literal

_MEMORY = "256MB"
_ROWS_A_GROUP = 10_240
"""Bounds what a writer and a reader hold at once: a prompt may be 100 KB."""


def compact_run(*, home: Path, run_id: str) -> list[str]:
    """Compacts every table of a run that has parts to take in, and returns those tables' names.

    Of each key only the highest revision is kept; the last attempts of requests go to one file, earlier ones to
    another. May be killed at any moment, may run while parts are written and read, and more than once at a time.
    Raises AssayError for a file that this assay cannot read.
    """
    return [name for name in stored_tables() if _compact(home=home, table=TABLES[name], run_id=run_id)]


def remove_superseded(home: Path, older_than_s: float) -> list[Path]:
    """Deletes files that compaction replaced longer ago than older_than_s (seconds), and what killed writers left.
    Returns what it deleted. Leave time for readers: a query that began before still reads those files."""
    removed: list[Path] = []
    for table in stored_tables():
        for run_id in run_ids(home=home, table=table):
            folder = run_folder(home=home, table=table, run_id=run_id)
            with locked(folder):
                removed += _remove_in(folder=folder, before=time.time() - older_than_s)
    return removed


def _compact(*, home: Path, table: Table, run_id: str) -> bool:
    folder = run_folder(home=home, table=table.name, run_id=run_id)
    if not folder.is_dir():
        return False
    with locked(folder):
        files = run_files(home=home, table=table.name, run_id=run_id)
        if not files.fresh or (table.small and len(files.paths) == 1):
            return False
        made = [_write(table=table, files=files, holds=holds) for holds in _kinds(table)]
        now = time.time()
        old = read_manifest(folder).superseded
        replaced = {path.name: now for path in files.paths}
        write_manifest(folder=folder, manifest=Manifest(compacted=tuple(made), superseded=old | replaced))
    return True


def _kinds(table: Table) -> tuple[str, ...]:
    return ("last", "earlier") if table.name == "requests" else ("rows",)


def _write(*, table: Table, files: RunFiles, holds: str) -> Compacted:
    last_of = None if holds == "rows" else "attempt"
    query = scan.winners(table=table, paths=files.paths, last_of=last_of, earlier=holds == "earlier")
    target = files.folder / f"{COMPACTED_PREFIX}{holds}-{secrets.token_hex(8)}.parquet"
    temporary = temporary_name(target)
    version = f"{{{METADATA_KEY.decode()}: '{SCHEMA_VERSION}'}}"
    options = f"FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {_ROWS_A_GROUP}, KV_METADATA {version}"
    settings: dict[str, str | bool | int | float | list[str]] = {"memory_limit": _MEMORY, "threads": 1}
    try:
        with TemporaryDirectory(prefix="assay-compact-") as spill, duckdb.connect(config=settings) as connection:
            connection.execute(f"SET temp_directory = {literal(spill)}")
            connection.execute("SET TimeZone = 'UTC'")
            connection.execute(f"COPY ({query}) TO {literal(str(temporary))} ({options})").fetchall()
        sync_file(temporary)
        temporary.rename(target)
    finally:
        temporary.unlink(missing_ok=True)
    return Compacted(name=target.name, holds=holds)


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
