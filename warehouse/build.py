"""Builds the database file from the Parquet parts. It is never written in place: a new file, then a rename."""

# ruff: noqa: S608 - every name and text that goes into SQL here is quoted first
import hashlib
import importlib.metadata
import os
import secrets
import shutil
import time
from datetime import UTC, datetime
from pathlib import Path

import duckdb

from schemas.errors import AssayError, ConfigError
from warehouse import folders, scan
from warehouse.collect import DATABASE, Source, attach, collect, reading
from warehouse.parts import locked, make_folder, sync_file, sync_folder
from warehouse.schema import TABLES, Table
from warehouse.schema.changes import CHANGES
from warehouse.schema.table import literal, quoted
from warehouse.views import definitions

__all__ = ["DATABASE", "build", "ensure_fresh"]

_WORK_PREFIX = ".build-"
BUILD_LOCK = ".build.lock"
_BUILD_AGAIN = 3
_MEMORY = "512MB"
_LAYOUT = 2
"""Number of the way in which this module writes the file."""


def build(home: Path) -> Path:
    """Builds `home/assay.duckdb` from the Parquet files, and returns its path.

    Small tables are copied in, large ones are views over the files that count now. Readers of the old file keep it
    until they close it; a kill leaves the old file. Several builders wait for one another. Raises AssayError for a
    Parquet file that this assay cannot read, ConfigError for a folder that DuckDB cannot work in.
    """
    home = _ready(home)
    with locked(home, name=BUILD_LOCK):
        return _build_locked(home, anew=True)


def ensure_fresh(home: Path) -> Path:
    """The path of `home/assay.duckdb`, built anew if the parts, the schema or the views changed since it was built.

    Looking costs one `stat` for each folder of a run. Of a database that is there, the rows of runs that did not change
    are taken over, and their files are not opened.
    """
    home = _ready(home)
    asked_at = time.time_ns()
    if not _is_fresh(home):
        with locked(home, name=BUILD_LOCK):
            # Whoever held the lock may have built what is needed. While parts come all the time none is fresh for long,
            # and one that looked after we asked will do: else those who wait would all build, one after another.
            if not (_looked_after(home, asked_at) or _is_fresh(home)):
                return _build_locked(home, anew=False)
    return home / DATABASE


def _looked_after(home: Path, asked_at: int) -> bool:
    """Whether the database shows all that was there at a moment (in nanoseconds): its time is when its build looked."""
    try:
        looked_at = (home / DATABASE).stat().st_mtime_ns
    except FileNotFoundError:
        return False
    if not asked_at < looked_at <= time.time_ns():  # later than now: the clock was set back
        return False
    with reading(home) as connection:
        try:
            return connection is not None and folders.read_noted(connection).setup == _setup(home)
        except duckdb.Error:
            return False


def _is_fresh(home: Path) -> bool:
    with reading(home) as connection:
        if connection is None:
            return False
        try:
            noted = folders.read_noted(connection)
            if noted.setup != _setup(home):
                return False
            now = folders.look(home)
            changed = noted.maybe_changed(now)
            then = folders.read_contents(connection, changed)
        except duckdb.Error:
            return False  # built by another version, or broken: it is built anew
    # A folder may have changed without what counts in it: superseded files were deleted, a writer is at work.
    return all(
        key in now.stamps and folders.content(folders.listed(home=home, key=key)) == then.get(key) for key in changed
    )


def _ready(home: Path) -> Path:
    home = home.resolve()
    if "?" in str(home):
        # DuckDB takes what follows for options, as in a URL, and looks for its log elsewhere.
        raise ConfigError.one(f"the folder {home} has a '?' in its name", key="ASSAY_HOME", suggestion="rename it")
    make_folder(home)
    return home


def _build_locked(home: Path, *, anew: bool) -> Path:
    for stale in home.glob(f"{_WORK_PREFIX}*-*"):
        shutil.rmtree(stale, ignore_errors=True)  # left by a builder that was killed: we hold the lock
    work = home / f"{_WORK_PREFIX}{os.getpid()}-{secrets.token_hex(4)}"
    work.mkdir()
    try:
        looked_at = time.time_ns()
        _write(home=home, work=work, anew=anew)
        os.utime(work / DATABASE, ns=(looked_at, looked_at))
        sync_file(work / DATABASE)
        (work / DATABASE).replace(home / DATABASE)
        sync_folder(home)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return home / DATABASE


def _write(*, home: Path, work: Path, anew: bool) -> None:
    source = collect(home=home, setup=_setup(home), anew=anew)
    for _ in range(_BUILD_AGAIN):
        (work / DATABASE).unlink(missing_ok=True)
        try:
            _fill(path=work / DATABASE, spill=work / "spill", source=source)
        except (FileNotFoundError, duckdb.Error) as error:
            vanished = not all(path.exists() for each in source.files for path in each.paths)
            if not (vanished and isinstance(error, FileNotFoundError | duckdb.IOException)) and not source.reused:
                if isinstance(error, duckdb.Error):
                    told = str(error).strip().splitlines()[0]
                    raise AssayError(f"{home}: the database cannot be built from its files: {told}") from error
                raise
            # Files that were superseded meanwhile were cleaned up, or the old database is broken: list again, all.
            source = collect(home=home, setup=_setup(home), anew=True)
        else:
            return
    raise AssayError(f"{home}: files vanish while they are read (is another program deleting them?)")


def _fill(*, path: Path, spill: Path, source: Source) -> None:
    settings: dict[str, str | bool | int | float | list[str]] = {"memory_limit": _MEMORY, "threads": 2}
    with duckdb.connect(str(path), config=settings) as connection:
        connection.execute(f"SET temp_directory = {literal(str(spill))}")
        connection.execute("SET TimeZone = 'UTC'")
        if source.reused:
            connection.execute(attach(source.home))
        connection.execute("BEGIN")  # hundreds of statements, made durable once
        for table in TABLES.values():
            for statement in _table_statements(table=table, source=source):
                connection.execute(statement).fetchall()
        version = _assay_version()
        now = datetime.now(UTC)
        connection.executemany(
            "INSERT INTO schema_version (revision, version, applied_at, assay_version) VALUES (0, ?, ?, ?)",
            [[change.version, now, version] for change in CHANGES],
        )
        for definition in definitions():
            connection.execute(definition.sql)
            kind = "MACRO TABLE" if definition.macro else "VIEW"
            connection.execute(f"COMMENT ON {kind} {quoted(definition.name)} IS {literal(definition.doc)}")
        connection.execute("CREATE SCHEMA build")
        source.note(connection)
        connection.execute("COMMIT")


def _table_statements(*, table: Table, source: Source) -> list[str]:
    if table.small:
        columns = ", ".join(f"{quoted(column.name)} {column.sql_type}" for column in table)
        fill = _small_rows(table=table, source=source) if table.stored else []
        inserts = [f"INSERT INTO {quoted(table.name)} {select}" for select in fill]
        return [f"CREATE TABLE {quoted(table.name)} ({columns})", *inserts, *_comments(table=table, kind="TABLE")]
    statements = [
        f"CREATE VIEW {quoted(table.name)} AS {_rows(table=table, source=source, last=table.name == 'requests')}",
        *_comments(table=table, kind="VIEW"),
    ]
    if table.name == "requests":
        every = f"CREATE VIEW request_attempts AS {_rows(table=table, source=source, last=False)}"
        statements += [every, *_comments(table=table, kind="VIEW", name="request_attempts")]
    return statements


def _small_rows(*, table: Table, source: Source) -> list[str]:
    """Keys begin with the run, so that a run whose files did not change keeps its rows whatever others do."""
    selects = []
    read = [each for each in source.files if each.table == table.name and (table.name, each.run_id) in source.changed]
    if source.reused:
        names = ", ".join(quoted(name) for name in table.names)
        changed = sorted(run_id for name, run_id in source.changed if name == table.name)
        others = f" WHERE run_id NOT IN ({', '.join(literal(each) for each in changed)})" if changed else ""
        selects.append(f"SELECT {names} FROM warehouse.main.{quoted(table.name)}{others}")
    if paths := [path for each in read for path in each.paths]:
        selects.append(scan.newest(table=table, paths=paths, columns=source.columns_of))
    return selects


def _rows(*, table: Table, source: Source, last: bool) -> str:
    """Compacted files alone hold each key once and are read straight. As soon as a run has fresh parts, a part may
    hold a newer revision of a compacted row, so all files of that run are compared."""
    holding = {"last"} if last else {"rows", "last", "earlier"}
    files = [each for each in source.files if each.table == table.name]
    settled = [
        each.folder / part.name for each in files if not each.fresh for part in each.compacted if part.holds in holding
    ]
    moving = [path for each in files if each.fresh for path in each.paths]
    selects = []
    if settled:
        selects.append(scan.straight(table=table, paths=settled, columns=source.columns_of))
    if moving:
        last_of = "attempt" if last else None
        selects.append(scan.newest(table=table, paths=moving, last_of=last_of, columns=source.columns_of))
    return " UNION ALL ".join(f"({select})" for select in selects) or scan.empty(table)


def _comments(*, table: Table, kind: str, name: str | None = None) -> list[str]:
    own = quoted(name or table.name)
    doc = "Every attempt at every request; `requests` shows the last." if name else table.doc
    return [f"COMMENT ON {kind} {own} IS {literal(doc)}"] + [
        f"COMMENT ON COLUMN {own}.{quoted(column.name)} IS {literal(column.comment)}" for column in table
    ]


def _setup(home: Path) -> str:
    """sha256 over all that the database is made of besides the runs; the folder too, since the views name whole
    paths."""
    views = [(each.name, each.doc, each.sql) for each in definitions()]
    made_of = (_LAYOUT, str(home), duckdb.__version__, repr(TABLES), repr(CHANGES), views, _assay_version())
    return hashlib.sha256(repr(made_of).encode("utf-8", "surrogatepass")).hexdigest()


def _assay_version() -> str | None:
    try:
        return importlib.metadata.version("assay")
    except importlib.metadata.PackageNotFoundError:
        return None
