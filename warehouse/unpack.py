"""What an import reads: a warehouse's folder as it is, an export checked against its manifest, a zip unpacked first."""

import json
import os
import shutil
import stat
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from schemas.errors import AssayError, ConfigError
from warehouse.copying import file_sha256
from warehouse.export import EXPORT_MANIFEST, FORMAT, FORMAT_VERSION
from warehouse.schema import SCHEMA_VERSION

_MANIFEST_BYTES = 64 << 20
_CHUNK = 1 << 20
_FRESH_COPY = "take a fresh copy of the export"


@contextmanager
def opened(*, source: Path, staging: Path) -> Iterator[Path]:
    """The folder to import from. Raises ConfigError for a source that is none or does not match its manifest,
    AssayError for one that a newer assay wrote."""
    if source.is_dir():
        if (source / EXPORT_MANIFEST).is_file():
            manifest = _read_manifest((source / EXPORT_MANIFEST).read_bytes(), source=source)
            _check(root=source, files=manifest["files"], source=source)
            copy = staging / "source"
            _copied(root=source, files=manifest["files"], target=copy)
            yield copy
        else:
            yield source
    elif source.is_file():
        yield _unpacked(source=source, target=staging / "source")
    else:
        raise ConfigError.one(f"there is nothing at {source}", suggestion="name an ASSAY_HOME, or an export")


def _read_manifest(content: bytes, *, source: Path) -> dict[str, Any]:
    try:
        manifest = json.loads(content)
        known = manifest["format"] == FORMAT
        version = max(int(manifest["schema_version"]), 0)
        newer = int(manifest["format_version"]) > FORMAT_VERSION or version > SCHEMA_VERSION
        listed = (
            [
                (str(each["path"]), int(each["bytes"]), str(each["sha256"]), int(each["modified_ns"]))
                for each in manifest["files"]
            ]
            if known and not newer
            else []
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError.one(f"{source}: its {EXPORT_MANIFEST} is broken: {error}", suggestion=_FRESH_COPY) from error
    if not known:
        raise ConfigError.one(f"{source}: its {EXPORT_MANIFEST} is not assay's")
    if newer:
        raise AssayError(
            f"{source}: written with schema version {version}, and this assay knows versions up to {SCHEMA_VERSION}"
            " (use the newer assay to import it)"
        )
    return {"files": {path: (size, digest, modified) for path, size, digest, modified in listed}}


def _check(*, root: Path, files: dict[str, tuple[int, str, int]], source: Path) -> None:
    for path, (size, digest, _) in files.items():
        inside = _safe(path, source=source)
        there = root / inside
        if there.is_symlink() or not there.is_file():
            raise ConfigError.one(f"{source}: {path} is missing", suggestion=_FRESH_COPY)
        if there.stat().st_size != size or file_sha256(there) != digest:
            raise ConfigError.one(f"{source}: {path} was changed: its sha256 is another", suggestion=_FRESH_COPY)


def _copied(*, root: Path, files: dict[str, tuple[int, str, int]], target: Path) -> None:
    """What the manifest lists, with the times that it says: a copied folder may have lost them."""
    target.mkdir(parents=True)
    for path, (_, _, modified) in files.items():
        there = target / path
        there.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / path, there)
        os.utime(there, ns=(modified, modified))
    (target / EXPORT_MANIFEST).touch()


def _unpacked(*, source: Path, target: Path) -> Path:
    target.mkdir(parents=True)
    try:
        with zipfile.ZipFile(source) as packed:
            names = {info.filename: info for info in packed.infolist() if not info.is_dir()}
            if EXPORT_MANIFEST not in names or names[EXPORT_MANIFEST].file_size > _MANIFEST_BYTES:
                raise ConfigError.one(
                    f"{source}: no {EXPORT_MANIFEST} in it", suggestion="name a zip that `assay export` wrote"
                )
            files = _read_manifest(packed.read(EXPORT_MANIFEST), source=source)["files"]
            needed = sum(size for size, _, _ in files.values())
            free = shutil.disk_usage(target).free
            if needed * 2 > free:
                raise ConfigError.one(
                    f"{source} unpacks to {needed / 1e6:,.0f} MB, the disk has {free / 1e6:,.0f} MB free",
                    suggestion="make room: it is held twice for a moment",
                )
            for path, (size, _, modified) in files.items():
                inside = _safe(path, source=source)
                info = names.get(path)
                if info is None:
                    raise ConfigError.one(f"{source}: {path} is missing", suggestion=_FRESH_COPY)
                if stat.S_ISLNK(info.external_attr >> 16):
                    raise ConfigError.one(f"{source}: {path} is a link", suggestion=_FRESH_COPY)
                (target / inside).parent.mkdir(parents=True, exist_ok=True)
                _extract(packed=packed, info=info, target=target / inside, size=size)
                os.utime(target / inside, ns=(modified, modified))
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise ConfigError.one(f"{source}: no zip that can be read: {error}", suggestion=_FRESH_COPY) from error
    _check(root=target, files=files, source=source)
    (target / EXPORT_MANIFEST).touch()
    return target


def _extract(*, packed: zipfile.ZipFile, info: zipfile.ZipInfo, target: Path, size: int) -> None:
    """No more bytes than the manifest says: what a zip says of itself may be a lie."""
    with packed.open(info) as reading, target.open("wb") as writing:
        left = size + 1
        while left > 0 and (chunk := reading.read(min(_CHUNK, left))):
            writing.write(chunk)
            left -= len(chunk)


def _safe(path: str, *, source: Path) -> PurePosixPath:
    inside = PurePosixPath(path)
    parts = path.split("/")
    top = parts[0]
    if top not in ("tables", "runs") or any(part in ("", ".", "..") or "\\" in part or "\0" in part for part in parts):
        raise ConfigError.one(f"{source}: {path!r} is no file of an export", suggestion=_FRESH_COPY)
    return inside
