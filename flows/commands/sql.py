"""`assay sql`: one question to the warehouse, and where its answer goes."""

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from rich.console import Console

from flows.commands.answers import chosen_format, print_answer, replace_file, save_answer
from flows.commands.output import stdout_console
from flows.runtime import assay_home
from schemas.errors import ConfigError
from warehouse.cookbook import COOKBOOK, recipe
from warehouse.query import QueryCancelled, query, write_parquet
from warehouse.remote import remote_home

Given = TypeVar("Given")

_ONE_QUESTION = 'as in: assay sql "FROM leaderboard", assay sql -f question.sql, assay sql --example 3'
_MOST_BYTES = 1 << 20
"""A query longer than this is no query that somebody meant."""


def run_query(
    *,
    text: str | None,
    file: Path | None,
    example: int | None,
    format_: str | None,
    out: Path | None,
    limit: int | None,
    at: str | None = None,
) -> None:
    """Asks one question, given as text (`-`: from stdin), in a file, or by its number in the cookbook; prints the
    answer, or writes it to `out`. at: the address of a warehouse in S3, to be asked instead of the one here.

    Raises ConfigError for an unknown format or a file that cannot be read or written, and for what the warehouse
    refuses, QueryCancelled after Ctrl-C."""
    chosen = chosen_format(format_=format_, out=out)
    answer(sql=asked(text=text, file=file, example=example), format_=chosen, out=out, limit=limit, at=at)


def answer(*, sql: str, format_: str, out: Path | None, limit: int | None, at: str | None = None) -> None:
    """Asks, and prints the answer or writes it to a file, with a line on stderr that says how many rows it has."""
    home = assay_home() if at is None else remote_home(home=assay_home(), url=at)
    if format_ == "parquet" and out is not None:
        limited = sql if limit is None else f"FROM (\n{sql}\n) LIMIT {limit:d}"
        count: list[int] = []

        def write(path: Path) -> None:
            count.append(interruptible(lambda cancel: write_parquet(home=home, sql=limited, path=path, cancel=cancel)))

        replace_file(out, write)
        _say_written(out, count[0])
        return
    result = interruptible(lambda cancel: query(home=home, sql=sql, limit_rows=limit, cancel=cancel))
    if out is None:
        print_answer(result, format_=format_)
    else:
        save_answer(result, format_=format_, out=out)
        _say_written(out, len(result.rows))


def asked(*, text: str | None, file: Path | None, example: int | None) -> str:
    """The query, from wherever it is given. Raises ConfigError unless it is given once, and can be read."""
    if sum(each is not None for each in (text, file, example)) != 1:
        raise ConfigError.one("give one question", suggestion=_ONE_QUESTION)
    if example is not None:
        return recipe(example).sql
    if file is not None:
        try:
            content = file.read_bytes()
        except OSError as error:
            raise ConfigError.one(f"{file} cannot be read: {error.strerror}", key="--file") from error
        return _decoded(content, source=str(file))
    if text == "-":
        return _decoded(sys.stdin.buffer.read(_MOST_BYTES + 1), source="stdin")
    return str(text)


def list_examples() -> None:
    """Prints the cookbook: each question with its number and its SQL."""
    console = stdout_console()
    for number, each in enumerate(COOKBOOK, start=1):
        console.print(f"{number:>2}  {each.question}", style="bold", markup=False)
        console.print(_indented(each.sql), markup=False, style="dim", soft_wrap=True)
    console.print("\nRun one: assay sql --example 1", markup=False)


def interruptible(ask: Callable[[threading.Event], Given]) -> Given:
    """Runs `ask` in a thread, so that Ctrl-C stops what DuckDB does. `ask` gets the event that tells it to stop.
    Raises QueryCancelled then, else whatever `ask` raises."""
    cancel, done = threading.Event(), threading.Event()
    given: list[Given] = []
    failed: list[BaseException] = []

    def work() -> None:
        try:
            given.append(ask(cancel))
        except BaseException as error:  # noqa: BLE001 - raised again below, in the caller's thread
            failed.append(error)
        finally:
            done.set()

    threading.Thread(target=work, daemon=True).start()
    while not done.is_set():
        try:
            done.wait(0.2)
        except KeyboardInterrupt:
            cancel.set()
    if failed:
        raise failed[0]
    if cancel.is_set():
        raise QueryCancelled("cancelled")
    return given[0]


def _decoded(content: bytes, *, source: str) -> str:
    if len(content) > _MOST_BYTES:
        raise ConfigError.one(f"{source}: longer than {_MOST_BYTES:,} bytes is no question", key="sql")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError.one(f"{source}: is no UTF-8 text", key="sql") from error


def _say_written(out: Path, rows: int) -> None:
    said = f"{out}: {rows:,} row{'' if rows == 1 else 's'}"
    Console(stderr=True, highlight=False).print(said, markup=False, soft_wrap=True)


def _indented(sql: str) -> str:
    return "\n".join(f"    {line}" for line in sql.splitlines())
