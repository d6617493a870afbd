"""docs/reference/cli.md: every command, from what `--help` is made of."""

from collections.abc import Iterator
from typing import Any

import typer

from flows.cli import app
from flows.reference.markdown import WRITTEN, code, paragraphs, table

_HEAD = f"""{WRITTEN}
# Every command

`--help` after a command says the same on the spot. FILE is a path, or the name of a file in `configs/experiments`; RUN
is a run's id, or `last`. Results go to stdout, all else to stderr. [Exit codes](exit-codes.md) are the same for all
commands.
"""


def cli_page() -> str:
    """The whole page."""
    root: Any = typer.main.get_command(app)
    found = list(_commands(root, "assay"))
    listed = table(
        ("command", "does"),
        ((f"[{code(name)}](#{name.replace(' ', '-')})", _first_sentence(command)) for name, command in found),
    )
    return "\n".join([_HEAD, listed, *(_section(name, command) for name, command in found)])


def _commands(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Each command that can be run, groups before what is in them. Hidden ones are no part of the reference."""
    for word, each in getattr(command, "commands", {}).items():
        if each.hidden:
            continue
        if not hasattr(each, "commands") or each.invoke_without_command:
            yield f"{name} {word}", each
        yield from _commands(each, f"{name} {word}")


def _doc(command: Any) -> list[str]:
    return paragraphs(getattr(command.callback, "__doc__", None) or command.help)


def _first_sentence(command: Any) -> str:
    first = (_doc(command) or [""])[0]
    return first.partition(". ")[0].partition("; ")[0].rstrip(".:")


def _section(name: str, command: Any) -> str:
    shown = [each for each in command.params if each.name != "help" and not each.hidden]
    usage = " ".join([name, *(_usage(each) for each in shown)])
    parts = [f"## {name}\n", *(f"{each}\n" for each in _doc(command)), f"```text\n{usage}\n```\n"]
    if shown:
        parts.append(table(("", "means", "default"), (_row(each) for each in shown)))
    return "\n".join(parts)


def _usage(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        metavar = str(parameter.metavar or parameter.name.upper())
        return metavar if parameter.required or metavar.startswith("[") else f"[{metavar}]"
    shown = f"{[*parameter.opts, *parameter.secondary_opts][0]}{_takes(parameter)}"
    return shown if parameter.required else f"[{shown}]"


def _takes(parameter: Any) -> str:
    if parameter.is_flag:
        return ""
    return f" {parameter.metavar or ('N' if parameter.bare_type() == 'int' else 'TEXT')}"


def _row(parameter: Any) -> tuple[str, str, str]:
    if parameter.param_type_name == "argument":
        return code(str(parameter.metavar or parameter.name.upper()).strip("[]")), parameter.help or "", ""
    names = [f"{each}{_takes(parameter)}" for each in (*parameter.opts, *parameter.secondary_opts)]
    return ", ".join(map(code, names)), parameter.help or "", _default(parameter)


def _default(parameter: Any) -> str:
    value = parameter.default
    if parameter.is_flag or value is None or callable(value):
        return ""
    return code(str(value))
