"""Which Parquet files of a run count, and how a file becomes one of them.

A table's folder of a run holds parts (`<part>.parquet`), compacted files (`_compacted-*.parquet`), and perhaps
`_manifest.json`, which names the compacted files that count and the parts that they replace (`superseded`). A part
counts unless it is superseded; a compacted file counts only if it is named. The manifest is replaced in one rename,
so that every reader sees either the parts or the file made of them, never both and never neither. Superseded files
stay for a while, for readers who listed them earlier.
"""

import fcntl
import json
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from schemas.errors import AssayError
from warehouse.schema import TABLES

MANIFEST = "_manifest.json"
COMPACTED_PREFIX = "_compacted-"
TEMPORARY_SUFFIX = ".tmp"
_LOCK = "_lock"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._=-]{0,199}")
_FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._=~-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacted:
    """One file of a manifest. holds: `rows`, or for requests `last` (attempts) and `earlier`."""

    name: str
    holds: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What compaction left. superseded: when each replaced file was replaced, in seconds since the epoch, by name."""

    compacted: tuple[Compacted, ...] = ()
    superseded: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFiles:
    """The files of one table of one run that count now. fresh: parts that no compaction took in, oldest first."""

    table: str
    run_id: str
    folder: Path
    compacted: tuple[Compacted, ...]
    fresh: tuple[Path, ...]

    @property
    def paths(self) -> tuple[Path, ...]:
        """All of them; of two rows with one key and one revision, the one of the later file counts."""
        return (*(self.folder / each.name for each in self.compacted), *self.fresh)


def tables_folder(home: Path) -> Path:
    """Where all Parquet files lie."""
    return home / "tables"


def run_folder(*, home: Path, table: str, run_id: str) -> Path:
    """Where the files of one table of one run lie. Raises ValueError for a name that is no name."""
    if table not in TABLES or not TABLES[table].stored:
        raise ValueError(f"there is no stored table {table!r}; there are {', '.join(stored_tables())}")
    return tables_folder(home) / table / f"run={checked_name(run_id)}"


def stored_tables() -> list[str]:
    """The tables that rows can be written to."""
    return [name for name, table in TABLES.items() if table.stored]


def checked_name(name: str) -> str:
    """The name itself, if it is safe as a file's name. Raises ValueError where it is not."""
    if not is_name(name):
        raise ValueError(f"{name!r} is no name: letters, digits, '.', '_', '=' and '-' only, a letter or digit first")
    return name


def is_name(name: str) -> bool:
    """Whether it is safe as a file's name, and so may be a run's id."""
    return _NAME.fullmatch(name) is not None


def plain_file_name(name: str) -> str:
    """The name itself. Raises ValueError for one that would lead out of its folder: manifests come from other hosts."""
    if not _FILE_NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no file's name")
    return name


def run_files(*, home: Path, table: str, run_id: str) -> RunFiles:
    """The files that count now, as of one moment. An absent folder has none."""
    folder = run_folder(home=home, table=table, run_id=run_id)
    while True:
        before = _manifest_bytes(folder)
        names = _part_names(folder)
        if _manifest_bytes(folder) != before:
            continue  # a compaction or a clean-up came between: what was listed fits neither manifest
        manifest = _parsed(folder=folder, content=before)
        timed = [(_written_at(folder / name), name) for name in names if name not in manifest.superseded]
        return RunFiles(
            table=table,
            run_id=run_id,
            folder=folder,
            compacted=manifest.compacted,
            fresh=tuple(folder / name for _, name in sorted(timed)),
        )


def run_ids(*, home: Path, table: str) -> list[str]:
    """The runs that have a folder in this table, sorted."""
    try:
        entries = list((tables_folder(home) / table).iterdir())
    except FileNotFoundError:
        return []
    names = [entry.name.removeprefix("run=") for entry in entries if entry.name.startswith("run=") and entry.is_dir()]
    return sorted(name for name in names if is_name(name))


def read_manifest(folder: Path) -> Manifest:
    """The folder's manifest; an empty one where there is none."""
    return _parsed(folder=folder, content=_manifest_bytes(folder))


def write_manifest(*, folder: Path, manifest: Manifest) -> None:
    """Replaces the manifest in one step, durably."""
    content: dict[str, Any] = {
        "compacted": [{"name": each.name, "holds": each.holds} for each in manifest.compacted],
        "superseded": manifest.superseded,
    }
    temporary = temporary_name(folder / MANIFEST)
    with temporary.open("w", encoding="utf-8") as file:
        json.dump(content, file, indent=1, sort_keys=True)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(folder / MANIFEST)
    sync_folder(folder)


def publish_part(*, temporary: Path, folder: Path, part: str) -> Path:
    """Gives a written file its name as a part, without ever replacing another: a name that is or was taken gets a
    random tail. Returns the path."""
    superseded = read_manifest(folder).superseded
    target = folder / f"{part}.parquet"
    while True:
        if target.name not in superseded:
            try:
                _name_once(temporary=temporary, target=target)
            except FileExistsError:
                pass
            else:
                sync_folder(folder)
                return target
        target = folder / f"{part}~{secrets.token_hex(4)}.parquet"


def temporary_name(path: Path) -> Path:
    """A name beside path that nobody else uses and no reader looks at."""
    return path.with_name(f"{path.name}.{os.getpid()}-{secrets.token_hex(4)}{TEMPORARY_SUFFIX}")


def make_folder(folder: Path) -> None:
    """Makes a folder with its parents, and their entries durable."""
    missing = [folder]
    while not missing[-1].parent.exists():
        missing.append(missing[-1].parent)
    folder.mkdir(parents=True, exist_ok=True)
    for made in reversed(missing):
        sync_folder(made.parent)


def sync_file(path: Path) -> None:
    """Makes a file's content durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """Makes a folder's entries durable."""
    sync_file(folder)


@contextmanager
def locked(folder: Path, *, name: str = _LOCK) -> Iterator[None]:
    """Holds the folder's lock, waiting for it. The kernel frees it when the holder dies."""
    with (folder / name).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _name_once(*, temporary: Path, target: Path) -> None:
    """Renames, but raises FileExistsError where the name is taken: link refuses that, unlike rename."""
    try:
        os.link(temporary, target)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        if target.exists():
            raise FileExistsError(target) from None
        temporary.rename(target)
    else:
        temporary.unlink()


def _manifest_bytes(folder: Path) -> bytes | None:
    try:
        return (folder / MANIFEST).read_bytes()
    except FileNotFoundError:
        return None


def _parsed(*, folder: Path, content: bytes | None) -> Manifest:
    if content is None:
        return Manifest()
    try:
        raw = json.loads(content)
        return Manifest(
            compacted=tuple(
                Compacted(name=plain_file_name(each["name"]), holds=str(each["holds"])) for each in raw["compacted"]
            ),
            superseded={name: float(moment) for name, moment in raw["superseded"].items()},
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise AssayError(
            f"{folder / MANIFEST}: not a manifest that assay wrote: {error} (restore it from a backup; without it,"
            " superseded rows would count again)"
        ) from error


def _part_names(folder: Path) -> list[str]:
    try:
        names = [entry.name for entry in folder.iterdir()]
    except FileNotFoundError:
        return []
    return [name for name in names if name.endswith(".parquet") and not name.startswith(("_", "."))]


def _written_at(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return 0
