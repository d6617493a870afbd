"""The same tables and views over a Parquet tree in S3-compatible storage.

A folder here stands for the tree there: small tables' files lie in it whole, since they are copied into the database
anyway; of the others there is the end of each file, which says what is in it, behind a hole of the file's true size. So
the database is built here as any other. In it, the views over large tables are then turned to the files there, and a
query fetches what it needs of them. Files never change, so what was fetched once is kept; only the list of files and
recent manifests are asked for each time.
"""

import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

import duckdb
from pyarrow import fs  # type: ignore[import-untyped]

from schemas.errors import AssayError, ConfigError, RunError
from warehouse.bucket import Contents, Place, client, connected, contents, explained, listed, place
from warehouse.build import ensure_fresh
from warehouse.parts import (
    MANIFEST,
    Manifest,
    checked_name,
    locked,
    make_folder,
    read_manifest,
    stored_tables,
    temporary_name,
    write_manifest,
)
from warehouse.push import remote_folder
from warehouse.scan import exact_pattern
from warehouse.schema import TABLES
from warehouse.schema.table import literal, quoted

MARKER = "remote.json"
"""Says, in a folder that stands for a tree there, where that is."""
_STATE = "state.json"
_TURNED = "remote-"
_HTTPFS = "httpfs"
_FETCHES = 16
_TAIL = 1 << 16
_PARQUET_END = 8
_SETTLED_NS = 600 * 10**9
"""S3 tells times in seconds: a manifest younger than this may have changed within one, so it is read again."""
_SKEW_NS = 3600 * 10**9
_FETCH_AGAIN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tree:
    """What counts there. files: by path inside the place; folders: what the manifest of each `tables/t/run=r` says;
    raw: those manifests, with size and time, to be asked for no more."""

    files: Mapping[str, fs.FileInfo]
    folders: Mapping[str, Contents]
    raw: Mapping[str, tuple[int, int, str]]


def remote_home(*, home: Path, url: str) -> Path:
    """The folder in this home that stands for the warehouse at `s3://bucket/prefix`; `query` takes it as a home.

    Raises ConfigError for a wrong URL or missing credentials. Nothing is fetched yet."""
    where = place(url)
    folder = remote_folder(home=home.resolve(), where=where)
    make_folder(folder)
    _replace(folder / MARKER, json.dumps(asdict(where)))
    return folder


def fresh(home: Path) -> Path:
    """The database file to ask, built anew if anything changed, of a home or of a folder that stands for one in S3.

    Raises what `ensure_fresh` raises; ConfigError for a bucket or a warehouse that is not there, RunError where the
    server fails."""
    where = _place_of(home)
    if where is None:
        return ensure_fresh(home)
    store = connected(where)
    with locked(home, name=".sync.lock"):
        for _ in range(_FETCH_AGAIN):
            try:
                with explained(where):
                    tree = _tree(store=store, where=where, known=_known(home))
                    _fetch(store=store, where=where, home=home, tree=tree)
            except FileNotFoundError:
                continue  # replaced, and taken away, after it was listed
            if not tree.files:
                raise ConfigError.one(
                    f"there is no warehouse at {where.shown}", suggestion=f"check the prefix, or assay push {where.url}"
                )
            return _turned(store=store, where=where, home=home, tree=tree)
    raise RunError(f"{where.shown}: files vanish while they are read (is another program deleting them?)")


def opened(connection: duckdb.DuckDBPyConnection, *, database: Path) -> list[str]:
    """Lets a connection read what the database's views name in S3, and returns the folders there that it needs; none
    for an ordinary home. To be called before the connection is locked."""
    where = _place_of(database.parent)
    if where is None or not database.name.startswith(_TURNED):
        return []
    if not (database.stem.endswith(_HTTPFS) and _use_httpfs(connection, where=where)):
        known = json.loads((database.parent / _STATE).read_bytes())
        sizes = {f"{where.path}/{path}": size for path, size in known["sizes"].items()}
        with explained(where):
            _use_arrow(connection, store=client(where), sizes=sizes)
    return [f"{where.url}/tables/"]


def _place_of(home: Path) -> Place | None:
    try:
        return Place(**json.loads((home / MARKER).read_bytes()))
    except FileNotFoundError:
        return None


def _known(home: Path) -> Mapping[str, tuple[int, int, str]]:
    try:
        return {
            name: (size, at, text) for name, (size, at, text) in json.loads((home / _STATE).read_bytes())["raw"].items()
        }
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return {}


def _tree(*, store: fs.FileSystem, where: Place, known: Mapping[str, tuple[int, int, str]]) -> _Tree:
    """Lists first and reads the manifests then: a file that was listed and replaced since is in what replaced it."""
    there = listed(store, where=where, folder="tables")
    folders: dict[str, list[str]] = {}
    for path in there:
        folder, _, name = path.rpartition("/")
        if _is_run(folder):
            folders.setdefault(folder, []).append(name)

    def manifest(folder: str) -> tuple[str, tuple[int, int, str]]:
        info = there[f"{folder}/{MANIFEST}"]
        size, at, text = known.get(folder, (0, 0, ""))
        if (size, at) == (info.size, info.mtime_ns):
            return folder, (size, at, text)
        with store.open_input_stream(f"{where.path}/{folder}/{MANIFEST}") as stream:
            return folder, (info.size, info.mtime_ns, bytes(stream.read()).decode())

    with ThreadPoolExecutor(_FETCHES) as pool:
        raw = dict(pool.map(manifest, [folder for folder, names in folders.items() if MANIFEST in names]))
        told = {
            folder: contents(
                raw[folder][2].encode() if folder in raw else None, source=f"{where.url}/{folder}/{MANIFEST}"
            )
            for folder in folders
        }
        named = [f"{folder}/{each.name}" for folder, said in told.items() for each in said.compacted]
        late = [path for path in named if path not in there]  # uploaded after they were listed
        there |= dict(zip(late, pool.map(lambda path: _info(store, where, path), late), strict=True))
    counting = [
        f"{folder}/{name}"
        for folder, names in folders.items()
        for name in names
        if name.endswith(".parquet") and not name.startswith(("_", ".")) and name not in told[folder].superseded
    ]
    return _Tree(files={path: there[path] for path in [*named, *counting]}, folders=told, raw=raw)


def _is_run(folder: str) -> bool:
    parts = folder.split("/")
    if len(parts) != 3 or parts[1] not in stored_tables() or not parts[2].startswith("run="):
        return False
    try:
        checked_name(parts[2].removeprefix("run="))
    except ValueError:
        return False
    return True


def _info(store: fs.FileSystem, where: Place, path: str) -> fs.FileInfo:
    info = store.get_file_info(f"{where.path}/{path}")
    if info.type == fs.FileType.NotFound:
        raise FileNotFoundError(path)
    return info


def _fetch(*, store: fs.FileSystem, where: Place, home: Path, tree: _Tree) -> None:
    """Brings the folder up to date. Only under the lock: half of it is no state for a reader."""
    missing = [path for path, info in tree.files.items() if _size(home / path) != info.size]
    for folder in tree.folders:
        (home / folder).mkdir(parents=True, exist_ok=True)

    def fetch(path: str) -> None:
        info = tree.files[path]
        temporary = temporary_name(home / path)
        try:
            with store.open_input_file(f"{where.path}/{path}") as source, temporary.open("wb") as target:
                if TABLES[path.split("/")[1]].small:
                    shutil.copyfileobj(source, target, 1 << 20)
                else:
                    tail = _tail(source, size=info.size)
                    target.seek(info.size - len(tail))
                    target.write(tail)
            temporary.replace(home / path)
        finally:
            temporary.unlink(missing_ok=True)

    with ThreadPoolExecutor(_FETCHES) as pool:
        list(pool.map(fetch, missing))
    for folder, said in tree.folders.items():
        for name, moment in said.written.items():
            if f"{folder}/{name}" in tree.files:
                os.utime(home / folder / name, ns=(moment, moment))
        wanted = Manifest(compacted=said.compacted)
        if read_manifest(home / folder) != wanted:
            write_manifest(folder=home / folder, manifest=wanted)
    for path in _superfluous(home=home, tree=tree):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    # What time it is there: as late as the latest file, and within an hour of what it is here.
    latest = max((info.mtime_ns for info in tree.files.values()), default=0)
    settled = max(latest, time.time_ns() - _SKEW_NS) - _SETTLED_NS
    state = {
        "raw": {folder: entry for folder, entry in tree.raw.items() if entry[1] < settled},
        "sizes": {path: info.size for path, info in tree.files.items()},
    }
    _replace(home / _STATE, json.dumps(state))


def _superfluous(*, home: Path, tree: _Tree) -> Iterator[Path]:
    """What lies here and counts no more there."""
    for folder in (home / "tables").glob("*/*"):
        inside = str(folder.relative_to(home))
        if inside not in tree.folders:
            yield folder
            continue
        for path in folder.iterdir():
            if path.suffix == ".tmp" or (path.suffix == ".parquet" and f"{inside}/{path.name}" not in tree.files):
                yield path


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return None


def _tail(source: fs.FileSystem, *, size: int) -> bytes:
    """The end of a Parquet file, with all that says what is in it; the whole of what is no Parquet file."""
    tail = bytes(source.read_at(min(size, _TAIL), max(0, size - _TAIL)))
    needed = int.from_bytes(tail[-_PARQUET_END:-4], "little") + _PARQUET_END
    if needed <= len(tail):
        return tail
    return bytes(source.read_at(min(size, needed), max(0, size - needed)))


def _turned(*, store: fs.FileSystem, where: Place, home: Path, tree: _Tree) -> Path:
    """The database file of this folder with its views turned to the files there; made once for each build."""
    try:
        source = ensure_fresh(home)
    except AssayError as error:
        if str(home) not in str(error):
            raise
        raise RunError(str(error).replace(str(home), where.url)) from error
    state = source.stat()
    identity = f"{_TURNED}{state.st_ino:x}-{state.st_mtime_ns:x}"
    for made in home.glob(f"{identity}-*.duckdb"):
        return made
    large = [path for path in tree.files if not TABLES[path.split("/")[1]].small]
    reader = _HTTPFS if large and _httpfs_works(where=where, path=large[0]) else "arrow"
    target = home / f"{identity}-{reader}.duckdb"
    temporary = temporary_name(target)
    try:
        shutil.copyfile(source, temporary)
        with duckdb.connect(str(temporary), config=_NO_EXTENSIONS | {"threads": 2}) as connection:
            if not (reader == _HTTPFS and _use_httpfs(connection, where=where)):
                sizes = {f"{where.path}/{path}": info.size for path, info in tree.files.items()}
                _use_arrow(connection, store=store, sizes=sizes)
            with explained(where):
                _turn_views(connection, home=home, where=where)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
    for old in home.glob(f"{_TURNED}*.duckdb"):
        if old != target:
            old.unlink()
    return target


_NO_EXTENSIONS: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
}


def _turn_views(connection: duckdb.DuckDBPyConnection, *, home: Path, where: Place) -> None:
    here = literal(exact_pattern(home))[1:-1]
    views = connection.execute("SELECT view_name, sql, comment FROM duckdb_views() WHERE NOT internal").fetchall()
    for name, sql, comment in views:
        if here not in sql:
            continue
        columns = connection.execute(
            "SELECT column_name, comment FROM duckdb_columns() WHERE table_name = ? AND comment IS NOT NULL", [name]
        ).fetchall()
        changed = sql.replace("CREATE VIEW", "CREATE OR REPLACE VIEW", 1).replace(here, where.url)
        connection.execute(changed)
        connection.execute(f"COMMENT ON VIEW {quoted(name)} IS {literal(comment or '')}")
        for column, meaning in columns:
            connection.execute(f"COMMENT ON COLUMN {quoted(name)}.{quoted(column)} IS {literal(meaning)}")


def _httpfs_works(*, where: Place, path: str) -> bool:
    """Whether DuckDB's own extension for S3 is installed (it is never downloaded), and reads a file there under the
    same restrictions as a query."""
    try:
        with duckdb.connect(config=_NO_EXTENSIONS) as connection:
            found = connection.execute(
                "SELECT installed FROM duckdb_extensions() WHERE extension_name = 'httpfs'"
            ).fetchone()
            if found is None or not found[0] or not os.environ.get("AWS_ACCESS_KEY_ID"):
                return False
            if not _use_httpfs(connection, where=where):
                return False
            connection.execute(f"SET allowed_directories = [{literal(where.url + '/tables/')}]")
            connection.execute("SET enable_external_access = false")
            connection.execute(f"FROM parquet_file_metadata({literal(f'{where.url}/{path}')})").fetchall()
    except duckdb.Error:
        return False
    return True


def _use_arrow(connection: duckdb.DuckDBPyConnection, *, store: fs.FileSystem, sizes: Mapping[str, int]) -> None:
    from warehouse.bucket_files import BucketFiles  # noqa: PLC0415 - what it imports is needed for S3 alone

    connection.register_filesystem(BucketFiles(client=store, sizes=sizes))


def _use_httpfs(connection: duckdb.DuckDBPyConnection, *, where: Place) -> bool:
    """False where the extension is not installed (any more), or refuses its settings."""
    options = {
        "KEY_ID": os.environ.get("AWS_ACCESS_KEY_ID", ""),
        "SECRET": os.environ.get("AWS_SECRET_ACCESS_KEY", ""),
        "SESSION_TOKEN": os.environ.get("AWS_SESSION_TOKEN", ""),
        "REGION": where.region,
        "ENDPOINT": where.endpoint.partition("://")[2],
        "URL_STYLE": "path" if where.endpoint else "",
    }
    given = "".join(f", {name} {literal(value)}" for name, value in options.items() if value)
    ssl = ", USE_SSL false" if where.endpoint.startswith("http://") else ""
    try:
        connection.execute("LOAD httpfs")
        connection.execute(f"CREATE SECRET assay (TYPE s3{given}{ssl})")
    except duckdb.Error:
        return False
    return True


def _replace(path: Path, text: str) -> None:
    if path.exists() and path.read_text() == text:
        return
    temporary = temporary_name(path)
    temporary.write_text(text)
    temporary.replace(path)
