"""Reading a dataset's rows: text files, Arrow data, a DuckDB query, a hub name, pages that are made."""

import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

from schemas.errors import ConfigError
from schemas.source import (
    ArrowSource,
    CsvSource,
    DatasetSource,
    FileSource,
    HubDatasetSource,
    JsonlSource,
    JsonSource,
    NeedleSource,
    ParquetSource,
    QuerySource,
    SavedSource,
    TextSource,
)
from tasks.config.locate import relative_to_here
from tasks.dataset.files import files_hash, fixed_folder, source_files
from tasks.dataset.more_rows import join_files, joined, needle_rows, text_rows
from tasks.dataset.rows import RawRow
from tasks.dataset.text_rows import csv_rows, json_rows, jsonl_rows

__all__ = ["RawRow", "file_fingerprint", "read_rows"]

_SHA256 = re.compile(r"sha256:([0-9a-fA-F]{64})")


def read_rows(source: DatasetSource, *, file: Path | None = None, key: str = "source") -> Iterator[RawRow]:
    """The source's rows in their order, one at a time: no more than a batch of them is held.

    file and key say where the source was written down, for the problems that lie there. Raises ConfigError: for a path
    that is missing or of another revision (with file and key), and for a broken row (with the data file and the line).
    """
    _check_revision(source, file=file, key=key)
    match source:
        case SavedSource():
            from tasks.dataset.arrow import saved_rows  # noqa: PLC0415  pyarrow only where it is read

            yield from saved_rows(source, file=file, key=key)
        case QuerySource():
            from tasks.dataset.arrow import query_rows  # noqa: PLC0415

            yield from query_rows(source, file=file, key=key)
        case NeedleSource():
            yield from needle_rows(source)
        case JsonlSource():
            yield from joined(source, _rows_of_files(source, file=file, key=key), file=file, key=key)
        case _:
            yield from _rows_of_files(source, file=file, key=key)


def _rows_of_files(source: FileSource | HubDatasetSource, *, file: Path | None, key: str) -> Iterator[RawRow]:
    start = 0
    for path in _content_files(source, file=file, key=key):
        for row in _file_rows(source, path, start=start, file=file, key=key):
            start = row.index + 1
            yield row


def _file_rows(  # noqa: PLR0911 - one for each kind
    source: FileSource | HubDatasetSource, path: Path, *, start: int, file: Path | None, key: str
) -> Iterator[RawRow]:
    match source:
        case JsonlSource():
            return jsonl_rows(path, start=start)
        case JsonSource():
            return json_rows(path, field=source.field, start=start)
        case CsvSource():
            return csv_rows(path, start=start)
        case TextSource():
            return text_rows(source, path, start=start, file=file, key=key)
        case ArrowSource():
            from tasks.dataset.arrow import ipc_rows  # noqa: PLC0415

            return ipc_rows(path, start=start)
        case ParquetSource() | HubDatasetSource():
            if path.suffix == ".jsonl" and isinstance(source, HubDatasetSource):
                return jsonl_rows(path, start=start)
            from tasks.dataset.arrow import parquet_rows  # noqa: PLC0415

            return parquet_rows(path, start=start)


def file_fingerprint(source: DatasetSource, *, file: Path | None = None, key: str = "source") -> str:
    """sha256 (hex) of what the source holds: of the file; of a saved folder's or a hub's data files in their order; of
    a pattern's files, what `sha256sum` prints of them, and so of two files that are joined; of a query and of what is
    made, the canonical JSON of the rows, each with a newline.

    Raises ConfigError where the source cannot be found."""
    digest = hashlib.sha256()
    if isinstance(source, QuerySource):
        from tasks.dataset.arrow import query_rows  # noqa: PLC0415

        for row in query_rows(source, file=file, key=key):
            digest.update(row.raw + b"\n")
        return digest.hexdigest()
    if isinstance(source, NeedleSource):
        for row in needle_rows(source):
            digest.update(row.raw + b"\n")
        return digest.hexdigest()
    paths = _content_files(source, file=file, key=key)
    if isinstance(source, JsonlSource) and source.join is not None:
        paths = [*paths, *join_files(source, file=file, key=key)]
        return files_hash(paths, folder=Path(os.path.commonpath([path.parent for path in paths])))
    if not isinstance(source, SavedSource | HubDatasetSource):
        return files_hash(paths, folder=fixed_folder(source.path) if len(paths) > 1 else Path())
    for path in paths:
        with path.open("rb") as stream:
            while block := stream.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


def _content_files(source: FileSource | SavedSource | HubDatasetSource, *, file: Path | None, key: str) -> list[Path]:
    if isinstance(source, SavedSource):
        from tasks.dataset.arrow import saved_files  # noqa: PLC0415

        return saved_files(source, file=file, key=key)
    if isinstance(source, HubDatasetSource):
        from tasks.dataset.hub import hub_files  # noqa: PLC0415

        return hub_files(source, file=file, key=key)
    return source_files(source.path, file=file, key=key)


def _check_revision(source: DatasetSource, *, file: Path | None, key: str) -> None:
    if isinstance(source, HubDatasetSource) or source.revision is None:
        return
    wanted = _SHA256.fullmatch(source.revision)
    if wanted is None:
        raise ConfigError.one(
            f"{source.revision!r} is no revision of a file",
            file=file,
            key=f"{key}.revision",
            suggestion="write sha256: and the 64 hex digits that sha256sum prints",
        )
    found = file_fingerprint(source, file=file, key=key)
    if found != wanted.group(1).lower():
        is_query = isinstance(source, QuerySource | NeedleSource)
        what = "what the query gives" if isinstance(source, QuerySource) else "what is made"
        if not isinstance(source, QuerySource | NeedleSource):
            what = str(relative_to_here(Path(source.path)))
        raise ConfigError.one(
            f"{what} has changed: its sha256 is {found}, the revision asks for {wanted.group(1).lower()}",
            file=file,
            key=f"{key}.revision",
            suggestion=f"restore {'the data' if is_query else 'the file'}, or write sha256:{found}",
        )
