"""What commands print, for programs and for people."""

import json
import math
import sys
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

WIDTH_OF_A_FILE = 200
"""Columns of a table that goes to a file or a pipe, where there is no terminal to ask."""


def stdout_console() -> Console:
    """Prints to stdout, wide where it is no terminal."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = WIDTH_OF_A_FILE
    return console


def rows_table(rows: Sequence[dict[str, str]]) -> Table:
    """Rows of text as a table; the keys of the first are its heads."""
    shown = Table(header_style="bold", box=None, padding=(0, 2, 0, 0))
    for head in rows[0] if rows else ():
        shown.add_column(head, overflow="fold")
    for row in rows:
        shown.add_row(*(escape(value) for value in row.values()))
    return shown


def print_json(value: Any) -> None:
    """One JSON object on one line, on stdout, and nothing after it.

    What JSON has no word for: NaN and infinities become null, bytes hexadecimal text, times ISO 8601."""
    sys.stdout.write(json_line(value))
    sys.stdout.flush()


def json_line(value: Any) -> str:
    """One JSON object as one line, its end included."""
    return json.dumps(_plain(value), ensure_ascii=False, allow_nan=False, default=str) + "\n"


def visible(text: str) -> str:
    """Text for a terminal or a file: control characters, which a model may have written, as their escapes."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def visible_lines(text: str) -> str:
    """The same of several lines: their ends and tabs stay."""
    return "".join(c if c in "\n\t" else visible(c) for c in text)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, bytes):
        return value.hex()
    return value
