"""Rows into Parquet and back: durable parts, the highest revision of each key."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from schemas.errors import AssayError
from warehouse.compact import compact_run, compact_runs, remove_superseded
from warehouse.encoding import rows_a_group, writer_options
from warehouse.parts import (
    RunFiles,
    checked_name,
    make_folder,
    publish_part,
    run_files,
    run_folder,
    run_ids,
    sync_file,
    temporary_name,
)
from warehouse.rows import arrow_table, fitted_table
from warehouse.schema import TABLES, Table
from warehouse.schema.changes import check_version

__all__ = ["compact_run", "compact_runs", "list_parts", "read_rows", "remove_superseded", "write_rows", "write_table"]

_READ_AGAIN = 3


def write_rows(
    *, home: Path, table: str, run_id: str, rows: Sequence[Mapping[str, Any]], part: str, revision: int = 0
) -> Path:
    """Writes rows as one durable Parquet part, and returns its path: when this returns, a power cut does not lose them.

    The file is `home/tables/<table>/run=<run_id>/<part>.parquet`; no part is ever replaced, so a name that is taken
    gets a tail. What changes later is written again, whole, with a higher revision. Values are converted as
    `warehouse.rows.arrow_table` says. Raises ValueError for an unknown table or column or a name that is no file's
    name, TypeError for a value that does not fit its column, OSError where the disk is full.
    """
    checked_name(part)
    run_folder(home=home, table=table, run_id=run_id)  # an unknown table or an odd name is an error before any work
    content = arrow_table(table=TABLES[table], run_id=run_id, revision=revision, rows=rows)
    return _write(home=home, table=table, run_id=run_id, part=part, content=content)


def write_table(
    *, home: Path, table: str, run_id: str, arrow: pa.Table | pa.RecordBatch, part: str, revision: int = 0
) -> Path:
    """Writes rows that are in Arrow already as one durable part, as `write_rows` does, at several times its speed.

    Columns that are not there are NULL, others are cast where nothing is lost; run_id and revision are set here. A NaN
    becomes NULL. JSON columns hold JSON text: they are not looked at. Raises ValueError for an unknown table or column,
    a name that is no file's name, rows of another run or text that is not UTF-8, TypeError for a column that does not
    fit, OSError where the disk is full.
    """
    checked_name(part)
    run_folder(home=home, table=table, run_id=run_id)
    content = fitted_table(table=TABLES[table], run_id=run_id, revision=revision, arrow=arrow)
    return _write(home=home, table=table, run_id=run_id, part=part, content=content)


def _write(*, home: Path, table: str, run_id: str, part: str, content: pa.Table) -> Path:
    folder = run_folder(home=home, table=table, run_id=run_id)
    make_folder(folder)
    temporary = temporary_name(folder / f"{part}.parquet")
    group = rows_a_group(rows=content.num_rows, size_bytes=content.nbytes)
    try:
        pq.write_table(content, temporary, row_group_size=group, **writer_options(TABLES[table]))
        sync_file(temporary)
        return publish_part(temporary=temporary, folder=folder, part=part)
    finally:
        temporary.unlink(missing_ok=True)


def list_parts(*, home: Path, table: str, run_id: str | None = None) -> list[Path]:
    """The Parquet files of a table that count now, of one run or of all, oldest first within a run."""
    return [path for files in _files(home=home, table=table, run_id=run_id) for path in files.paths]


def read_rows(
    home: Path,
    table: str,
    run_id: str | None = None,
    *,
    columns: Sequence[str] | None = None,
    parse_json: bool = False,
    where: tuple[str, str] | None = None,
) -> list[dict[str, Any]]:
    """The rows of a table as dicts, the highest revision of each key, of one run or of all.

    For small use: everything is held in memory (columns limits what is read). A JSON column comes as its text, or
    parsed with parse_json; a map as a dict. where: only rows that have this text in this column, which must be the same
    in every revision of a key. Raises ValueError for an unknown table or column, AssayError for a file of
    a newer assay, or one that is broken.
    """
    every = _files(home=home, table=table, run_id=run_id)
    info = TABLES[table]
    wanted = list(info.names if columns is None else columns)
    if unknown := sorted({*wanted, *([] if where is None else [where[0]])} - set(info.names)):
        raise ValueError(f"{table} has no column {', '.join(unknown)}; it has {', '.join(info.names)}")
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    for files in every:
        for row in _run_rows(home=home, files=files, wanted=wanted, where=where):
            key = tuple(row[name] for name in info.key)
            if key not in rows or row["revision"] >= rows[key]["revision"]:
                rows[key] = row
    parsed = {column.name for column in info if column.json} if parse_json else set()
    return [
        {name: json.loads(row[name]) if name in parsed and row[name] is not None else row[name] for name in wanted}
        for row in rows.values()
    ]


def _files(*, home: Path, table: str, run_id: str | None) -> list[RunFiles]:
    ids = run_ids(home=home, table=table) if run_id is None else [run_id]
    if not ids:
        run_folder(home=home, table=table, run_id="none")  # an unknown table is an error even before any run
    return [run_files(home=home, table=table, run_id=each) for each in ids]


def _run_rows(
    *, home: Path, files: RunFiles, wanted: Sequence[str], where: tuple[str, str] | None
) -> list[dict[str, Any]]:
    for _ in range(_READ_AGAIN):
        try:
            return [
                row
                for path in files.paths
                for row in _file_rows(path=path, table=files.table, wanted=wanted, where=where)
            ]
        except FileNotFoundError:
            # A clean-up took files that were superseded after they were listed.
            files = run_files(home=home, table=files.table, run_id=files.run_id)
    raise AssayError(f"{files.folder}: files vanish while they are read (is another program deleting them?)")


def _file_rows(*, path: Path, table: str, wanted: Sequence[str], where: tuple[str, str] | None) -> list[dict[str, Any]]:
    info: Table = TABLES[table]
    needed = {*wanted, *info.key, "revision", *([] if where is None else [where[0]])}
    try:
        with pq.ParquetFile(path) as file:
            check_version(metadata=file.metadata.metadata, source=str(path))
            present = [name for name in info.names if name in needed and name in file.schema_arrow.names]
            if where is not None and where[0] not in present:
                return []
            content = file.read(columns=present)
        if where is not None:
            content = content.filter(pc.equal(content[where[0]], where[1]))
        absent = {name: None for name in needed if name not in present}
        return [absent | row for row in content.to_pylist(maps_as_pydicts="lossy")]
    except FileNotFoundError:
        raise
    except (pa.ArrowInvalid, OSError) as error:  # Arrow raises OSError for pages that are not what they should be
        raise AssayError(f"{path}: cannot be read: {error} (move it away; the other rows stay)") from error
