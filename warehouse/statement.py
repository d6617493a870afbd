"""Which statements of users run: one that only reads.

A read-only connection alone would still read and write files, and a statement that counts as a SELECT may hold a COPY
or an INSERT in its WITH clause, or text that is run as SQL. So the parsed statement is looked through before it runs.
"""

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import duckdb

from warehouse.sql_errors import explained, nearest_name, refused
from warehouse.views import definitions

_READING = frozenset({"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"})
_OWN_MACROS = frozenset(each.name for each in definitions() if each.macro)
_TABLE_FUNCTIONS = _OWN_MACROS | frozenset(
    {
        *("unnest", "range", "generate_series", "repeat", "repeat_row", "query_table"),
        *("json_each", "json_tree", "read_parquet", "parquet_scan", "parquet_metadata", "parquet_schema"),
        *("parquet_file_metadata", "parquet_kv_metadata", "duckdb_tables", "duckdb_views", "duckdb_columns"),
        *("duckdb_functions", "duckdb_types", "duckdb_keywords", "duckdb_databases", "duckdb_settings"),
        *("pragma_version", "pragma_table_info"),
    }
)
_EXPLAIN = re.compile(r"\s*explain\b(?:\s+analyze\b)?(?:\s*\([^()]*\))?", re.IGNORECASE)
_ADVICE = "give one SELECT, FROM, WITH, VALUES, DESCRIBE, SHOW, SUMMARIZE or EXPLAIN of one"


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
        raise explained(error, sql=sql) from error
    if len(statements) != 1:
        found = "nothing to run" if not statements else f"{len(statements)} statements"
        raise refused(found, suggestion=_ADVICE)
    kind = statements[0].type
    if kind == duckdb.StatementType.EXPLAIN:
        explain = _EXPLAIN.match(sql)
        if explain is None:
            raise refused("EXPLAIN must come first, without a comment before it", suggestion=_ADVICE)
        _check(parser=parser, sql=sql[explain.end() :])
        return
    if kind == duckdb.StatementType.MULTI:
        raise refused("this needs several statements", suggestion="in a PIVOT name the values: ON column IN (…)")
    if kind != duckdb.StatementType.SELECT:
        raise refused(f"a statement of the kind {kind.name} does more than read", suggestion=_ADVICE)
    if statements[0].named_parameters:
        raise refused("a placeholder has no value here", suggestion="write the value itself")
    _check_tree(parser=parser, sql=sql)


def _check_tree(*, parser: duckdb.DuckDBPyConnection, sql: str) -> None:
    try:
        row = parser.execute("SELECT json_serialize_sql(?::VARCHAR)", [sql]).fetchone()
        tree = json.loads(row[0]) if row else {"error": True}
    except (duckdb.Error, ValueError, RecursionError) as error:
        raise refused(f"too deep or too odd to be looked through: {error}", suggestion="write it simpler") from error
    if tree["error"]:
        raise refused(f"cannot be looked through: {tree.get('error_message', 'no answer')}", suggestion=_ADVICE)
    for part in _dicts(tree):
        kind = str(part.get("type"))
        if kind.endswith("_NODE") and kind not in _READING:
            word = kind.removesuffix("_NODE").removesuffix("_QUERY")
            raise refused(f"{word} inside a SELECT does more than read", suggestion=_ADVICE)
        if kind == "TABLE_FUNCTION":
            name = str(part["function"].get("function_name", "")).lower()
            if name not in _TABLE_FUNCTIONS:
                near = nearest_name(name, _OWN_MACROS)
                allowed = f"allowed are {', '.join(sorted(_TABLE_FUNCTIONS))}"
                raise refused(
                    f"the table function {name or '?'} is not allowed here",
                    suggestion=allowed if near is None else f"did you mean `{near}`? {allowed}",
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
