"""Users' SQL: one statement that reads, on a connection that can do nothing else."""

import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import duckdb
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from schemas.errors import AssayError
from warehouse.parts import tables_folder, temporary_name
from warehouse.remote import fresh, opened
from warehouse.scan import exact_pattern
from warehouse.schema.table import literal
from warehouse.sql_errors import explained, first_line, refused
from warehouse.statement import check_statement

TIMEOUT_S = 60.0
MEMORY_LIMIT = "1GB"
MAX_ROWS = 1_000_000
"""More rows than this are refused, not held in memory."""
_BATCH = 1_000
_BATCH_TO_FILE = 10_000
_ASK_AGAIN = 20
_WATCH_S = 0.02

Taken = TypeVar("Taken")


class QueryCancelled(AssayError):
    """The query was cancelled by whoever asked it."""

    exit_code = 130


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a query gave. types are SQL's names; truncated: there were more rows than limit_rows."""

    columns: list[str]
    types: list[str]
    rows: list[tuple[Any, ...]]
    truncated: bool = False


def query(
    *,
    home: Path,
    sql: str,
    limit_rows: int | None = None,
    timeout_s: float = TIMEOUT_S,
    cancel: threading.Event | None = None,
) -> Result:
    """Runs one reading statement against the warehouse, built anew first if parts were added.

    Files outside `home/tables` cannot be read, nothing can be written, no extension loaded, no setting changed. At most
    limit_rows rows are fetched. Raises ConfigError, with the reason and what to do, for any other statement, for one
    that fails, takes more than timeout_s seconds, more memory than MEMORY_LIMIT, or gives more than MAX_ROWS rows, and
    QueryCancelled soon after cancel was set.
    """

    def fetch(connection: duckdb.DuckDBPyConnection, stopped: Callable[[], bool]) -> Result:
        connection.execute(sql)
        return _fetched(connection=connection, limit_rows=limit_rows, stopped=stopped)

    return _asked(home=home, sql=sql, timeout_s=timeout_s, cancel=cancel, take=fetch)


def write_parquet(
    *, home: Path, sql: str, path: Path, timeout_s: float = TIMEOUT_S, cancel: threading.Event | None = None
) -> int:
    """Writes what a reading statement gives to a Parquet file, with its own types, and returns the number of rows.

    Rows stream, so that there may be more of them than memory holds. The file appears whole or not at all. Raises what
    `query` raises.
    """

    def fetch(connection: duckdb.DuckDBPyConnection, stopped: Callable[[], bool]) -> int:
        written = 0
        reader: Any = connection.sql(sql).to_arrow_reader(_BATCH_TO_FILE)
        with pq.ParquetWriter(temporary, reader.schema, compression="zstd") as writer:
            for batch in reader:
                writer.write_batch(batch)
                written += batch.num_rows
                if stopped():
                    raise duckdb.InterruptException
        return written

    temporary = temporary_name(path)
    try:
        rows = _asked(home=home, sql=sql, timeout_s=timeout_s, cancel=cancel, take=fetch)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return rows


def _asked(
    *,
    home: Path,
    sql: str,
    timeout_s: float,
    cancel: threading.Event | None,
    take: Callable[[duckdb.DuckDBPyConnection, Callable[[], bool]], Taken],
) -> Taken:
    check_statement(sql)
    home = home.resolve()
    deadline = time.monotonic() + timeout_s
    for attempt in range(_ASK_AGAIN):
        database = fresh(home)
        built = _identity(database)
        try:
            with (
                _connection(database=database, tables=tables_folder(home)) as connection,
                _watched(connection=connection, deadline=deadline, cancel=cancel) as stopped,
            ):
                return take(connection, stopped)
        except duckdb.InterruptException as error:
            if cancel is not None and cancel.is_set():
                raise QueryCancelled("cancelled") from error
            raise refused(f"stopped after {timeout_s:g} s", suggestion="ask for less, or filter by run_id") from error
        except duckdb.OutOfMemoryException as error:
            raise refused(first_line(error), suggestion="ask for fewer columns, or filter by run_id") from error
        except (duckdb.IOException, duckdb.PermissionException) as error:
            # A clean-up took files of a database that was replaced after it was opened, or somebody deleted the
            # database's file before it was opened: ask the new one. (What is not there is not allowed, either.)
            if attempt + 1 < _ASK_AGAIN and (built is None or _identity(fresh(home)) != built):
                continue
            allowed = isinstance(error, duckdb.IOException)
            advice = None if allowed else "only the warehouse's own tables can be read"
            raise refused(first_line(error), suggestion=advice) from error
        except duckdb.Error as error:
            raise explained(error, sql=sql) from error
    raise AssertionError("unreachable")


def _identity(database: Path) -> tuple[int, int] | None:
    """Which file it is; the time too, since a file system gives numbers out again. None where it was deleted."""
    try:
        state = database.stat()
    except FileNotFoundError:
        return None
    return state.st_ino, state.st_mtime_ns


@contextmanager
def _watched(
    *, connection: duckdb.DuckDBPyConnection, deadline: float, cancel: threading.Event | None
) -> Iterator[Callable[[], bool]]:
    """Interrupts what runs on the connection when its time is over or it was cancelled; gives the test for that."""

    def stopped() -> bool:
        return time.monotonic() > deadline or (cancel is not None and cancel.is_set())

    def watch() -> None:
        # Again and again: an interrupt that comes before the statement has begun is lost.
        while not done.wait(_WATCH_S):
            if stopped():
                connection.interrupt()

    done = threading.Event()
    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield stopped
    finally:
        done.set()
        watcher.join()


@contextmanager
def _connection(*, database: Path, tables: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection to the file, attached read-only to an empty database in memory: one by path would share its
    instance, and so its old file, with any other connection of this process."""
    with (
        tempfile.TemporaryDirectory(prefix="assay-query-") as spill,
        duckdb.connect(
            config={
                "autoinstall_known_extensions": False,
                "autoload_known_extensions": False,
                "python_enable_replacements": False,
                "memory_limit": MEMORY_LIMIT,
                "temp_directory": spill,
                "max_temp_directory_size": "4GB",
            }
        ) as connection,
    ):
        connection.execute(f"ATTACH {literal(str(database))} AS warehouse (READ_ONLY)")
        connection.execute("USE warehouse")
        connection.execute("SET TimeZone = 'UTC'")
        # The views name files by patterns that stand for one file each: both spellings of the folder are needed.
        spellings = {str(tables), exact_pattern(tables), *opened(connection, database=database)}
        allowed = ", ".join(literal(spelling) for spelling in sorted(spellings))
        connection.execute(f"SET allowed_directories = [{allowed}]")
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        yield connection


def _fetched(*, connection: duckdb.DuckDBPyConnection, limit_rows: int | None, stopped: Callable[[], bool]) -> Result:
    described = connection.description or []
    limit = MAX_ROWS if limit_rows is None else min(limit_rows, MAX_ROWS)
    rows: list[tuple[Any, ...]] = []
    # Results stream: the query still runs while they are fetched, so the deadline holds here too.
    while len(rows) <= limit and (batch := connection.fetchmany(min(_BATCH, limit + 1 - len(rows)))):
        rows += batch
        if stopped():
            raise duckdb.InterruptException
    truncated = len(rows) > limit
    if truncated and (limit_rows is None or limit_rows > MAX_ROWS):
        raise refused(f"more than {MAX_ROWS:,} rows", suggestion="add LIMIT, or aggregate")
    return Result(
        columns=[str(each[0]) for each in described],
        types=[str(each[1]) for each in described],
        rows=rows[:limit],
        truncated=truncated,
    )
