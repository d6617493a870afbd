"""The files of a source: which they are, what is packed in them, and the hash that says whether they have changed."""

import gzip
import hashlib
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, BinaryIO

from schemas.errors import ConfigError
from tasks.config.disk import is_pattern, names_in
from tasks.config.locate import relative_to_here
from tasks.config.nearest import did_you_mean

_BLOCK = 1 << 20


def source_files(path: str, *, file: Path | None, key: str) -> list[Path]:
    """The file of a path, or the files of a pattern in sorted order. A file whose name merely looks like a pattern is
    itself.

    Raises ConfigError, at the key `path` of `key`, for a file that is missing and a pattern that nothing matches."""
    found = Path(path)
    if found.is_file() or not is_pattern(path):
        return [_existing_file(found, file=file, key=key)]
    folder = fixed_folder(path)
    files = sorted(each for each in folder.glob(str(found.relative_to(folder))) if each.is_file())
    if not files:
        there = names_in(folder)
        listed = f"{relative_to_here(folder)} has {', '.join(there[:10])}{', …' if len(there) > 10 else ''}"
        raise ConfigError.one(
            f"no data file is named like {relative_to_here(found)}",
            file=file,
            key=f"{key}.path",
            suggestion=listed if there else f"is there anything in {relative_to_here(folder)}?",
        )
    return files


def _existing_file(found: Path, *, file: Path | None, key: str) -> Path:
    if not found.is_file():
        what = "is a folder, not a file" if found.is_dir() else "does not exist"
        raise ConfigError.one(
            f"the data file {relative_to_here(found)} {what}",
            file=file,
            key=f"{key}.path",
            suggestion=did_you_mean(found.name, [name for name in names_in(found.parent) if name != found.name]),
        )
    return found


def fixed_folder(pattern: str) -> Path:
    """The deepest folder of a pattern that is written out: what the names of its files count from."""
    folder = Path(pattern)
    while is_pattern(str(folder)):
        folder = folder.parent
    return folder


def files_hash(paths: list[Path], *, folder: Path) -> str:
    """sha256 in hex of one file. Of several, that of what `sha256sum` prints of them: a line for each, its own hash,
    two spaces, and its name from `folder`."""
    if len(paths) == 1:
        return _hash_of(paths[0])
    lines = [f"{_hash_of(path)}  {path.relative_to(folder).as_posix()}\n" for path in paths]
    return hashlib.sha256("".join(lines).encode("utf-8", "surrogateescape")).hexdigest()


def _hash_of(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@contextmanager
def unpacked(path: Path) -> Iterator[IO[bytes]]:
    """The file's bytes to read; those that are packed in it where its name ends with .gz or .zst.

    Raises ConfigError for a packed file that is broken, whenever that comes to light."""
    packed = {".gz": "gzip", ".zst": "zstd"}.get(path.suffix.lower())
    if packed is None:
        with path.open("rb") as stream:
            yield stream
        return
    try:
        with _gunzipped(path) if packed == "gzip" else _zstd(path) as stream:
            yield stream
    except (OSError, EOFError, zlib.error) as broken:
        raise ConfigError.one(f"not a readable {packed} file: {broken}", file=path) from broken


def _gunzipped(path: Path) -> IO[bytes]:
    return io.BufferedReader(gzip.open(path, "rb"), buffer_size=_BLOCK)  # type: ignore[arg-type]


def _zstd(path: Path) -> BinaryIO:
    import pyarrow as pa  # noqa: PLC0415  only for files that need it

    return io.BufferedReader(pa.CompressedInputStream(str(path), "zstd"), buffer_size=_BLOCK)
