"""What can be written in a query: tables and their columns, macros, functions, keywords, each with what it means."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from warehouse.query import query
from warehouse.schema import TABLES
from warehouse.views import definitions

_COLUMNS = """
SELECT table_name, column_name, data_type, comment
FROM duckdb_columns()
WHERE database_name = 'warehouse' AND schema_name = 'main'
ORDER BY table_name, column_index
"""
_FUNCTIONS = """
SELECT function_name, any_value(description) AS description
FROM duckdb_functions()
WHERE function_type IN ('scalar', 'aggregate', 'macro') AND regexp_full_match(function_name, '[a-z][a-z0-9_]+')
GROUP BY function_name
ORDER BY function_name
"""
_KEYWORDS = "SELECT upper(keyword_name) FROM duckdb_keywords() ORDER BY 1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """What FROM takes. call: a macro's parameters, `(a, b)`, else empty; columns: meaning by name, none for a macro."""

    name: str
    doc: str
    call: str
    columns: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """All of it. functions: description by name."""

    relations: Mapping[str, Relation]
    functions: Mapping[str, str]
    keywords: tuple[str, ...]


def load_vocabulary(home: Path) -> Vocabulary:
    """What the warehouse of `home` has, and this DuckDB. Raises what `query` raises."""
    columns: dict[str, dict[str, str]] = {}
    meanings = {column.name: column.comment for table in TABLES.values() for column in table}
    for table, column, kind, comment in query(home=home, sql=_COLUMNS).rows:
        columns.setdefault(table, {})[column] = comment or meanings.get(column) or str(kind)
    docs = {name: table.doc for name, table in TABLES.items()}
    docs |= {each.name: each.doc for each in definitions()}
    docs["request_attempts"] = "Every attempt at every request; `requests` shows the last."
    calls = {each.name: each.parameters for each in definitions()}
    return Vocabulary(
        relations={
            name: Relation(name=name, doc=doc, call=calls.get(name, ""), columns=columns.get(name, {}))
            for name, doc in docs.items()
        },
        functions={name: description or "" for name, description in query(home=home, sql=_FUNCTIONS).rows},
        keywords=tuple(row[0] for row in query(home=home, sql=_KEYWORDS).rows),
    )
