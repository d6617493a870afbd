"""An answer of the warehouse in each format, for terminals, files and other programs.

A model may have written any of the text: what a terminal, a spreadsheet or a page would take for more than text is
made visible."""

import csv
import re
import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from flows.commands.output import WIDTH_OF_A_FILE, json_line, stdout_console, visible
from schemas.errors import ConfigError
from warehouse.query import Result

FORMATS = ("table", "json", "csv", "markdown", "parquet")
SUFFIXES = {".json": "json", ".csv": "csv", ".md": "markdown", ".parquet": "parquet", ".txt": "table"}
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_CELL = 60
_MARKDOWN = re.compile(r"[\\`*\[\]|~]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
_MARKDOWN_CODES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "://": "&#58;//", "www.": "www&#46;"}


def chosen_format(*, format_: str | None, out: Path | None) -> str:
    """The format asked for, else the one that the file's name ends in, else a table. Raises ConfigError for an unknown
    one, and for Parquet without a file."""
    chosen = format_ or (SUFFIXES.get(out.suffix.lower(), "table") if out is not None else "table")
    if chosen not in FORMATS:
        raise ConfigError.one(f"--format {chosen} is not known", suggestion=f"use {', '.join(FORMATS)}")
    if chosen == "parquet" and out is None:
        raise ConfigError.one("--format parquet is not for a terminal", suggestion="add --out FILE.parquet")
    return chosen


def print_answer(result: Result, *, format_: str) -> None:
    """Prints it to stdout. format_: any but parquet."""
    console = stdout_console()
    write_answer(result, format_=format_, stream=console.file, width=console.width if format_ == "table" else None)


def save_answer(result: Result, *, format_: str, out: Path) -> None:
    """Writes it to a file, which appears whole or not at all. format_: any but parquet. Raises ConfigError where the
    file cannot be written."""

    def write(path: Path) -> None:
        with path.open("w", encoding="utf-8", newline="") as stream:
            write_answer(result, format_=format_, stream=stream, width=WIDTH_OF_A_FILE)

    replace_file(out, write)


def replace_file(out: Path, write: Callable[[Path], None]) -> None:
    """Gives `write` another name to write to, and that file then its own. Raises ConfigError where that fails."""
    temporary = out.with_name(f".{out.name}.{secrets.token_hex(4)}.tmp")
    try:
        if out.is_dir():
            raise IsADirectoryError(21, "it is a folder", str(out))
        write(temporary)
        temporary.replace(out)
    except OSError as error:
        raise ConfigError.one(f"{out} cannot be written: {error.strerror}", key="--out") from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def write_answer(result: Result, *, format_: str, stream: IO[str], width: int | None = None) -> None:
    """Writes it to a stream. width: columns of the table, None for what the terminal has."""
    if format_ == "json":
        names = unique_names(result.columns)
        rows = [dict(zip(names, row, strict=True)) for row in result.rows]
        stream.write(json_line({"columns": result.columns, "rows": rows}))
    elif format_ == "csv":
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow([csv_cell(name) for name in result.columns])
        writer.writerows([csv_cell(value) for value in row] for row in result.rows)
    elif format_ == "markdown":
        stream.write(markdown(result))
    else:
        _write_table(result, Console(file=stream, width=width, highlight=False))
    stream.flush()


def unique_names(columns: Sequence[str]) -> list[str]:
    """The names, where one comes again with its place behind it, so that each is there once."""
    names: list[str] = []
    for place, name in enumerate(columns, start=1):
        unique = name
        while unique in names:
            unique = f"{unique}_{place}"
        names.append(unique)
    return names


def markdown(result: Result) -> str:
    """A table in GitHub's Markdown; text of a model is text in it, never a link, a picture or a tag."""
    if not result.columns:
        return ""
    right = [_numeric(result, place) for place in range(len(result.columns))]
    lines = [
        _markdown_line([_markdown_text(name) for name in result.columns]),
        _markdown_line(["---:" if each else "---" for each in right]),
        *(_markdown_line([_markdown_cell(value) for value in row]) for row in result.rows),
    ]
    return "\n".join(lines) + "\n"


def _markdown_line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _markdown_cell(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, float):
        return f"{value:.6g}"
    return _markdown_text(value.hex() if isinstance(value, bytes) else str(value))


def _markdown_text(text: str) -> str:
    shown = _MARKDOWN.sub(lambda found: f"\\{found[0]}", visible(text))
    for wrong, right in _MARKDOWN_CODES.items():
        shown = shown.replace(wrong, right)
    return shown


def csv_cell(value: Any) -> Any:
    """Text that a spreadsheet would run as a formula gets an apostrophe before it: a model may have written it."""
    if value is None:
        return ""
    if isinstance(value, int | float):
        return value
    text = visible(value.hex() if isinstance(value, bytes) else str(value))
    return f"'{text}" if text.startswith(_FORMULA) else text


def _write_table(result: Result, console: Console) -> None:
    table = Table(header_style="bold", box=None, padding=(0, 2, 0, 0))
    for place, column in enumerate(result.columns):
        table.add_column(
            escape(visible(column)), justify="right" if _numeric(result, place) else "left", overflow="fold"
        )
    for row in result.rows:
        table.add_row(*(_cell(value) for value in row))
    console.print(table)
    more = ", and there are more" if result.truncated else ""
    console.print(f"[dim]{len(result.rows)} row{'' if len(result.rows) == 1 else 's'}{more}[/dim]")


def _numeric(result: Result, place: int) -> bool:
    return any(isinstance(row[place], int | float) and not isinstance(row[place], bool) for row in result.rows)


def _cell(value: Any) -> str:
    """A value for a terminal: control characters made visible (a model may have written them), long text cut."""
    if value is None:
        return "[dim]NULL[/dim]"
    if isinstance(value, float):
        return f"{value:.6g}"
    text = str(value)
    shown = visible(text[: _CELL + 1])
    return escape(shown if len(text) <= _CELL else shown[: _CELL - 1] + "…")
