"""`assay noise`: checks first, then the flow under a Prefect server, and the table."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from rich.markup import escape
from rich.table import Table

from flows.commands.checks import checked_experiment
from flows.commands.flows import errors_as_json, flow_result
from flows.commands.output import print_json, stdout_console
from flows.runtime import assay_home
from schemas.errors import ConfigError
from tasks.compare.noise import Noise
from tasks.compare.noise_plan import checked
from tasks.compare.noise_table import table
from tasks.record.open import check_disk


def measure_noise(*, file: str, concurrency: str, overrides: Sequence[str], limit: int | None, as_json: bool) -> int:
    """Measures it and gives the exit code. What is wrong with the config, the data or an option is said before anything
    starts. as_json: one object on stdout, however it ends."""
    with errors_as_json(as_json):
        at_once = _levels(concurrency)
        check_disk(assay_home())
        checked(file, concurrency=at_once, overrides=overrides, limit=limit)
        checked_experiment(file, overrides=overrides, limit=limit)
        measured = flow_result(
            _import_flow,
            {"config": file, "concurrency": at_once, "overrides": list(overrides), "limit": limit or 0},
            kind=Noise,
            kept="no noise was measured. The runs that finished are kept",
            as_json=as_json,
        )
    if isinstance(measured, int):
        return measured
    if as_json:
        print_json({"status": "finished", "exit_code": 0} | asdict(measured))
    else:
        _show(measured, rows=table(measured))
    return 0


def _import_flow() -> Callable[..., Any]:
    from flows.noise import noise  # noqa: PLC0415 - imports Prefect, whose settings must stand before

    return noise


def _levels(text: str) -> list[int]:
    try:
        return [int(each) for each in text.split(",")]
    except ValueError as error:
        raise ConfigError.one(
            f"takes batch sizes with commas between, not {text!r}", key="--concurrency", suggestion="1,16"
        ) from error


def _show(measured: Noise, *, rows: Sequence[dict[str, str]]) -> None:
    shown = Table(header_style="bold", box=None, padding=(0, 2, 0, 0))
    heads = list(rows[0]) if rows else ["metric"]
    for head in heads:
        shown.add_column(head, justify="left" if head in ("metric", "arm") else "right", no_wrap=True)
    for row in rows:
        shown.add_row(*(escape(row[head]) for head in heads))
    console = stdout_console()
    console.print(shown)
    for level in measured.levels:
        console.print(f"at {level.concurrency:<8}run {level.run_id}", markup=False)
