"""`assay doctor`."""

import dataclasses

from rich.markup import escape

from flows.commands.output import print_json, stdout_console
from flows.runtime import assay_home
from tasks.doctor import checks

_MARKS = {"ok": "[green]ok  [/green]", "warn": "[yellow]warn[/yellow]", "fail": "[red]fail[/red]"}


def examine(*, as_json: bool) -> int:
    """Prints every check; 1 if one fails, else 0."""
    found = checks(home=assay_home())
    failed = any(check.status == "fail" for check in found)
    if as_json:
        print_json({"ok": not failed, "checks": [dataclasses.asdict(check) for check in found]})
        return int(failed)
    console = stdout_console()
    for check in found:
        console.print(f"{_MARKS[check.status]} {escape(check.name):<18} {escape(check.message)}", soft_wrap=True)
        if check.cure and check.status != "ok":
            console.print(f"{'':<24}→ {escape(check.cure)}", soft_wrap=True)
    return int(failed)
