"""One run as a portable folder or zip: its Parquet, report, config and log, with the sha256 of each file."""

import importlib.metadata
import json
import os
import secrets
import shutil
import zipfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from schemas.errors import ConfigError
from warehouse.copying import copy_files, copy_tables, file_sha256
from warehouse.parquet import read_rows
from warehouse.parts import make_folder, run_folder, stored_tables, sync_file, sync_folder
from warehouse.places import files_folder
from warehouse.schema import SCHEMA_VERSION

EXPORT_MANIFEST = "manifest.json"
FORMAT = "assay-export"
FORMAT_VERSION = 1
_STORED = (".parquet", ".png", ".zip", ".gz")
"""Compressed already: deflating them again costs time and saves nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedFile:
    """One file of an export. path: with `/`, from the export's top; modified_ns: parts count in the order of it."""

    path: str
    bytes: int
    sha256: str
    modified_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """What was written, and where. bytes: of the files before a zip packs them."""

    run_id: str
    path: Path
    files: tuple[ExportedFile, ...]

    @property
    def bytes(self) -> int:
        """All files together."""
        return sum(file.bytes for file in self.files)


def export_run(*, home: Path, run_id: str, out: Path, on_progress: Callable[[str], None] | None = None) -> Exported:
    """Writes one run to a folder, or to a zip where `out` ends in `.zip`. It appears whole or not at all.

    The folder is a home with one run in it: `ASSAY_HOME=<folder> assay sql …` asks it as it is, and
    `assay import warehouse <folder>` merges it. Raises ConfigError for a run that is not there or still running, and
    where `out` exists.
    """
    row = _ended_run(home=home, run_id=run_id)
    if out.exists():
        raise ConfigError.one(f"{out} exists", key="--out", suggestion="name another, or remove it first")
    say = on_progress or (lambda _: None)
    make_folder(out.absolute().parent)
    work = out.absolute().with_name(f".{out.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    try:
        say("copying tables")
        folders = {table: run_folder(home=work, table=table, run_id=run_id) for table in stored_tables()}
        copy_tables(home=home, run_id=run_id, folders=folders)
        say("copying report, config and log")
        copy_files(source=files_folder(home=home, run_id=run_id), target=files_folder(home=work, run_id=run_id))
        files = tuple(_described(path, root=work) for path in sorted(work.rglob("*")) if path.is_file())
        _write_manifest(work=work, row=row, files=files)
        if out.suffix == ".zip":
            say("packing")
            packed = work.with_suffix(".zip.tmp")
            try:
                _pack(work=work, target=packed)
                packed.rename(out)
            finally:
                packed.unlink(missing_ok=True)
        else:
            work.rename(out)
        sync_folder(out.absolute().parent)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return Exported(run_id=run_id, path=out, files=files)


def _ended_run(*, home: Path, run_id: str) -> dict[str, Any]:
    rows = read_rows(home, "runs", run_id)
    if not rows:
        raise ConfigError.one(f"there is no run {run_id} under {home}", suggestion="`assay runs` lists them")
    if rows[0]["status"] == "running":
        raise ConfigError.one(
            f"run {run_id} is still running, or was killed", suggestion=f"wait for it, or `assay run --resume {run_id}`"
        )
    return rows[0]


def _described(path: Path, *, root: Path) -> ExportedFile:
    state = path.stat()
    return ExportedFile(
        path=path.relative_to(root).as_posix(),
        bytes=state.st_size,
        sha256=file_sha256(path),
        modified_ns=state.st_mtime_ns,
    )


def _write_manifest(*, work: Path, row: dict[str, Any], files: tuple[ExportedFile, ...]) -> None:
    version = None
    with suppress(importlib.metadata.PackageNotFoundError):
        version = importlib.metadata.version("assay")
    content = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "schema_version": SCHEMA_VERSION,
        "assay_version": version,
        "exported_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "run_id": row["run_id"],
        "name": row["name"],
        "host": row["host"],
        "user": row["user"],
        "files": [asdict(file) for file in files],
    }
    path = work / EXPORT_MANIFEST
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", "utf-8")
    sync_file(path)


def _pack(*, work: Path, target: Path) -> None:
    with zipfile.ZipFile(target, "w", strict_timestamps=False) as packed:
        for path in sorted(work.rglob("*")):
            if path.is_file():
                how = zipfile.ZIP_STORED if path.suffix in _STORED else zipfile.ZIP_DEFLATED
                packed.write(path, path.relative_to(work).as_posix(), compress_type=how)
    sync_file(target)
