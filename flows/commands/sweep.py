"""`assay sweep`: checks first, then the flow under a Prefect server, and the table of cells."""

from collections.abc import Callable, Sequence
from typing import Any

from flows.commands.checks import checked_experiment
from flows.commands.flows import errors_as_json, flow_result
from flows.commands.output import print_json, rows_table, stdout_console
from flows.console import RunConsole
from flows.runtime import assay_home
from schemas.errors import ConfigError
from schemas.sweep import SweepResult
from tasks.cells.expand import Sweep, load_sweep
from tasks.cells.group import Planner, turns
from tasks.cells.record import stored_sweep
from tasks.cells.tables import sweep_rows
from tasks.record.open import check_disk


def run_sweep(
    *,
    file: str | None,
    overrides: Sequence[str],
    limit: int | None,
    repeats: int | None,
    resume: str | None,
    retry: bool,
    as_json: bool,
) -> int:
    """Runs it and gives the exit code: 0 where every cell finished, 1 where one did not. What is wrong with the sweep,
    its experiments or the data is said before anything starts. as_json: one object on stdout, however it ends."""
    home = assay_home()
    with errors_as_json(as_json):
        check_disk(home)
        if resume is not None:
            if file is not None or overrides or limit is not None or repeats is not None:
                raise ConfigError.one(
                    "a resumed sweep keeps its file, --set, --limit and --repeats",
                    suggestion=f"--resume {resume} alone",
                )
            stored_sweep(home, resume, flow="sweep")
        elif file is None:
            raise ConfigError.one("name a sweep's file, or a sweep to --resume", suggestion="assay sweep engine-matrix")
        else:
            _checked(file, overrides=overrides, limit=limit)
        result = flow_result(
            _import_flow,
            {
                "config": file or "",
                "overrides": list(overrides),
                "limit": limit or 0,
                "repeats": repeats or 0,
                "resume": resume or "",
                "retry": retry,
            },
            kind=SweepResult,
            kept="what was answered is kept",
            resume="assay sweep --resume last",
            as_json=as_json,
        )
    if isinstance(result, int):
        return result
    if as_json:
        print_json(result.model_dump(mode="json"))
    else:
        show_cells(sweep_rows(home, result.cells), result=result)
    return result.exit_code


def show_sweep_plan(
    *, file: str, overrides: Sequence[str], limit: int | None, repeats: int | None, as_json: bool
) -> None:
    """Prints the runs in their order, with the engine that each needs, and runs nothing."""
    asked = _checked(file, overrides=overrides, limit=limit)
    planner = Planner(base=asked.base, home=assay_home(), limit=asked.file.limit, on_progress=RunConsole().warn)
    planned = [planner.plan(cell) for cell in asked.cells]
    order = turns(planned, repeats=repeats or asked.file.repeats, order=asked.file.order)
    rows = [
        {
            "run": str(turn.order_index + 1),
            "repeat": str(turn.repeat + 1),
            "cell": turn.planned.cell.name,
            "engine": turn.planned.group or "none can be planned",
        }
        for turn in order
    ]
    if as_json:
        print_json({"name": asked.name, "runs": rows})
        return
    console = stdout_console()
    console.print(rows_table(rows))
    groups = {each.group for each in planned if each.group is not None}
    console.print(f"{len(planned)} cells, {len(groups)} engines", markup=False)
    for each in planned:
        if each.error is not None:
            console.print(f"! {each.cell.name}: {each.error}", markup=False, soft_wrap=True)


def show_cells(rows: Sequence[dict[str, str]], *, result: SweepResult) -> None:
    """The table of cells, and where everything is."""
    stdout_console().print(rows_table(rows))
    RunConsole().lines(
        [
            *([("report", result.report)] if result.report else []),
            ("SQL", f"assay sql \"FROM sweep_cells WHERE run_id = '{result.run_id}'\""),
            ("run", f"{result.run_id}, {len(result.cells)} runs"),
        ]
    )


def _checked(file: str, *, overrides: Sequence[str], limit: int | None) -> Sweep:
    """The sweep, with the data and the model files of its cells looked at, each once: what differs between cells is
    mostly the engine. Raises ConfigError."""
    asked = load_sweep(file, limit=limit, overrides=overrides)
    seen = set()
    for cell in asked.cells:
        data = tuple(each for each in cell.overrides if each.split("=")[0].split(".")[0] in ("datasets", "model"))
        if data not in seen:
            seen.add(data)
            checked_experiment(asked.base, overrides=cell.overrides, limit=asked.file.limit)
    return asked


def _import_flow() -> Callable[..., Any]:
    from flows.sweep import sweep  # noqa: PLC0415 - imports Prefect, whose settings must stand before

    return sweep
