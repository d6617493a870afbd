"""`assay sql`: one question to the warehouse."""

import csv
import sys
from typing import Any

from rich.markup import escape
from rich.table import Table

from flows.commands.output import print_json, stdout_console, visible
from flows.runtime import assay_home
from schemas.errors import ConfigError
from warehouse.query import Result, query

FORMATS = ("table", "json", "csv")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_CELL = 60


def run_query(*, query: str, format_: str, limit: int | None) -> None:
    """Asks and prints. Raises ConfigError for an unknown format, or for what the warehouse refuses."""
    if format_ not in FORMATS:
        raise ConfigError.one(f"--format {format_} is not known", suggestion=f"use {', '.join(FORMATS)}")
    result = _ask(query, limit)
    if format_ == "json":
        names = [
            name if result.columns.index(name) == index else f"{name}_{index + 1}"
            for index, name in enumerate(result.columns)
        ]
        print_json({"columns": result.columns, "rows": [dict(zip(names, row, strict=True)) for row in result.rows]})
    elif format_ == "csv":
        writer = csv.writer(sys.stdout)
        writer.writerow(result.columns)
        writer.writerows([_csv_cell(value) for value in row] for row in result.rows)
    else:
        _print_table(result)


def _ask(sql: str, limit: int | None) -> Result:
    return query(home=assay_home(), sql=sql, limit_rows=limit)


def _csv_cell(value: Any) -> Any:
    """Text that a spreadsheet would run as a formula gets an apostrophe before it: a model may have written it."""
    if value is None:
        return ""
    if isinstance(value, int | float):
        return value
    text = visible(value.hex() if isinstance(value, bytes) else str(value))
    return f"'{text}" if text.startswith(_FORMULA) else text


def _print_table(result: Result) -> None:
    table = Table(header_style="bold", box=None, padding=(0, 2, 0, 0))
    for column in result.columns:
        numeric = any(isinstance(row[result.columns.index(column)], int | float) for row in result.rows)
        table.add_column(escape(column), justify="right" if numeric else "left", overflow="fold")
    for row in result.rows:
        table.add_row(*(_cell(value) for value in row))
    console = stdout_console()
    console.print(table)
    console.print(f"[dim]{len(result.rows)} row{'' if len(result.rows) == 1 else 's'}[/dim]")


def _cell(value: Any) -> str:
    """A value for a terminal: control characters made visible (a model may have written them), long text cut."""
    if value is None:
        return "[dim]NULL[/dim]"
    if isinstance(value, float):
        return f"{value:.6g}"
    text = str(value)
    shown = visible(text[: _CELL + 1])
    return escape(shown if len(text) <= _CELL else shown[: _CELL - 1] + "…")
