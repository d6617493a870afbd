"""Rows out of Arrow data: Parquet and Arrow files, folders written by `datasets` (read without that library), and what
a DuckDB query gives."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq

from schemas.errors import ConfigError
from schemas.source import QuerySource, SavedSource
from tasks.dataset.rows import RawRow, canonical_json, jsonable

_BATCH_ROWS = 1024
_IPC_FILE = b"ARROW1"
"""How a file begins that is no stream."""


def parquet_rows(path: Path, *, start: int) -> Iterator[RawRow]:
    """The rows of one Parquet file, read batch by batch. Raises ConfigError for a file that is none."""
    index = start
    try:
        with pq.ParquetFile(path) as parquet:
            for batch in parquet.iter_batches(batch_size=_BATCH_ROWS):
                for row in _batch_rows(batch, path=path, start=index):
                    yield row
                    index = row.index + 1
    except (pa.ArrowException, OSError) as broken:
        raise ConfigError.one(f"not a readable Parquet file: {broken}", file=path) from broken


def ipc_rows(path: Path, *, start: int) -> Iterator[RawRow]:
    """The rows of one Arrow IPC file or stream. Raises ConfigError for a file that is none."""
    index = start
    try:
        with pa.memory_map(str(path)) as mapped:
            for batch in _ipc_batches(mapped):
                for row in _batch_rows(batch, path=path, start=index):
                    yield row
                    index = row.index + 1
    except (pa.ArrowException, OSError) as broken:
        raise ConfigError.one(f"not a readable Arrow file: {broken}", file=path) from broken


def _ipc_batches(mapped: pa.MemoryMappedFile) -> Iterator[pa.RecordBatch]:
    is_file = mapped.read(len(_IPC_FILE)) == _IPC_FILE
    mapped.seek(0)
    if is_file:
        with pyarrow.ipc.open_file(mapped) as reader:
            for number in range(reader.num_record_batches):
                yield from _sliced(reader.get_batch(number))
    else:
        with pyarrow.ipc.open_stream(mapped) as stream:
            for batch in stream:
                yield from _sliced(batch)


def _sliced(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    for offset in range(0, batch.num_rows, _BATCH_ROWS):
        yield batch.slice(offset, _BATCH_ROWS)


def query_rows(source: QuerySource, *, file: Path | None, key: str) -> Iterator[RawRow]:
    """The rows that a DuckDB query gives, as they come. Raises ConfigError, at the key of the path or of the query, for
    what is not there, for any statement but one SELECT, and for one that fails."""
    from warehouse.source_query import query_batches  # noqa: PLC0415  DuckDB only where it is asked

    start = 0
    for batch in query_batches(path=Path(source.path), sql=source.query, batch_rows=_BATCH_ROWS, file=file, key=key):
        yield from _batch_rows(batch, path=Path(source.path), start=start)
        start += batch.num_rows


def _batch_rows(batch: pa.RecordBatch, *, path: Path, start: int) -> Iterator[RawRow]:
    for index, values in enumerate(batch.to_pylist(), start=start):
        try:
            fields = jsonable(values)
        except TypeError as unfit:
            raise ConfigError.one(f"row {index}: {unfit}", file=path) from unfit
        yield RawRow(index=index, raw=canonical_json(fields).encode("ascii"), fields=fields, line=None, file=path)


def saved_files(source: SavedSource, *, file: Path | None, key: str) -> list[Path]:
    """The Arrow files of a saved dataset in their order, the file of its indices last if it has one."""
    folder, state = _saved_state(source, file=file, key=key)
    return [*_data_files(folder, state), *_indices_files(folder, state)]


def saved_rows(source: SavedSource, *, file: Path | None, key: str) -> Iterator[RawRow]:
    """The rows of a folder written by `save_to_disk`. Where the folder keeps indices (an unflattened selection), the
    rows are those that they name, in their order. Raises ConfigError for a folder that is none, or a missing split."""
    folder, state = _saved_state(source, file=file, key=key)
    paths = _data_files(folder, state)
    indices = _indices_files(folder, state)
    try:
        if indices:
            chosen = pa.concat_tables([_read_all(path) for path in indices]).column(0)
            batches: Iterator[pa.RecordBatch] = iter(
                pa.concat_tables([_read_all(path) for path in paths]).take(chosen).to_batches(_BATCH_ROWS)
            )
        else:
            batches = (batch for path in paths for batch in _stream(path))
        start = 0
        for batch in batches:
            yield from _batch_rows(batch, path=folder, start=start)
            start += batch.num_rows
    except (pa.ArrowException, OSError) as broken:
        raise ConfigError.one(f"not a readable saved dataset: {broken}", file=folder) from broken


def _stream(path: Path) -> Iterator[pa.RecordBatch]:
    with pa.memory_map(str(path)) as mapped, pyarrow.ipc.open_stream(mapped) as reader:
        for batch in reader:
            yield from _sliced(batch)


def _read_all(path: Path) -> pa.Table:
    with pa.memory_map(str(path)) as mapped, pyarrow.ipc.open_stream(mapped) as reader:
        return reader.read_all()


def _saved_state(source: SavedSource, *, file: Path | None, key: str) -> tuple[Path, dict[str, Any]]:
    folder = Path(source.path)
    if not folder.is_dir():
        raise ConfigError.one(f"the folder {folder} does not exist", file=file, key=f"{key}.path")
    splits_file = folder / "dataset_dict.json"
    if splits_file.is_file():
        splits = [str(name) for name in _read_json(splits_file).get("splits", [])]
        if source.split not in splits:
            asked = "the folder holds several splits" if source.split is None else f"there is no split {source.split!r}"
            raise ConfigError.one(
                asked, file=file, key=f"{key}.split", suggestion=f"write one of {', '.join(sorted(splits))}"
            )
        folder = folder / str(source.split)
    elif source.split is not None:
        raise ConfigError.one(
            f"{folder} holds a single dataset, it has no splits",
            file=file,
            key=f"{key}.split",
            suggestion="leave `split` out",
        )
    state_file = folder / "state.json"
    if not state_file.is_file():
        raise ConfigError.one(
            f"{folder} was not written by save_to_disk: it has no state.json", file=file, key=f"{key}.path"
        )
    return folder, _read_json(state_file)


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text("utf-8"))
    except ValueError as broken:
        raise ConfigError.one(f"broken JSON: {broken}", file=path) from broken
    if not isinstance(content, dict):
        raise ConfigError.one("must hold a JSON object", file=path)
    return content


def _data_files(folder: Path, state: dict[str, Any]) -> list[Path]:
    return _inside(folder, state.get("_data_files") or [])


def _indices_files(folder: Path, state: dict[str, Any]) -> list[Path]:
    return _inside(folder, state.get("_indices_data_files") or [])


def _inside(folder: Path, entries: list[dict[str, Any]]) -> list[Path]:
    """The named files; a name that leads out of the folder, or to nothing, is refused."""
    paths = []
    for entry in entries:
        path = folder / str(entry["filename"])
        if path.resolve().parent != folder.resolve() or not path.is_file():
            raise ConfigError.one(f"names the data file {entry['filename']!r}, which is not there", file=folder)
        paths.append(path)
    return paths
