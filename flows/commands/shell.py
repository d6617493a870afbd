"""`assay sql --shell`: question after question at a prompt, or from a pipe."""

import contextlib
import os
import shlex
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

from rich.console import Console

from flows.commands.answers import FORMATS, chosen_format
from flows.commands.output import stdout_console
from flows.commands.sql import answer, list_examples
from flows.runtime import assay_home
from schemas.errors import AssayError, ConfigError
from warehouse.build import ensure_fresh
from warehouse.cookbook import recipe
from warehouse.query import QueryCancelled
from warehouse.split import is_empty, split_statements
from warehouse.vocabulary import Vocabulary, load_vocabulary

COMMANDS = {
    ".help": "what can be typed here",
    ".tables": "the tables, views and macros, with what they are",
    ".columns": ".columns TABLE: its columns, with what they mean",
    ".format": ".format table|json|csv|markdown|parquet: how answers come",
    ".out": ".out FILE: where the next answer goes; without a name: back to the screen",
    ".examples": "questions from the cookbook, numbered",
    ".run": ".run N: asks question N of the cookbook",
    ".quit": "leaves, as Ctrl-D does",
}
_HISTORY = "sql_history"
_PROMPT = "assay> "
_MORE = "   ...> "


class Shell:
    """What a session at the prompt remembers: the format, and where the next answer goes."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._format = "table"
        self._out: Path | None = None

    def handle(self, text: str) -> bool:
        """Runs a dot-command, or every statement of the text. False: the user wants to leave. Raises AssayError for
        what is refused; statements after it are not run."""
        if text.strip().startswith("."):
            return self._command(text.strip())
        done, rest = split_statements(text)
        for sql in [*done, *([] if is_empty(rest) else [rest])]:
            self._ask(sql)
        return True

    def _ask(self, sql: str) -> None:
        out, self._out = self._out, None
        if out is not None and self._format == "table":
            answer(sql=sql, format_=chosen_format(format_=None, out=out), out=out, limit=None)
        else:
            answer(sql=sql, format_=chosen_format(format_=self._format, out=out), out=out, limit=None)

    def _command(self, text: str) -> bool:
        try:
            name, *arguments = shlex.split(text)
        except ValueError as error:
            raise ConfigError.one(f"{text}: {error}", key="shell") from error
        if name in (".quit", ".exit"):
            return False
        actions: dict[str, Callable[[list[str]], None]] = {
            ".help": lambda _: self._help(),
            ".tables": lambda _: self._ask(_TABLES),
            ".columns": self._columns,
            ".format": self._set_format,
            ".out": self._set_out,
            ".examples": lambda _: list_examples(),
            ".run": self._run,
        }
        if name not in actions:
            raise ConfigError.one(f"there is no command {name}", key="shell", suggestion=", ".join(COMMANDS))
        actions[name](arguments)
        return True

    def _help(self) -> None:
        console = stdout_console()
        console.print("A question ends with `;` and may take several lines. Tab completes, Up recalls.", markup=False)
        for name, doc in COMMANDS.items():
            console.print(f"{name:<10} {doc}", markup=False)
        console.print("Ctrl-C stops a question that takes too long, Ctrl-D leaves.", markup=False)

    def _columns(self, arguments: list[str]) -> None:
        name = _one(arguments, command=".columns TABLE")
        relations = load_vocabulary(self._home).relations
        if name not in relations:
            raise ConfigError.one(f"there is no table {name}", key="shell", suggestion="`.tables` lists them")
        console = stdout_console()
        relation = relations[name]
        console.print(f"{name}{relation.call}: {relation.doc}", markup=False, soft_wrap=True)
        width = max(map(len, relation.columns), default=0)
        for column, doc in relation.columns.items():
            console.print(f"  {column:<{width}}  {doc}", markup=False, soft_wrap=True)

    def _set_format(self, arguments: list[str]) -> None:
        name = _one(arguments, command=f".format {'|'.join(FORMATS)}")
        if name not in FORMATS:
            raise ConfigError.one(f"there is no format {name}", key="shell", suggestion=f"use {', '.join(FORMATS)}")
        self._format = name

    def _set_out(self, arguments: list[str]) -> None:
        self._out = Path(_one(arguments, command=".out FILE")) if arguments else None

    def _run(self, arguments: list[str]) -> None:
        number = _one(arguments, command=".run N")
        if not number.isdecimal():
            raise ConfigError.one(f"{number} is no number", key="shell", suggestion="`.examples` lists them")
        chosen = recipe(int(number))
        stdout_console().print(chosen.question, style="bold", markup=False)
        self._ask(chosen.sql)


_TABLES = """
SELECT table_name AS name, comment AS what
FROM duckdb_tables() WHERE database_name = 'warehouse' AND schema_name = 'main'
UNION ALL
SELECT view_name, comment FROM duckdb_views() WHERE database_name = 'warehouse' AND NOT internal
UNION ALL
SELECT DISTINCT function_name || '(' || array_to_string(parameters, ', ') || ')', comment
FROM duckdb_functions() WHERE database_name = 'warehouse' AND function_type = 'table_macro' AND NOT internal
ORDER BY 1
"""


def run_shell() -> int:
    """The shell, at a prompt where stdin is a terminal, else over what stdin gives. The exit code: 0, or 2 where a
    question from a pipe was refused."""
    home = assay_home()
    ensure_fresh(home)
    shell = Shell(home)
    return _at_a_prompt(shell, home) if sys.stdin.isatty() else _from_a_pipe(shell)


def _from_a_pipe(shell: Shell) -> int:
    code = 0
    waiting = ""
    for line in sys.stdin:
        if not waiting.strip() and line.lstrip().startswith("."):
            code, leave = _tried(shell, line, code)
            if leave:
                return code
            continue
        done, waiting = split_statements(waiting + line)
        waiting += "\n" if waiting else ""
        for sql in done:
            code, _ = _tried(shell, sql, code)
    if not is_empty(waiting):
        code, _ = _tried(shell, waiting, code)
    return code


def _tried(shell: Shell, text: str, code: int) -> tuple[int, bool]:
    try:
        return code, not shell.handle(text)
    except AssayError as error:
        _complain(error)
        return error.exit_code, False


def _at_a_prompt(shell: Shell, home: Path) -> int:
    from prompt_toolkit import PromptSession  # noqa: PLC0415 - takes a third of a second, for terminals alone
    from prompt_toolkit.filters import Condition  # noqa: PLC0415
    from prompt_toolkit.formatted_text import FormattedText  # noqa: PLC0415
    from prompt_toolkit.history import FileHistory  # noqa: PLC0415
    from prompt_toolkit.lexers import PygmentsLexer  # noqa: PLC0415
    from pygments.lexers.sql import PostgresLexer  # noqa: PLC0415

    from flows.commands.completion import SqlCompleter  # noqa: PLC0415

    history = home / _HISTORY
    with contextlib.suppress(OSError):
        os.close(os.open(history, os.O_CREAT | os.O_APPEND, 0o600))  # questions may quote what only their user may see

    @cache
    def vocabulary() -> Vocabulary:
        try:
            return load_vocabulary(home)
        except AssayError:  # a question will say what is wrong; Tab then has nothing to offer
            return Vocabulary(relations={}, functions={}, keywords=())

    session: PromptSession[str] = PromptSession(
        history=FileHistory(str(history)),
        completer=SqlCompleter(vocabulary, commands=COMMANDS),
        complete_in_thread=True,
        complete_while_typing=False,
        lexer=PygmentsLexer(PostgresLexer),
        multiline=Condition(lambda: not _complete(session.default_buffer.text)),
        prompt_continuation=lambda width, *_: FormattedText([("", _MORE.rjust(width))]),
    )
    stdout_console().print("Questions end with `;`. `.help` for more, Ctrl-D leaves.", style="dim", markup=False)
    while True:
        try:
            text = session.prompt(_PROMPT)
        except KeyboardInterrupt:
            continue
        except EOFError:
            return 0
        try:
            if not shell.handle(text):
                return 0
        except QueryCancelled:
            stdout_console().print("cancelled", style="yellow")
        except AssayError as error:
            _complain(error)


def _complete(text: str) -> bool:
    """Whether Enter sends it: a dot-command, nothing at all, or a text whose last statement is ended."""
    return text.lstrip().startswith(".") or is_empty(text) or is_empty(split_statements(text)[1])


def _one(arguments: list[str], *, command: str) -> str:
    if len(arguments) != 1:
        raise ConfigError.one("one word is missing or too many", key="shell", suggestion=command)
    return arguments[0]


def _complain(error: AssayError) -> None:
    Console(stderr=True, highlight=False).print(f"error: {error}", markup=False, soft_wrap=True)
