"""Whether a text is one SELECT, by DuckDB's own parser. Nothing is run, and no table needs to be there."""

from functools import cache

import duckdb


@cache
def _parser() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(config={"threads": 1})


def select_fault(text: str) -> str | None:
    """Why a text is not one SELECT statement, in one line; None if it is."""
    with _parser().cursor() as parser:
        try:
            statements = parser.extract_statements(text)
        except duckdb.Error as error:
            return (str(error).splitlines() or [type(error).__name__])[0]
        if len(statements) != 1:
            return "no statement" if not statements else f"{len(statements)} statements, where one is asked for"
        kind = statements[0].type
        return None if kind == duckdb.StatementType.SELECT else f"a statement of the kind {kind.name}, no SELECT"
