"""A run's files from one warehouse to another: what counts is copied, durably, with its sha256."""

import hashlib
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq  # type: ignore[import-untyped]

from schemas.errors import AssayError, ConfigError
from warehouse.parts import Manifest, RunFiles, make_folder, run_files, stored_tables, sync_folder, write_manifest
from warehouse.scan import columns_of

_CHUNK = 1 << 20
_COPY_AGAIN = 5
NOT_COPIED = frozenset({"lock", "samples.msgpack", "mlflow_run_id"})
"""In a run's own folder: what only the host that ran it can use."""


def copy_file(source: Path, target: Path) -> str:
    """Copies a file with its time, durably, and returns the sha256 of its bytes. Raises OSError where it cannot."""
    digest = hashlib.sha256()
    with source.open("rb") as reading, target.open("wb") as writing:
        while chunk := reading.read(_CHUNK):
            digest.update(chunk)
            writing.write(chunk)
        writing.flush()
        os.fsync(writing.fileno())
    state = source.stat()
    os.utime(target, ns=(state.st_atime_ns, state.st_mtime_ns))
    return digest.hexdigest()


def file_sha256(path: Path) -> str:
    """sha256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def copy_tables(*, home: Path, run_id: str, folders: dict[str, Path]) -> list[str]:
    """Copies the files of each table that count now into its folder, and returns the tables that had any.

    The order in which parts were written decides between equal revisions, so files keep their times."""
    copied = []
    for table in stored_tables():
        for attempt in range(_COPY_AGAIN):
            files = run_files(home=home, table=table, run_id=run_id)
            if not files.paths:
                break
            try:
                _copy_table(files=files, folder=folders[table])
            except FileNotFoundError:
                # A clean-up took files that were superseded after they were listed.
                shutil.rmtree(folders[table], ignore_errors=True)
                if attempt + 1 == _COPY_AGAIN:
                    raise
            else:
                copied.append(table)
                break
    return copied


def copy_files(*, source: Path, target: Path) -> None:
    """Copies a run's own folder (report, config, log, figures), links and what only its host can use left out."""
    if not source.is_dir():
        return
    for path in sorted(source.rglob("*")):
        inside = path.relative_to(source)
        if path.is_symlink() or not path.is_file() or inside.parts[0] in NOT_COPIED:
            continue
        make_folder((target / inside).parent)
        copy_file(path, target / inside)


def check_files(*, files: Sequence[RunFiles], run_id: str) -> None:
    """Raises AssayError for a file that a newer assay wrote or that is no Parquet file, ConfigError for one that holds
    rows of another run."""
    for each in files:
        for path in each.paths:
            columns_of(path)
            found = _run_ids(path)
            if found - {run_id}:
                raise ConfigError.one(
                    f"holds rows of the run {min(found - {run_id})}, in a folder of {run_id}",
                    file=path,
                    suggestion="it was changed after assay wrote it; take a fresh copy",
                )


def _copy_table(*, files: RunFiles, folder: Path) -> None:
    make_folder(folder)
    for path in files.paths:
        copy_file(path, folder / path.name)
    if files.compacted:
        write_manifest(folder=folder, manifest=Manifest(compacted=files.compacted))
    sync_folder(folder)


def _run_ids(path: Path) -> set[str]:
    """The runs whose rows a file holds, from its statistics where it has them."""
    with pq.ParquetFile(path) as file:
        if "run_id" not in file.schema_arrow.names:
            raise AssayError(f"{path}: no column run_id in it, so assay did not write it (move it elsewhere)")
        index = file.schema_arrow.names.index("run_id")
        found: set[str] = set()
        for group in range(file.metadata.num_row_groups):
            column = file.metadata.row_group(group).column(index)
            known = column.statistics
            if known is not None and known.has_min_max and known.null_count == 0:
                found |= {str(known.min), str(known.max)}
            else:
                found |= {str(value) for value in file.read_row_group(group, columns=["run_id"])[0].to_pylist()}
        return found
