"""`assay ablate`: checks first, then the flow under a Prefect server, and the table of what each choice is worth."""

from collections.abc import Callable, Sequence
from typing import Any

from flows.ablation import planned_ablation
from flows.commands.checks import checked_experiment
from flows.commands.flows import errors_as_json, flow_result
from flows.commands.output import print_json, rows_table, stdout_console
from flows.console import RunConsole
from flows.runtime import assay_home
from schemas.errors import ConfigError
from schemas.sweep import SweepResult
from tasks.cells.ablation import ablated
from tasks.cells.record import stored_sweep
from tasks.cells.tables import ablation_table, effects_table
from tasks.record.open import check_disk

Parameters = dict[str, Any]


def run_ablation(*, parameters: Parameters, resume: str | None, whole: bool, as_json: bool) -> int:
    """Runs it and gives the exit code: 0 where every run finished, 1 where one did not. parameters: the flow's own.
    whole: every figure with its interval, not the key ones alone. as_json: one object on stdout, however it ends."""
    home = assay_home()
    with errors_as_json(as_json):
        check_disk(home)
        if resume is not None:
            stored_sweep(home, resume, flow="ablate")
        elif not parameters["config"]:
            raise ConfigError.one(
                "name an experiment, or an ablation to --resume",
                suggestion="assay ablate quickstart --over engine.core",
            )
        else:
            _checked(parameters)
        result = flow_result(
            _import_flow,
            parameters,
            kind=SweepResult,
            kept="what was answered is kept",
            resume="assay ablate --resume last",
            as_json=as_json,
        )
    if isinstance(result, int):
        return result
    settings = ablated(home, result.cells)
    if as_json:
        told = [each.model_dump(mode="json") for each in settings]
        print_json(result.model_dump(mode="json") | {"settings": told})
        return result.exit_code
    show_rows(ablation_table(settings))
    if whole:
        show_rows(effects_table(settings))
    RunConsole().lines(
        [
            *([("report", result.report)] if result.report else []),
            ("SQL", f"assay sql \"FROM sweep_cells WHERE run_id = '{result.run_id}'\""),
            (
                "run",
                f"{result.run_id}, {len(result.cells)} runs; multiples of the planned engine's, with 95 % intervals",
            ),
        ]
    )
    return result.exit_code


def show_rows(rows: Sequence[dict[str, str]]) -> None:
    """A table on stdout."""
    stdout_console().print(rows_table(rows))


def _checked(parameters: Parameters) -> None:
    limit = parameters["limit"] or None
    checked_experiment(parameters["config"], overrides=parameters["overrides"], limit=limit)
    planned_ablation(
        parameters["config"],
        over=parameters["over"],
        limit=limit,
        overrides=parameters["overrides"],
        home=assay_home(),
        on_progress=RunConsole().warn,
        rounds=parameters["rounds"],
        engines_at_once=parameters["engines_at_once"],
        cell_time_limit_s=parameters["cell_time_limit_s"],
    )


def _import_flow() -> Callable[..., Any]:
    from flows.ablate import ablate  # noqa: PLC0415 - imports Prefect, whose settings must stand before

    return ablate
