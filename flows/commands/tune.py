"""`assay tune`: checks first, then the flow under a Prefect server, and the answer with the tables that it rests on."""

from collections.abc import Callable
from typing import Any

from flows.commands.checks import checked_experiment
from flows.commands.flows import errors_as_json, flow_result
from flows.commands.output import print_json, rows_table, stdout_console
from flows.console import RunConsole
from flows.duration import parse_duration
from flows.runtime import assay_home
from schemas.errors import ConfigError
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
    with errors_as_json(as_json):
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
        result = flow_result(
            _import_flow,
            {"config": file or "", "trials": trials or 0, "time_limit": time_limit or "", "resume": resume or ""},
            kind=TuneResult,
            kept="the trials that ran are kept",
            resume="assay tune --resume last",
            as_json=as_json,
        )
    if isinstance(result, int):
        return result
    if as_json:
        print_json(result.model_dump(mode="json"))
    else:
        _show(result)
    return result.exit_code


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
