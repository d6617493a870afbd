"""Builds the database file from the Parquet parts. It is never written in place: a new file, then a rename."""

import hashlib
import importlib.metadata
import os
import secrets
import shutil
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import duckdb

from schemas.errors import AssayError, ConfigError
from warehouse import scan
from warehouse.parts import RunFiles, locked, make_folder, run_files, run_ids, stored_tables, sync_file, sync_folder
from warehouse.schema import TABLES, Table
from warehouse.schema.changes import CHANGES
from warehouse.schema.table import literal, quoted
from warehouse.views import Definition, definitions

DATABASE = "assay.duckdb"
_WORK_PREFIX = ".build-"
_LOCK = ".build.lock"
_BUILD_AGAIN = 3
_MEMORY = "512MB"


def build(home: Path) -> Path:
    """Builds `home/assay.duckdb` from the Parquet files, and returns its path.

    Small tables are copied in, large ones are views over the files that count now. Readers of the old file keep it
    until they close it; a kill leaves the old file. Several builders wait for one another. Raises AssayError for a
    Parquet file that this assay cannot read, ConfigError for a folder that DuckDB cannot work in.
    """
    home = _ready(home)
    with locked(home, name=_LOCK):
        return _build_locked(home)


def ensure_fresh(home: Path) -> Path:
    """The path of `home/assay.duckdb`, built anew if the parts, the schema or the views changed since it was built."""
    home = _ready(home)
    if _stored_signature(home / DATABASE) != _signature(home=home, files=_all_files(home)):
        with locked(home, name=_LOCK):
            # Whoever held the lock may have built what is needed.
            if _stored_signature(home / DATABASE) != _signature(home=home, files=_all_files(home)):
                return _build_locked(home)
    return home / DATABASE


def _ready(home: Path) -> Path:
    home = home.resolve()
    if "?" in str(home):
        # DuckDB takes what follows for options, as in a URL, and looks for its log elsewhere.
        raise ConfigError.one(f"the folder {home} has a '?' in its name", key="ASSAY_HOME", suggestion="rename it")
    make_folder(home)
    return home


def _build_locked(home: Path) -> Path:
    for stale in home.glob(f"{_WORK_PREFIX}*-*"):
        shutil.rmtree(stale, ignore_errors=True)  # left by a builder that was killed: we hold the lock
    work = home / f"{_WORK_PREFIX}{os.getpid()}-{secrets.token_hex(4)}"
    work.mkdir()
    try:
        _write(home=home, work=work)
        sync_file(work / DATABASE)
        (work / DATABASE).replace(home / DATABASE)
        sync_folder(home)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return home / DATABASE


def _write(*, home: Path, work: Path) -> None:
    for _ in range(_BUILD_AGAIN):
        (work / DATABASE).unlink(missing_ok=True)
        files = _all_files(home)
        try:
            _fill(path=work / DATABASE, spill=work / "spill", files=files, signature=_signature(home=home, files=files))
        except (FileNotFoundError, duckdb.IOException):
            if all(path.exists() for each in files for path in each.paths):
                raise
        else:
            return  # else: files that were superseded meanwhile were cleaned up: list again
    raise AssayError(f"{home}: files vanish while they are read (is another program deleting them?)")


def _fill(*, path: Path, spill: Path, files: Sequence[RunFiles], signature: str) -> None:
    settings: dict[str, str | bool | int | float | list[str]] = {"memory_limit": _MEMORY, "threads": 2}
    with duckdb.connect(str(path), config=settings) as connection:
        connection.execute(f"SET temp_directory = {literal(str(spill))}")
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute("BEGIN")  # hundreds of statements, made durable once
        for table in TABLES.values():
            mine = [each for each in files if each.table == table.name and each.paths]
            for statement in _table_statements(table=table, files=mine):
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
        connection.execute("CREATE TABLE build.state AS SELECT ? AS signature", [signature]).fetchall()
        connection.execute("COMMIT")


def _table_statements(*, table: Table, files: Sequence[RunFiles]) -> list[str]:
    if table.small:
        columns = ", ".join(f"{quoted(column.name)} {column.sql_type}" for column in table)
        paths = [path for each in files for path in each.paths]
        fill = [f"INSERT INTO {quoted(table.name)} {scan.newest(table=table, paths=paths)}"] if paths else []
        return [f"CREATE TABLE {quoted(table.name)} ({columns})", *fill, *_comments(table=table, kind="TABLE")]
    statements = [
        f"CREATE VIEW {quoted(table.name)} AS {_rows(table=table, files=files, last=table.name == 'requests')}",
        *_comments(table=table, kind="VIEW"),
    ]
    if table.name == "requests":
        every = f"CREATE VIEW request_attempts AS {_rows(table=table, files=files, last=False)}"
        statements += [every, *_comments(table=table, kind="VIEW", name="request_attempts")]
    return statements


def _rows(*, table: Table, files: Sequence[RunFiles], last: bool) -> str:
    """Compacted files alone hold each key once and are read straight. As soon as a run has fresh parts, a part may
    hold a newer revision of a compacted row, so all files of that run are compared."""
    holding = {"last"} if last else {"rows", "last", "earlier"}
    settled = [
        each.folder / part.name for each in files if not each.fresh for part in each.compacted if part.holds in holding
    ]
    moving = [path for each in files if each.fresh for path in each.paths]
    selects = []
    if settled:
        selects.append(scan.straight(table=table, paths=settled))
    if moving:
        selects.append(scan.newest(table=table, paths=moving, last_of="attempt" if last else None))
    return " UNION ALL ".join(f"({select})" for select in selects) or scan.empty(table)


def _comments(*, table: Table, kind: str, name: str | None = None) -> list[str]:
    own = quoted(name or table.name)
    doc = "Every attempt at every request; `requests` shows the last." if name else table.doc
    return [f"COMMENT ON {kind} {own} IS {literal(doc)}"] + [
        f"COMMENT ON COLUMN {own}.{quoted(column.name)} IS {literal(column.comment)}" for column in table
    ]


def _all_files(home: Path) -> list[RunFiles]:
    return [
        run_files(home=home, table=table, run_id=run_id)
        for table in stored_tables()
        for run_id in run_ids(home=home, table=table)
    ]


def _signature(*, home: Path, files: Sequence[RunFiles]) -> str:
    """sha256 over everything that the database is made of; the folder too, since the views name whole paths."""
    digest = hashlib.sha256()

    def add(*parts: object) -> None:
        digest.update(repr(parts).encode("utf-8", "surrogatepass"))

    add(str(home), duckdb.__version__, repr(TABLES), repr(CHANGES), [_identity(each) for each in definitions()])
    for each in files:
        add(each.table, each.run_id, [(part.name, part.holds) for part in each.compacted])
        for path in each.fresh:
            try:
                state = path.stat()
            except FileNotFoundError:
                add(path.name, None)
            else:
                add(path.name, state.st_size, state.st_mtime_ns)
    return digest.hexdigest()


def _identity(definition: Definition) -> tuple[str, str, str]:
    return definition.name, definition.doc, definition.sql


def _stored_signature(database: Path) -> str | None:
    """What the database says that it was built from; None where it is absent or cannot be read (it is then built)."""
    if not database.exists():
        return None
    try:
        # Attached to a database of its own: connecting by path would share an instance that still has the old file.
        with duckdb.connect(config={"threads": 1}) as connection:
            connection.execute(f"ATTACH {literal(str(database))} AS warehouse (READ_ONLY)")
            row = connection.execute("SELECT signature FROM warehouse.build.state").fetchone()
    except duckdb.Error:
        return None
    return None if row is None else str(row[0])


def _assay_version() -> str | None:
    try:
        return importlib.metadata.version("assay")
    except importlib.metadata.PackageNotFoundError:
        return None
