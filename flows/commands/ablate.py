"""`assay ablate`: checks first, then the flow under a Prefect server, and the table of what each choice is worth."""

from collections.abc import Callable, Sequence
from typing import Any

from flows.ablation import planned_ablation
from flows.commands.checks import checked_experiment
from flows.commands.output import print_json, stdout_console
from flows.commands.run import started_flow
from flows.commands.sweep import rows_table
from flows.console import RunConsole
from flows.runtime import assay_home
from flows.signals import Terminated
from schemas.errors import AssayError, ConfigError
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
    try:
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
        result = _run(parameters)
    except AssayError as error:
        if as_json:
            print_json({"status": "failed", "exit_code": error.exit_code, "error": str(error)})
        raise
    if isinstance(result, int):
        if as_json:
            print_json({"status": "cancelled", "exit_code": result, "error": "interrupted"})
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


def _run(parameters: Parameters) -> SweepResult | int:
    """What the flow gives, or the exit code of an interrupt."""
    with started_flow(assay_home(), _import_flow) as flow:
        try:
            found: SweepResult = flow(**parameters)
        except KeyboardInterrupt:
            code = 130
        except Terminated:
            code = 143
        except Exception as error:
            result = getattr(error, "result", None)
            if not isinstance(result, SweepResult):
                raise
            RunConsole().warn(str(error))
            return result
        else:
            return found
    RunConsole().warn("interrupted; what was answered is kept")
    RunConsole().lines([("resume", "assay ablate --resume last")])
    return code


def _import_flow() -> Callable[..., Any]:
    from flows.ablate import ablate  # noqa: PLC0415 - imports Prefect, whose settings must stand before

    return ablate
