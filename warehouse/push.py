"""A copy of the Parquet tree in S3-compatible storage, of which every reader sees each row once while it is made.

The order does it: files that count, then the manifest that names them and what they replace. What is replaced stays for
an hour, for readers who listed it. Objects appear whole or not at all, so whoever is killed in between is simply not
done; the next push goes on. Besides what the manifest says at home it keeps, as `written`, the order of the parts,
which decides between equal revisions.
"""

import hashlib
import json
import os
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

import pyarrow as pa  # type: ignore[import-untyped]
from pyarrow import fs

from schemas.errors import RunError
from warehouse.bucket import Contents, Place, connected, contents, explained, listed, place
from warehouse.parts import (
    COMPACTED_PREFIX,
    MANIFEST,
    Manifest,
    RunFiles,
    locked,
    make_folder,
    read_manifest,
    run_files,
    run_ids,
    stored_tables,
)

GRACE_S = 3600.0
"""How long a replaced file stays there."""
_FOLDERS = 8
_UPLOADS = 8
_LIST_AGAIN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Pushed:
    """What a push did. uploaded and removed are files (manifests are not counted), unchanged were there already."""

    uploaded: int = 0
    uploaded_bytes: int = 0
    unchanged: int = 0
    removed: int = 0

    def __add__(self, other: "Pushed") -> "Pushed":
        return Pushed(
            uploaded=self.uploaded + other.uploaded,
            uploaded_bytes=self.uploaded_bytes + other.uploaded_bytes,
            unchanged=self.unchanged + other.unchanged,
            removed=self.removed + other.removed,
        )


def push(*, home: Path, url: str, grace_s: float = GRACE_S) -> Pushed:
    """Copies every run's committed rows to `s3://bucket/prefix`: what is not there yet, or changed. Runs that are only
    there stay. What was replaced there longer than grace_s (seconds) ago is deleted.

    Raises ConfigError for a wrong URL, missing credentials or bucket, RunError where the server fails."""
    return _push(home=home, url=url, only=None, grace_s=grace_s)


def push_run(*, home: Path, run_id: str, url: str) -> Pushed:
    """The same for one run. Raises what `push` raises."""
    return _push(home=home, url=url, only=run_id, grace_s=GRACE_S)


def remote_folder(*, home: Path, where: Place) -> Path:
    """Where this home keeps what belongs to one place: `remote/<16 hex digits of its URL and server>`."""
    digest = hashlib.sha256(f"{where.url} {where.endpoint}".encode()).hexdigest()[:16]
    return home / "remote" / digest


def _push(*, home: Path, url: str, only: str | None, grace_s: float) -> Pushed:
    where = place(url)
    client = connected(where)
    folder = remote_folder(home=home, where=where)
    make_folder(folder)
    pairs = [
        (table, run_id)
        for table in stored_tables()
        for run_id in (run_ids(home=home, table=table) if only is None else [only])
    ]
    with (
        locked(folder, name=".push.lock"),
        explained(where),
        ThreadPoolExecutor(_FOLDERS) as folders,
        ThreadPoolExecutor(_UPLOADS) as uploads,
    ):
        sent = _Sent(folder / "sent")
        there = _by_folder(listed(client, where=where, folder="tables")) if only is None else None

        def push_one(pair: tuple[str, str]) -> Pushed:
            inside = f"tables/{pair[0]}/run={pair[1]}"
            listing = _by_folder(listed(client, where=where, folder=inside)) if there is None else there
            names = listing.get(inside, {})
            target = _Target(
                client=client, where=where, inside=inside, there=names, pool=uploads, grace_s=grace_s, sent=sent
            )
            return _push_folder(home=home, table=pair[0], run_id=pair[1], target=target)

        return sum(folders.map(push_one, pairs), Pushed())


def _by_folder(there: Mapping[str, fs.FileInfo]) -> dict[str, dict[str, fs.FileInfo]]:
    folders: dict[str, dict[str, fs.FileInfo]] = {}
    for path, info in there.items():
        folder, _, name = path.rpartition("/")
        folders.setdefault(folder, {})[name] = info
    return folders


class _Sent:
    """The parts that this home ever sent to one place. Such a part that does not count here any more was replaced,
    even if nobody here remembers that; one that another home sent may hold rows that are nowhere else."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = Lock()
        self._names = set(path.read_text().splitlines()) if path.exists() else set()

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def add(self, names: Iterable[str]) -> None:
        """Remembers names durably: before they are sent, since whoever sends them may be killed then."""
        with self._lock:
            new = sorted(set(names) - self._names)
            if new:
                with self._path.open("a") as file:
                    file.write("".join(f"{name}\n" for name in new))
                    file.flush()
                    os.fsync(file.fileno())
                self._names.update(new)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Target:
    """One table's folder of one run, there. there: its files, as listed before anything was done."""

    client: fs.FileSystem
    where: Place
    inside: str
    there: Mapping[str, fs.FileInfo]
    pool: ThreadPoolExecutor
    grace_s: float
    sent: _Sent

    def path(self, name: str) -> str:
        return f"{self.where.path}/{self.inside}/{name}"

    def upload(self, source: Path) -> int:
        """Puts a file there, and returns its bytes. It is mapped before the object is begun: an object that was begun
        is finished, even when its writer fails."""
        with pa.memory_map(str(source)) as file:
            content = file.read_buffer()
            with self.client.open_output_stream(self.path(source.name)) as stream:
                stream.write(content)
            return int(content.size)

    def delete(self, name: str) -> None:
        with suppress(FileNotFoundError):  # another host was faster
            self.client.delete_file(self.path(name))

    def manifest(self) -> bytes | None:
        if MANIFEST not in self.there:
            return None
        with self.client.open_input_stream(self.path(MANIFEST)) as stream:
            return bytes(stream.read())


def _push_folder(*, home: Path, table: str, run_id: str, target: _Target) -> Pushed:
    for _ in range(_LIST_AGAIN):
        files = run_files(home=home, table=table, run_id=run_id)
        if not files.paths:
            return Pushed()
        manifest = read_manifest(files.folder)
        if manifest.compacted != files.compacted:
            continue  # a compaction came between
        try:
            return _push_files(files=files, manifest=manifest, target=target)
        except FileNotFoundError:
            continue  # a clean-up took files that were replaced after they were listed
    raise RunError(f"{home}: files vanish while they are read (is another program deleting them?)")


def _push_files(*, files: RunFiles, manifest: Manifest, target: _Target) -> Pushed:
    sizes = {path: path.stat().st_size for path in files.paths}
    times = {path.name: path.stat().st_mtime_ns for path in files.fresh}
    missing = [path for path, size in sizes.items() if getattr(target.there.get(path.name), "size", None) != size]
    target.sent.add(f"{target.inside}/{path.name}" for path in files.fresh)
    sent = sum(target.pool.map(target.upload, missing))
    before = target.manifest()
    source = f"{target.where.url}/{target.inside}/{MANIFEST}"
    known = contents(before, source=source)
    superseded = _superseded(files=files, local=manifest, known=known, target=target)
    old = [
        name
        for name, moment in known.superseded.items()
        if name in superseded and moment <= time.time() - target.grace_s
    ]
    list(target.pool.map(target.delete, old))
    for name in old:
        del superseded[name]
    content = {
        "compacted": [{"name": each.name, "holds": each.holds} for each in manifest.compacted],
        "superseded": superseded,
        "written": times,
    }
    after = json.dumps(content, indent=1, sort_keys=True).encode()
    if after != before:
        with target.client.open_output_stream(target.path(MANIFEST)) as stream:
            stream.write(after)
    return Pushed(
        uploaded=len(missing), uploaded_bytes=sent, unchanged=len(files.paths) - len(missing), removed=len(old)
    )


def _superseded(*, files: RunFiles, local: Manifest, known: Contents, target: _Target) -> dict[str, float]:
    """The files there that do not count any more, by when they ceased to: what was replaced at home or there, and what
    a killed push left."""
    counted = {path.name for path in files.paths}
    replaced = {*local.superseded, *known.superseded, *(each.name for each in known.compacted)}
    left = {name for name in target.there if name.startswith(COMPACTED_PREFIX)}
    mine = {name for name in target.there if f"{target.inside}/{name}" in target.sent}
    now = time.time()
    gone = (replaced | left | mine) & target.there.keys() - counted
    return {name: known.superseded.get(name, now) for name in sorted(gone)}
