"""Parquet files through memory in pieces: read as the table of today, written with bounded row groups."""

import secrets
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from schemas.errors import AssayError
from warehouse.encoding import rows_a_group, writer_options
from warehouse.parts import COMPACTED_PREFIX, sync_file, temporary_name
from warehouse.rows import arrow_schema
from warehouse.schema import Table
from warehouse.schema.changes import check_version

_BATCH_ROWS = 16_384
_BATCH_BYTES = 32 << 20


def batches(*, path: Path, table: Table) -> Iterator[pa.RecordBatch]:
    """A file's rows in order, with the columns and types that the table has today. Raises AssayError for a file that
    cannot be read."""
    try:
        # One thread and no read-ahead: half the work, and the other core encodes.
        with pq.ParquetFile(path, pre_buffer=False) as file:
            check_version(metadata=file.metadata.metadata, source=str(path))
            present = [name for name in table.names if name in file.schema_arrow.names]
            for batch in file.iter_batches(batch_size=_batch_rows(file.metadata), columns=present, use_threads=False):
                yield _fitted(batch=batch, table=table)
    except (pa.ArrowException, OSError) as error:
        raise AssayError(f"{path}: cannot be read: {error} (restore it from a backup)") from error


class Sink:
    """A compacted file in the making. Leaving its context without `publish` leaves nothing behind.

    A thread of its own encodes one row group while the next is collected.
    """

    def __init__(self, *, folder: Path, table: Table, holds: str) -> None:
        self._target = folder / f"{COMPACTED_PREFIX}{holds}-{secrets.token_hex(8)}.parquet"
        self._temporary = temporary_name(self._target)
        self._table = table
        self._schema = arrow_schema(table=table)
        self._writer: pq.ParquetWriter | None = None
        self._waiting: list[pa.RecordBatch] = []
        self._rows = 0
        self._bytes = 0
        self._pool = ThreadPoolExecutor(max_workers=1)
        self._encoding: Future[None] | None = None

    def __enter__(self) -> "Sink":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._pool.shutdown(wait=True)
        try:
            if self._writer is not None:
                self._writer.close()
        finally:  # on a full disk closing fails too, and the half-written file is what takes the room
            self._temporary.unlink(missing_ok=True)

    def add(self, batch: pa.RecordBatch) -> None:
        """Takes rows in. Raises OSError where the disk is full."""
        if not batch.num_rows:
            return
        self._waiting.append(batch)
        self._rows += batch.num_rows
        self._bytes += batch.nbytes
        if self._rows >= rows_a_group(rows=self._rows, size_bytes=self._bytes):
            self._start_group()

    def publish(self, *, even_if_empty: bool) -> str | None:
        """Makes the file durable under its own name and returns that; None, and no file, without rows.

        It counts only once a manifest names it. Raises OSError where the disk is full.
        """
        if self._waiting:
            self._start_group()
        self._wait()
        if self._writer is None and not even_if_empty:
            return None
        self._opened().close()
        sync_file(self._temporary)
        self._temporary.rename(self._target)
        return self._target.name

    def _start_group(self) -> None:
        self._wait()
        group = pa.Table.from_batches(self._waiting, schema=self._schema)
        self._waiting, self._rows, self._bytes = [], 0, 0
        self._encoding = self._pool.submit(self._opened().write_table, group, row_group_size=group.num_rows)

    def _wait(self) -> None:
        if self._encoding is not None:
            encoding, self._encoding = self._encoding, None
            encoding.result()

    def _opened(self) -> pq.ParquetWriter:
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._temporary, self._schema, **writer_options(self._table))
        return self._writer


def _batch_rows(metadata: pq.FileMetaData) -> int:
    size = sum(metadata.row_group(index).total_byte_size for index in range(metadata.num_row_groups))
    each = max(1, size // max(1, metadata.num_rows))
    return int(max(1, min(_BATCH_ROWS, _BATCH_BYTES // each)))


def _fitted(*, batch: pa.RecordBatch, table: Table) -> pa.RecordBatch:
    columns = []
    for column in table:
        index = batch.schema.get_field_index(column.name)
        array = pa.nulls(batch.num_rows, column.type) if index < 0 else batch.column(index)
        columns.append(array if array.type == column.type else array.cast(column.type))
    return pa.RecordBatch.from_arrays(columns, schema=arrow_schema(table=table))
