"""`assay import lm-eval-task`: a task's YAML as a dataset's."""

from pathlib import Path
from typing import Any

from rich.console import Console

from flows.commands.output import print_json, stdout_console, visible
from schemas.errors import ConfigError
from tasks.lm_eval_task.convert import convert
from tasks.lm_eval_task.read import NotTaken
from tasks.lm_eval_task.write import check, dataset_yaml


def import_task(*, path: Path, out: Path | None, as_json: bool) -> None:
    """Prints the dataset, or writes it to a file that is not there yet, and lists on stderr what it lacks."""
    if out is not None and out.exists():
        raise ConfigError.one("there is such a file already", file=out, key="--out", suggestion="name another")
    made = convert(path)
    left = [*made.not_taken, *check(made)]
    text = dataset_yaml(made)
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text, encoding="utf-8")
    if as_json:
        print_json({"task": made.name, "dataset": made.config, "yaml": text, "not_taken": [_fields(n) for n in left]})
        return
    errors = Console(stderr=True, highlight=False)
    for note in left:
        errors.print(f"! {visible(str(note))}", markup=False, soft_wrap=True)
    counted = "nothing was left out" if not left else f"{len(left)} of its settings differ or are left out, see above"
    errors.print(f"{visible(made.name)}: {counted}", markup=False, soft_wrap=True)
    if out is None:
        stdout_console().print(text, markup=False, soft_wrap=True, end="")
    else:
        stdout_console().print(
            f"wrote {out}; `assay datasets show {out}` prints its prompts", markup=False, soft_wrap=True
        )


def _fields(note: NotTaken) -> dict[str, Any]:
    return {"key": note.key, "why": note.why, "file": None if note.file is None else str(note.file), "line": note.line}
