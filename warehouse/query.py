"""Users' SQL: one statement that reads, on a connection that can do nothing else.

A read-only connection alone would still read and write files, and a statement that counts as a SELECT may hold a COPY
or an INSERT in its WITH clause, or text that is run as SQL. So the parsed statement is looked through before it runs.
"""

import json
import re
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import duckdb

from schemas.errors import ConfigError
from warehouse.build import ensure_fresh
from warehouse.parts import tables_folder
from warehouse.scan import exact_pattern
from warehouse.schema.table import literal

TIMEOUT_S = 60.0
MEMORY_LIMIT = "1GB"
MAX_ROWS = 1_000_000
"""More rows than this are refused, not held in memory."""
_BATCH = 1_000
_READING = frozenset({"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"})
_TABLE_FUNCTIONS = frozenset(
    {
        *("flips", "trend", "unnest", "range", "generate_series", "repeat", "repeat_row", "query_table"),
        *("json_each", "json_tree", "read_parquet", "parquet_scan", "parquet_metadata", "parquet_schema"),
        *("parquet_file_metadata", "parquet_kv_metadata", "duckdb_tables", "duckdb_views", "duckdb_columns"),
        *("duckdb_functions", "duckdb_types", "duckdb_keywords", "duckdb_databases", "duckdb_settings"),
        *("pragma_version", "pragma_table_info"),
    }
)
_EXPLAIN = re.compile(r"\s*explain\b(?:\s+analyze\b)?(?:\s*\([^()]*\))?", re.IGNORECASE)
_ADVICE = "give one SELECT, FROM, WITH, VALUES, DESCRIBE, SHOW, SUMMARIZE or EXPLAIN of one"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a query gave. types are SQL's names; truncated: there were more rows than limit_rows."""

    columns: list[str]
    types: list[str]
    rows: list[tuple[Any, ...]]
    truncated: bool = False


def query(*, home: Path, sql: str, limit_rows: int | None = None, timeout_s: float = TIMEOUT_S) -> Result:
    """Runs one reading statement against the warehouse, built anew first if parts were added.

    Files outside `home/tables` cannot be read, nothing can be written, no extension loaded, no setting changed. At most
    limit_rows rows are fetched. Raises ConfigError, with the reason and what to do, for any other statement, for one
    that fails, takes more than timeout_s seconds, more memory than MEMORY_LIMIT, or gives more than MAX_ROWS rows.
    """
    check_statement(sql)
    home = home.resolve()
    database = ensure_fresh(home)
    with _connection(database=database, tables=tables_folder(home)) as connection:
        deadline = time.monotonic() + timeout_s
        timer = threading.Timer(timeout_s, connection.interrupt)
        timer.daemon = True
        timer.start()
        try:
            connection.execute(sql)
            return _fetched(connection=connection, limit_rows=limit_rows, deadline=deadline)
        except duckdb.InterruptException as error:
            raise _refused(f"stopped after {timeout_s:g} s", suggestion="ask for less, or filter by run_id") from error
        except duckdb.OutOfMemoryException as error:
            raise _refused(_first(error), suggestion="ask for fewer columns, or filter by run_id") from error
        except duckdb.PermissionException as error:
            raise _refused(_first(error), suggestion="only the warehouse's own tables can be read") from error
        except duckdb.Error as error:
            raise _refused(str(error).strip()) from error
        finally:
            timer.cancel()


def check_statement(sql: str) -> None:
    """Raises ConfigError unless the text is one statement that only reads, by DuckDB's own parser."""
    with _parser().cursor() as parser:
        _check(parser=parser, sql=sql)


@cache
def _parser() -> duckdb.DuckDBPyConnection:
    """An empty database that parses users' text and never runs it."""
    return duckdb.connect(config={"threads": 1})


def _check(*, parser: duckdb.DuckDBPyConnection, sql: str) -> None:
    try:
        statements = parser.extract_statements(sql)
    except duckdb.Error as error:
        raise _refused(str(error).strip()) from error
    if len(statements) != 1:
        found = "nothing to run" if not statements else f"{len(statements)} statements"
        raise _refused(found, suggestion=_ADVICE)
    kind = statements[0].type
    if kind == duckdb.StatementType.EXPLAIN:
        explain = _EXPLAIN.match(sql)
        if explain is None:
            raise _refused("EXPLAIN must come first, without a comment before it", suggestion=_ADVICE)
        _check(parser=parser, sql=sql[explain.end() :])
        return
    if kind == duckdb.StatementType.MULTI:
        raise _refused("this needs several statements", suggestion="in a PIVOT name the values: ON column IN (…)")
    if kind != duckdb.StatementType.SELECT:
        raise _refused(f"a statement of the kind {kind.name} does more than read", suggestion=_ADVICE)
    if statements[0].named_parameters:
        raise _refused("a placeholder has no value here", suggestion="write the value itself")
    _check_tree(parser=parser, sql=sql)


def _check_tree(*, parser: duckdb.DuckDBPyConnection, sql: str) -> None:
    try:
        row = parser.execute("SELECT json_serialize_sql(?::VARCHAR)", [sql]).fetchone()
        tree = json.loads(row[0]) if row else {"error": True}
    except (duckdb.Error, ValueError, RecursionError) as error:
        raise _refused(f"too deep or too odd to be looked through: {error}", suggestion="write it simpler") from error
    if tree["error"]:
        raise _refused(f"cannot be looked through: {tree.get('error_message', 'no answer')}", suggestion=_ADVICE)
    for part in _dicts(tree):
        kind = str(part.get("type"))
        if kind.endswith("_NODE") and kind not in _READING:
            word = kind.removesuffix("_NODE").removesuffix("_QUERY")
            raise _refused(f"{word} inside a SELECT does more than read", suggestion=_ADVICE)
        if kind == "TABLE_FUNCTION":
            name = str(part["function"].get("function_name", "")).lower()
            if name not in _TABLE_FUNCTIONS:
                raise _refused(
                    f"the table function {name or '?'} is not allowed here",
                    suggestion=f"allowed are {', '.join(sorted(_TABLE_FUNCTIONS))}",
                )


def _dicts(tree: Any) -> Iterator[dict[str, Any]]:
    waiting = [tree]  # a stack, not recursion: the text decides how deep it goes
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            yield part
            waiting.extend(part.values())
        elif isinstance(part, list):
            waiting.extend(part)


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
        allowed = ", ".join(literal(spelling) for spelling in sorted({str(tables), exact_pattern(tables)}))
        connection.execute(f"SET allowed_directories = [{allowed}]")
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        yield connection


def _fetched(*, connection: duckdb.DuckDBPyConnection, limit_rows: int | None, deadline: float) -> Result:
    described = connection.description or []
    limit = MAX_ROWS if limit_rows is None else min(limit_rows, MAX_ROWS)
    rows: list[tuple[Any, ...]] = []
    # Results stream: the query still runs while they are fetched, so the deadline holds here too.
    while len(rows) <= limit and (batch := connection.fetchmany(min(_BATCH, limit + 1 - len(rows)))):
        rows += batch
        if time.monotonic() > deadline:
            raise duckdb.InterruptException
    truncated = len(rows) > limit
    if truncated and (limit_rows is None or limit_rows > MAX_ROWS):
        raise _refused(f"more than {MAX_ROWS:,} rows", suggestion="add LIMIT, or aggregate")
    return Result(
        columns=[str(each[0]) for each in described],
        types=[str(each[1]) for each in described],
        rows=rows[:limit],
        truncated=truncated,
    )


def _first(error: duckdb.Error) -> str:
    return str(error).strip().splitlines()[0]


def _refused(message: str, *, suggestion: str | None = None) -> ConfigError:
    return ConfigError.one(message, key="sql", suggestion=suggestion)
