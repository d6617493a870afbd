"""What a user reads when a query is wrong: what, where in the text, and the nearest right name."""

import difflib
import re
from collections.abc import Iterable

import duckdb

from schemas.errors import ConfigError
from warehouse.schema import TABLES
from warehouse.views import definitions

KEY = "sql"
_KIND = re.compile(r"^(?:[A-Z]\w+ )?(?:[A-Z]\w+ )?Error: ")
_LINE = re.compile(r"^LINE (?P<line>\d+): (?P<text>.*)$")
_NO_COLUMN = re.compile(r'column "(?P<name>[^"]+)" not found|have a column named "(?P<other>[^"]+)"')
_NO_TABLE = re.compile(r"(?:Table(?: Function)? with name|table) \"?(?P<name>[^\" ]+)\"? (?:does not exist|not found)")
_OFFERED = re.compile(r'^(?:Did you mean|Candidate (?:bindings|tables):[ :]*) ?"(?P<name>[^"]+)"', re.MULTILINE)
_QUOTED = re.compile(r'"([^"]+)"')
_HINTS = ("Did you mean", "Candidate bindings", "Candidate tables")
_CLOSE = 0.6
_MORE = 4


def refused(message: str, *, suggestion: str | None = None) -> ConfigError:
    """The error for a query that is not run, or that failed."""
    return ConfigError.one(message, key=KEY, suggestion=suggestion)


def explained(error: duckdb.Error, *, sql: str) -> ConfigError:
    """DuckDB's complaint as one line that says what and where, with the nearest known name."""
    text = str(error).strip()
    lines = text.splitlines()
    at = next((index for index, line in enumerate(lines) if _LINE.match(line)), len(lines))
    told = [line.strip() for line in lines[:at] if line.strip()]
    message = _KIND.sub("", told[0]) if told else type(error).__name__
    rest = [
        line for line in told[1:] if not line.startswith(("Did you mean", "Candidate bindings", "Candidate tables"))
    ]
    near = _nearest(text)
    more = f"; {' '.join(rest[:_MORE])}{' …' if len(rest) > _MORE else ''}" if rest else ""
    said = f"{message.rstrip('!.')}{more}"
    where = _place(lines=lines[at:], sql=sql)
    return refused(f"{where}{said}", suggestion=None if near is None else f"did you mean `{near}`?")


def first_line(error: duckdb.Error) -> str:
    """The first line of DuckDB's complaint."""
    return str(error).strip().splitlines()[0]


def nearest_name(wrong: str, known: Iterable[str]) -> str | None:
    """The known name that is most alike, or None when none is alike."""
    lowered = {name.lower(): name for name in known}
    found = difflib.get_close_matches(wrong.lower(), lowered, n=1, cutoff=_CLOSE)
    return lowered[found[0]] if found else None


def relations() -> list[str]:
    """Every name that FROM takes: tables, views, macros."""
    return [*TABLES, "request_attempts", *(each.name for each in definitions())]


def _place(*, lines: list[str], sql: str) -> str:
    """`line 1, column 8: `; empty where DuckDB names no place."""
    found = _LINE.match(lines[0]) if lines else None
    if found is None or len(lines) < 2 or "^" not in lines[1]:
        return ""
    return f"line {found['line']}, column {_column(found['text'], lines, sql)}: "


def _column(text: str, lines: list[str], sql: str) -> int:
    """Where in the query's own line the mark stands, from 1: DuckDB cuts long lines at both ends, with `...`."""
    shown_at = lines[1].index("^") - (len(lines[0]) - len(text))
    number = int(lines[0][5 : lines[0].index(":")])
    whole = sql.splitlines()[number - 1] if number <= len(sql.splitlines()) else text
    cut = text.removeprefix("...").removesuffix("...")
    start = whole.find(cut)
    if start < 0:
        return shown_at + 1
    return start + shown_at - (3 if text.startswith("...") else 0) + 1


def _nearest(text: str) -> str | None:
    offered = _OFFERED.search(text)
    column = _NO_COLUMN.search(text)
    if column is not None:
        wrong = column["name"] or column["other"]
        names = (
            re.findall(r'"([^"]+)"', text.split("Candidate", 1)[1].split("LINE", 1)[0]) if "Candidate" in text else []
        )
        near = nearest_name(wrong, names)
        if near is None and not names:
            near = nearest_name(wrong, {column.name for table in TABLES.values() for column in table})
        return near
    table = _NO_TABLE.search(text)
    if table is not None:
        return nearest_name(table["name"], relations()) or (offered["name"] if offered else None)
    return offered["name"] if offered else None
