"""A dataset that is a query: one SELECT over local files or a DuckDB database file, on a connection that can do nothing
else. Only what lies in the folder can be read, nothing can be written, no extension loaded, no setting changed."""

import json
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa  # type: ignore[import-untyped]

from schemas.errors import ConfigError
from warehouse.schema.table import literal
from warehouse.sql_errors import nearest_name
from warehouse.statement import check_statement

MEMORY_LIMIT = "256MB"
_DATA_FILE = re.compile(r".*\.(?:csv|tsv|json|jsonl|ndjson|parquet)(?:\.gz|\.zst)?", re.IGNORECASE)
_READERS = frozenset({"read_parquet", "parquet_scan"})
_OFFERED = re.compile(r'^(?:Did you mean|Candidate (?:bindings|tables):[ :]*) ?"(?P<name>[^"]+)"', re.MULTILINE)
_NO_FILES = re.compile(r'No files found that match the pattern "(?P<path>[^"]+)"')
_NO_TABLE = re.compile(r"(?P<kind>Table|Table Function) with name (?P<name>\S+) does not exist")


def query_batches(*, path: Path, sql: str, batch_rows: int, file: Path | None, key: str) -> Iterator[pa.RecordBatch]:
    """What the query gives, batch by batch, in one thread: the same rows in the same order each time, as far as the
    query itself says so.

    path: the folder that relative names of files in the query count from and that alone can be read, or a DuckDB
    database file. file, key: where the source was written down, for its problems. Raises ConfigError for a path that is
    not there, a statement that is not one SELECT, and a query that fails or gives two columns of one name."""
    if not path.exists():
        raise ConfigError.one(
            f"there is no folder or database file {path.name!r} in {path.parent}", file=file, key=f"{key}.path"
        )
    try:
        check_statement(sql)
    except ConfigError as refused:
        problems = [replace(p, file=file, key=f"{key}.query", suggestion=_advice(p.message)) for p in refused.problems]
        raise ConfigError(problems) from refused
    try:
        with _connection(path) as connection:
            reader: Any = connection.sql(_with_whole_paths(sql, folder=path) if path.is_dir() else sql).to_arrow_reader(
                batch_rows
            )
            twice = sorted({name for name in reader.schema.names if reader.schema.names.count(name) > 1})
            if twice:
                raise ConfigError.one(
                    f"the query gives two columns named {twice[0]!r}",
                    file=file,
                    key=f"{key}.query",
                    suggestion="give one of them another name with AS",
                )
            yield from reader
    except (duckdb.Error, pa.ArrowException) as error:
        message, suggestion = _in_words(error, path=path)
        raise ConfigError.one(message, file=file, key=f"{key}.query", suggestion=suggestion) from error


def _advice(message: str) -> str:
    if "table function" in message:
        return "write the file as a table: FROM 'rows.csv'"
    return "give one SELECT"


@contextmanager
def _connection(path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with (
        tempfile.TemporaryDirectory(prefix="assay-source-") as spill,
        duckdb.connect(
            config={
                "autoinstall_known_extensions": False,
                "autoload_known_extensions": False,
                "python_enable_replacements": False,
                "memory_limit": MEMORY_LIMIT,
                "temp_directory": spill,
                "threads": 1,
            }
        ) as connection,
    ):
        if path.is_dir():
            folders = {str(path), str(path.resolve())}
            allowed = ", ".join(literal(folder) for folder in sorted(folders))
            connection.execute(f"SET allowed_directories = [{allowed}]")
        else:
            connection.execute(f"ATTACH {literal(str(path))} AS source (READ_ONLY)")
            connection.execute("USE source")
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        yield connection


def _with_whole_paths(sql: str, *, folder: Path) -> str:
    """The query with its file names counted from the folder: a locked connection takes none but whole ones."""
    with duckdb.connect(config={"threads": 1}) as parser:
        row = parser.execute("SELECT json_serialize_sql(?::VARCHAR)", [sql]).fetchone()
        tree = json.loads(row[0]) if row else {}
        if tree.get("error", True):
            return sql  # DESCRIBE, SHOW and the like name no files
        for part in _dicts(tree):
            path = part.get("qualified_name", {}).get("path", [])
            if part.get("type") == "BASE_TABLE" and len(path) == 1 and _DATA_FILE.fullmatch(path[0]):
                part["alias"] = part["alias"] or Path(path[0]).name.split(".")[0]
                part["qualified_name"]["path"] = [_whole(path[0], folder=folder)]
            elif part.get("type") == "FUNCTION" and part.get("function_name") in _READERS:
                for argument in _dicts(part.get("arguments")):
                    if argument.get("kind") == "STRING":
                        argument["text"] = _whole(argument["text"], folder=folder)
        back = parser.execute("SELECT json_deserialize_sql(?::JSON)", [json.dumps(tree)]).fetchone()
    return str(back[0]) if back else sql


def _whole(name: str, *, folder: Path) -> str:
    return str(folder / name)


def _dicts(tree: Any) -> Iterator[dict[str, Any]]:
    waiting = [tree]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            yield part
            waiting.extend(part.values())
        elif isinstance(part, list):
            waiting.extend(part)


def _in_words(error: duckdb.Error | pa.ArrowException, *, path: Path) -> tuple[str, str | None]:
    """What went wrong, and the nearest right name where there is one."""
    text = str(error)
    missing = _NO_FILES.search(text)
    if missing is not None:
        names = sorted(each.name for each in path.iterdir())
        near = nearest_name(Path(missing["path"]).name, names)
        return f"there is no file {missing['path']}", None if near is None else f"did you mean {near!r}?"
    table = _NO_TABLE.search(text)
    if table is not None and path.is_dir():
        return (
            f"there is no table {table['name']}",
            f"a file of {path.name} stands as 'name.parquet', or .csv, .json, .jsonl",
        )
    if isinstance(error, duckdb.PermissionException):
        return text.strip().splitlines()[
            0
        ], f"only files in {path} can be read" if path.is_dir() else "only its tables can be read"
    offered = _OFFERED.search(text)
    return text.strip().splitlines()[0], f"did you mean `{offered['name']}`?" if offered else None
