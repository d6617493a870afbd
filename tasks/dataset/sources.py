"""Reading a dataset's rows: JSONL, CSV, Parquet, a folder saved by `datasets`, a hub name."""

import csv
import hashlib
import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from schemas.dataset import CsvSource, DatasetSource, HubDatasetSource, JsonlSource, ParquetSource, SavedSource
from schemas.errors import ConfigError
from tasks.config.disk import names_in
from tasks.config.locate import relative_to_here
from tasks.config.nearest import did_you_mean
from tasks.dataset.rows import RawRow, canonical_json

__all__ = ["RawRow", "file_fingerprint", "read_rows"]

_SHA256 = re.compile(r"sha256:([0-9a-fA-F]{64})")
_BOM = b"\xef\xbb\xbf"
_CSV_FIELD_LIMIT = 1 << 30


def read_rows(source: DatasetSource, *, file: Path | None = None, key: str = "source") -> Iterator[RawRow]:
    """The source's rows in their order, one at a time.

    file and key say where the source was written down, for the problems that lie there. Raises ConfigError: for a path
    that is missing or of another revision (with file and key), and for a broken row (with the data file and the line).
    """
    _check_revision(source, file=file, key=key)
    match source:
        case JsonlSource():
            yield from _jsonl(_existing_file(source.path, file=file, key=key))
        case CsvSource():
            yield from _csv(_existing_file(source.path, file=file, key=key))
        case ParquetSource():
            from tasks.dataset.arrow import parquet_rows  # noqa: PLC0415  pyarrow only where it is read

            yield from parquet_rows(_existing_file(source.path, file=file, key=key), start=0)
        case SavedSource():
            from tasks.dataset.arrow import saved_rows  # noqa: PLC0415

            yield from saved_rows(source, file=file, key=key)
        case HubDatasetSource():
            from tasks.dataset.arrow import parquet_rows  # noqa: PLC0415
            from tasks.dataset.hub import hub_files  # noqa: PLC0415

            start = 0
            for path in hub_files(source, file=file, key=key):
                part = parquet_rows(path, start=start) if path.suffix == ".parquet" else _jsonl(path, start=start)
                for row in part:
                    start = row.index + 1
                    yield row


def file_fingerprint(source: DatasetSource, *, file: Path | None = None, key: str = "source") -> str:
    """sha256 (hex) of what the source holds: of the file, or of all data files in their order.

    Raises ConfigError where the source cannot be found."""
    digest = hashlib.sha256()
    for path in _content_files(source, file=file, key=key):
        with path.open("rb") as stream:
            _feed(digest, stream)
    return digest.hexdigest()


def _feed(digest: Any, stream: BinaryIO) -> None:
    while block := stream.read(1 << 20):
        digest.update(block)


def _content_files(source: DatasetSource, *, file: Path | None, key: str) -> list[Path]:
    if isinstance(source, SavedSource):
        from tasks.dataset.arrow import saved_files  # noqa: PLC0415

        return saved_files(source, file=file, key=key)
    if isinstance(source, HubDatasetSource):
        from tasks.dataset.hub import hub_files  # noqa: PLC0415

        return hub_files(source, file=file, key=key)
    return [_existing_file(source.path, file=file, key=key)]


def _existing_file(path: str, *, file: Path | None, key: str) -> Path:
    found = Path(path)
    if not found.is_file():
        what = "is a folder, not a file" if found.is_dir() else "does not exist"
        raise ConfigError.one(
            f"the data file {relative_to_here(found)} {what}",
            file=file,
            key=f"{key}.path",
            suggestion=did_you_mean(found.name, [name for name in names_in(found.parent) if name != found.name]),
        )
    return found


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
        raise ConfigError.one(
            f"{relative_to_here(Path(source.path))} has changed: its sha256 is {found}, "
            f"the revision asks for {wanted.group(1).lower()}",
            file=file,
            key=f"{key}.revision",
            suggestion=f"restore the file, or write sha256:{found}",
        )


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {text} is out of range")
    return number


_DECODER = json.JSONDecoder(parse_constant=_no_constant, parse_float=_finite)


def _jsonl(path: Path, *, start: int = 0) -> Iterator[RawRow]:
    index = start
    with path.open("rb") as stream:
        for line, ended in enumerate(stream, start=1):
            raw = ended.removesuffix(b"\n").removesuffix(b"\r")
            if not raw.strip():
                continue
            try:
                text = (raw.removeprefix(_BOM) if line == 1 else raw).decode("utf-8")
                fields = _DECODER.decode(text)
            except UnicodeDecodeError as broken:
                raise ConfigError.one(
                    f"not UTF-8: {broken.reason} at byte {broken.start + 1} of the line", file=path, line=line
                ) from broken
            except json.JSONDecodeError as broken:
                raise ConfigError.one(
                    f"broken JSON: {broken.msg} at column {broken.colno}", file=path, line=line
                ) from broken
            except (ValueError, RecursionError) as broken:
                raise ConfigError.one(f"broken JSON: {broken}", file=path, line=line) from broken
            if not isinstance(fields, dict):
                raise ConfigError.one(f"a row must be a JSON object, this one is {_kind(fields)}", file=path, line=line)
            yield RawRow(index=index, raw=raw, fields=fields, line=line)
            index += 1


def _kind(value: Any) -> str:
    names = {list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")


def _utf8_lines(path: Path) -> Iterator[str]:
    with path.open("rb") as stream:
        for line, raw in enumerate(stream, start=1):
            try:
                yield (raw.removeprefix(_BOM) if line == 1 else raw).decode("utf-8")
            except UnicodeDecodeError as broken:
                raise ConfigError.one(
                    f"not UTF-8: {broken.reason} at byte {broken.start + 1} of the line", file=path, line=line
                ) from broken


def _csv(path: Path) -> Iterator[RawRow]:
    csv.field_size_limit(_CSV_FIELD_LIMIT)  # the module's own limit (128 KiB) is a process-wide setting
    reader = csv.reader(_utf8_lines(path), strict=True)
    header: list[str] | None = None
    index = 0
    try:
        while True:
            line = reader.line_num + 1
            cells = next(reader, None)
            if cells is None:
                break
            if not cells:
                continue
            if header is None:
                header = _csv_header(cells, path=path, line=line)
                continue
            if len(cells) != len(header):
                raise ConfigError.one(
                    f"the row has {len(cells)} fields, the header has {len(header)}", file=path, line=line
                )
            fields: dict[str, Any] = dict(zip(header, cells, strict=True))
            yield RawRow(index=index, raw=canonical_json(fields).encode("ascii"), fields=fields, line=line)
            index += 1
    except csv.Error as broken:
        raise ConfigError.one(f"broken CSV: {broken}", file=path, line=max(reader.line_num, 1)) from broken
    if header is None:
        raise ConfigError.one("a CSV file needs a header line, this one is empty", file=path, line=1)


def _csv_header(cells: list[str], *, path: Path, line: int) -> list[str]:
    unnamed = [number for number, cell in enumerate(cells, start=1) if not cell.strip()]
    if unnamed:
        raise ConfigError.one(f"column {unnamed[0]} of the header has no name", file=path, line=line)
    twice = sorted({cell for cell in cells if cells.count(cell) > 1})
    if twice:
        raise ConfigError.one(f"the header names {twice[0]!r} twice", file=path, line=line)
    return cells
