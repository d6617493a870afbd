"""`assay tune`: checks first, then the flow under a Prefect server, and the answer with the tables that it rests on."""

from collections.abc import Callable
from typing import Any

from flows.commands.checks import checked_experiment
from flows.commands.output import print_json, stdout_console
from flows.commands.run import started_flow
from flows.commands.sweep import rows_table
from flows.console import RunConsole
from flows.duration import parse_duration
from flows.runtime import assay_home
from flows.signals import Terminated
from schemas.errors import AssayError, ConfigError
from schemas.tune import TuneResult
from tasks.cells.record import stored_sweep
from tasks.record.open import check_disk
from tasks.tune.file import load_tuning
from tasks.tune.table import confirmation_table, trial_table


def run_tuning(
    *, file: str | None, trials: int | None, time_limit: str | None, resume: str | None, as_json: bool
) -> int:
    """Runs it and gives the exit code: 0 where there is an answer, 1 where no setting ran. What is wrong with the
    tuning, its experiment or the data is said before anything starts. as_json: one object on stdout, however it
    ends."""
    home = assay_home()
    try:
        check_disk(home)
        limit = None if time_limit is None else parse_duration(time_limit)
        if resume is not None:
            if file is not None:
                raise ConfigError.one("a resumed tuning keeps its file", suggestion=f"--resume {resume} alone")
            stored_sweep(home, resume, flow="tune")
        elif file is None:
            raise ConfigError.one(
                "name a tuning's file, or a tuning to --resume", suggestion="assay tune quickstart-engine"
            )
        else:
            asked = load_tuning(file, trials=trials, time_limit_s=limit)
            checked_experiment(asked.base)
        result = _run(
            {"config": file or "", "trials": trials or 0, "time_limit": time_limit or "", "resume": resume or ""}
        )
    except AssayError as error:
        if as_json:
            print_json({"status": "failed", "exit_code": error.exit_code, "error": str(error)})
        raise
    if isinstance(result, int):
        if as_json:
            print_json({"status": "cancelled", "exit_code": result, "error": "interrupted"})
        return result
    if as_json:
        print_json(result.model_dump(mode="json"))
    else:
        _show(result)
    return result.exit_code


def _run(parameters: dict[str, Any]) -> TuneResult | int:
    """What the flow gives, or the exit code of an interrupt."""
    with started_flow(assay_home(), _import_flow) as flow:
        try:
            found: TuneResult = flow(**parameters)
        except KeyboardInterrupt:
            code = 130
        except Terminated:
            code = 143
        except Exception as error:
            result = getattr(error, "result", None)
            if not isinstance(result, TuneResult):
                raise
            RunConsole().warn(str(error))
            return result
        else:
            return found
    RunConsole().warn("interrupted; the trials that ran are kept")
    RunConsole().lines([("resume", "assay tune --resume last")])
    return code


def _import_flow() -> Callable[..., Any]:
    from flows.tune import tune  # noqa: PLC0415 - imports Prefect, whose settings must stand before

    return tune


def _show(result: TuneResult) -> None:
    console, found = stdout_console(), result.tuned
    console.print(rows_table(trial_table(found)))
    if found.confirmation is not None:
        console.print(rows_table(confirmation_table(found)))
    shares = ", ".join(f"{key} {share:.0%}" for key, share in found.importances.items())
    console.print(f"keys that mattered: {shares or found.importances_note}", markup=False, soft_wrap=True)
    console.print(found.answer, markup=False, soft_wrap=True)
    for warning in result.warnings:
        RunConsole().warn(warning)
    RunConsole().lines(
        [
            ("engine", f"{result.engine_file}, for `assay run FILE --set engine=PATH`"),
            *([("report", result.report)] if result.report else []),
            ("SQL", f"assay sql \"FROM trials WHERE run_id = '{result.run_id}'\""),
            ("run", f"{result.run_id}, {len(found.trials)} trials of {found.objective}"),
        ]
    )
