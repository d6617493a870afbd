"""Makes a run appear in, or vanish from, all its folders in one step.

A run has a folder in each table and one for its files. No file system renames several folders at once; but symbolic
links to folders inside one other folder, its bundle, all begin to lead somewhere, or cease to, when that bundle is
renamed. Readers do not look at a link that leads nowhere. Between such steps the folders are ordinary ones: a link and
the folder that it stands for change places in one step, too.

    tables/requests/run=<id> -> ../.bundles/<id>/requests           while a run comes or goes
    runs/<id>                -> ../tables/.bundles/<id>/files

The bundles lie below `tables`, since queries may read nothing else, links followed.

Whoever is killed in between leaves a run that is there as a whole or not at all; `settle` tidies up.
"""

import ctypes
import errno
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from schemas.errors import AssayError
from warehouse.build import BUILD_LOCK
from warehouse.parts import (
    checked_name,
    locked,
    make_folder,
    run_folder,
    run_ids,
    stored_tables,
    sync_folder,
    tables_folder,
)

FILES = "files"
"""The name, in a bundle, of the folder that is `runs/<id>` in a home."""
_BUNDLES = ".bundles"
_TRASH = ".trash"
_STAGING = ".staging-"
_LEAVING = ".leaving"
_LOCK = ".maintenance.lock"
_RENAME_EXCHANGE = 2
_AT_FDCWD = -100
_UNSUPPORTED = frozenset({errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EPERM})


@contextmanager
def maintenance(home: Path) -> Iterator[None]:
    """Holds what import, prune and vacuum exclude each other by; finishes first what a killed one left half done."""
    make_folder(home)
    with locked(home, name=_LOCK):
        settle(home)
        yield


def files_folder(*, home: Path, run_id: str) -> Path:
    """Where a run's report, log and config lie."""
    return home / "runs" / checked_name(run_id)


def places(*, home: Path, run_id: str) -> dict[str, Path]:
    """Where a run has a folder: by table, and FILES."""
    tables = {table: run_folder(home=home, table=table, run_id=run_id) for table in stored_tables()}
    return tables | {FILES: files_folder(home=home, run_id=run_id)}


def every_run(home: Path) -> list[str]:
    """The runs that have rows in any table, sorted."""
    return sorted({run_id for table in stored_tables() for run_id in run_ids(home=home, table=table)})


def folder_bytes(folder: Path) -> int:
    """What the files below a folder take, in bytes; 0 for one that is not there."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                total += (Path(parent) / name).lstat().st_size
    return total


def run_bytes(*, home: Path, run_id: str) -> int:
    """What a run takes in all its folders, in bytes."""
    return sum(folder_bytes(place) for place in places(home=home, run_id=run_id).values())


def new_staging(home: Path) -> Path:
    """A new folder, on the same disk, for what is being put together. `clear_staging` removes it."""
    make_folder(home)
    folder = home / f"{_STAGING}{os.getpid()}-{secrets.token_hex(4)}"
    folder.mkdir()
    return folder


def clear_staging(home: Path) -> int:
    """Removes what importers left; gives its bytes. Only under `maintenance`, where none is at work."""
    return sum(remove_folder(folder) for folder in home.glob(f"{_STAGING}*"))


def empty_trash(home: Path) -> int:
    """Deletes what was taken out of the tables; gives its bytes. Only under `maintenance`."""
    return remove_folder(home / _TRASH)


def publish(*, home: Path, run_id: str, staged: Path) -> None:
    """Shows a run whose folders lie, complete and durable, in `staged` under the names of `places`. All of it appears
    in one step. Raises AssayError where the run has a folder already. Only under `maintenance`."""
    names = sorted(entry.name for entry in staged.iterdir())
    where = places(home=home, run_id=run_id)
    for name in names:
        if where[name].exists():
            raise AssayError(f"{where[name]} is there already (move it away)")
    bundle = tables_folder(home) / _BUNDLES / checked_name(run_id)
    make_folder(bundle.parent)
    for name in names:
        make_folder(where[name].parent)
        where[name].unlink(missing_ok=True)
        where[name].symlink_to(_link(home=home, place=where[name], bundle=bundle, name=name))
        sync_folder(where[name].parent)
    sync_folder(staged)
    with locked(home, name=BUILD_LOCK):  # else a builder that is listing would take in half of it
        staged.rename(bundle)
        sync_folder(bundle.parent)
        _settle_bundle(home=home, bundle=bundle)


def retire(*, home: Path, run_id: str) -> int:
    """Takes a run out of all tables in one step, then deletes it; gives its bytes. Only under `maintenance`."""
    where = {name: place for name, place in places(home=home, run_id=run_id).items() if place.is_dir()}
    bundle = tables_folder(home) / _BUNDLES / checked_name(run_id)
    make_folder(bundle)
    with locked(home, name=BUILD_LOCK):
        for name, place in where.items():
            if place.is_symlink():
                continue  # it was never settled: its folder is in the bundle already
            (bundle / name).symlink_to(_link(home=home, place=place, bundle=bundle, name=name))
            if not _exchange(place, bundle / name):
                _move_all(bundle=bundle, where=where)
                break
        trash = _to_trash(home=home, bundle=bundle)
        for place in where.values():
            if place.is_symlink():
                place.unlink()
    return remove_folder(trash)


def settle(home: Path) -> None:
    """Finishes what a killed `publish` or `retire` left: what is shown becomes ordinary folders, links that lead
    nowhere go. Only under `maintenance`."""
    with locked(home, name=BUILD_LOCK):
        for bundle in sorted((tables_folder(home) / _BUNDLES).glob("*")):
            if (bundle / _LEAVING).exists():
                where = places(home=home, run_id=bundle.name)
                _move_all(bundle=bundle, where={name: place for name, place in where.items() if place.is_dir()})
                _to_trash(home=home, bundle=bundle)
            else:
                _settle_bundle(home=home, bundle=bundle)
        for place in (*tables_folder(home).glob("*/run=*"), *(home / "runs").glob("*")):
            if place.is_symlink() and not place.exists():
                place.unlink(missing_ok=True)


def _settle_bundle(*, home: Path, bundle: Path) -> None:
    where = places(home=home, run_id=bundle.name)
    for entry in sorted(bundle.iterdir()):
        place = where[entry.name]
        # The folder itself is here and the link in the tables, or, if they have changed places, the other way round.
        if not entry.is_symlink() and not (place.is_symlink() and _exchange(place, entry)):
            continue
        if entry.is_symlink():
            entry.unlink()
            sync_folder(place.parent)
    with suppress(OSError):  # not empty on a file system that cannot exchange: links then serve as well as folders
        bundle.rmdir()


def _move_all(*, bundle: Path, where: dict[str, Path]) -> None:
    """On a file system that cannot exchange: one rename after another, while no database is built. A kill in between
    leaves a mark by which `settle` goes on."""
    (bundle / _LEAVING).touch()
    sync_folder(bundle)
    for name, place in where.items():
        target = bundle / name
        if place.is_symlink():
            place.unlink()
        else:
            target.unlink(missing_ok=True)
            place.rename(target)


def _to_trash(*, home: Path, bundle: Path) -> Path:
    trash = home / _TRASH / f"{bundle.name}-{secrets.token_hex(4)}"
    make_folder(trash.parent)
    bundle.rename(trash)
    sync_folder(bundle.parent)
    return trash


def _link(*, home: Path, place: Path, bundle: Path, name: str) -> str:
    return os.path.relpath((bundle / name).relative_to(home), place.relative_to(home).parent)


def _exchange(one: Path, other: Path) -> bool:
    """Two names change what they stand for, in one step. False where the file system or the C library cannot."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError):
        return False
    if rename(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0:
        sync_folder(one.parent)
        sync_folder(other.parent)
        return True
    code = ctypes.get_errno()
    if code in _UNSUPPORTED:
        return False
    raise OSError(code, os.strerror(code), str(one))


def remove_folder(folder: Path) -> int:
    """Deletes a folder; gives the bytes that came free."""
    size = folder_bytes(folder)
    shutil.rmtree(folder, ignore_errors=True)
    return size - folder_bytes(folder)
