"""A sweep: an experiment under every combination of some settings, with engines shared where they can be."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from prefect import flow, get_run_logger
from prefect.artifacts import create_table_artifact
from prefect.runtime import flow_run
from pydantic import Field

from flows import pages
from flows.cells import CellRunner, cell_runner, recorded
from flows.cells_page import write_page
from flows.console import RunConsole
from flows.context import this_flow_run
from flows.form import Limit, Overrides, Sweeps
from flows.runtime import assay_home
from flows.signals import keep_sigterm
from schemas.errors import ConfigError, RunError
from schemas.sweep import CellResult, SweepResult
from tasks.cells.expand import Sweep, load_sweep
from tasks.cells.group import PlannedCell, Planner, Turn, turns
from tasks.cells.record import CellsRecord, stored_cells, stored_sweep
from tasks.cells.tables import sweep_rows
from tasks.config.document import config_hash
from tasks.record.step import try_artifact
from warehouse.ids import new_run_id

Repeats = Annotated[int, Field(ge=0, le=100)]
ResumeSweep = Annotated[str, Field(pattern="^(last|[0-9]{8}T[0-9]{6}-[0-9a-f]{6})?$")]


class CellsNotFinished(RunError):
    """Some cells of a sweep failed or took too long; the others are done, and `result` has all of them."""

    def __init__(self, message: str, result: SweepResult) -> None:
        super().__init__(message)
        self.result = result


def _flow_run_name() -> str:
    if flow_run.parameters.get("resume"):
        return f"resume {flow_run.parameters['resume']}"
    return Path(str(flow_run.parameters.get("config"))).stem


@flow(name="sweep", flow_run_name=_flow_run_name, persist_result=False)
def sweep(
    config: Sweeps = "engine-matrix",
    repeats: Repeats = 0,
    limit: Limit = 0,
    overrides: Overrides = [],  # noqa: B006 - the form shows it, nothing changes it
    resume: ResumeSweep = "",
    retry: bool = False,
) -> SweepResult:
    """Run one experiment under every combination of some settings, building each engine once where cells can share it.

    Args:
        config: The sweep: a name in configs/sweeps.
        repeats: How often each cell runs. 0: as the sweep says.
        limit: The most samples of each dataset. 0: as the sweep says.
        overrides: Any other key of the experiment for all cells, each as key=value.
        resume: The id of an interrupted sweep to go on with, or last. Empty: a new one.
        retry: On resuming, run cells that failed or took too long once more.

    Raises ConfigError before anything runs, and CellsNotFinished where a cell did not finish.
    """
    keep_sigterm()
    console = RunConsole(log=get_run_logger().info)
    home, warnings = assay_home(), list[str]()
    with pages.refusal_explained():
        run_id, asked = _asked(home, config, limit=limit, repeats=repeats, overrides=overrides, resume=resume)
    planner = Planner(base=asked.base, home=home, limit=asked.file.limit, on_progress=console.warn)
    console.title(f"{asked.name}  {run_id}{'  (resumed)' if resume else ''}")
    with console.step("plan cells") as said:
        planned = [planner.plan(cell) for cell in asked.cells]
        order = turns(planned, repeats=asked.file.repeats, order=asked.file.order)
        said.append(_plan_words(planned, order))
    record = CellsRecord(
        home=home,
        run_id=run_id,
        flow="sweep",
        name=asked.name,
        config=_config(asked, planned),
        tags=asked.file.tags,
        prefect_flow_run_id=str(this_flow_run().id),
    )
    before = _before(home, record, asked=asked, planned=planned)
    with recorded(record, warnings):
        record.cells([_waiting(turn) for turn in order if (turn.planned.cell.index, turn.repeat) not in before])
        try:
            with cell_runner(
                record,
                base=asked.base,
                time_limit_s=asked.file.cell_time_limit_s,
                tags={**asked.file.tags, "sweep": run_id},
                room=asked.file.engines_at_once,
                console=console,
            ) as runner:
                _run_all(runner, order, before=before, retry=retry, limit=asked.file.limit, console=console)
        finally:
            results = stored_cells(home, run_id, cells=asked.cells)
            report = write_page(record, results=results, title=asked.name, matrix=asked.file.matrix, warnings=warnings)
    result = SweepResult(
        run_id=run_id,
        name=asked.name,
        status="finished",
        exit_code=0 if all(each.state == "finished" for each in results) else 1,
        report=report,
        cells=results,
        warnings=warnings,
    )
    try_artifact(
        create_table_artifact,
        key="sweep",
        table=sweep_rows(home, results),
        description=f"Every cell of {asked.name}, sweep {run_id}",
    )
    if result.exit_code:
        lost = [each for each in results if each.state != "finished"]
        raise CellsNotFinished(f"{len(lost)} of {len(results)} cells did not finish: {_lost_words(lost)}", result)
    return result


def _asked(
    home: Path, config: str, *, limit: int, repeats: int, overrides: Sequence[str], resume: str
) -> tuple[str, Sweep]:
    """The sweep and its id: a new one, or the one to go on with. Raises ConfigError where its files are others now."""
    if not resume:
        asked = load_sweep(config, limit=limit or None, overrides=overrides)
        file = asked.file.model_copy(update={"repeats": repeats}) if repeats else asked.file
        return new_run_id(), Sweep(name=asked.name, base=asked.base, path=asked.path, file=file, cells=asked.cells)
    run_id, stored = stored_sweep(home, resume, flow="sweep")
    asked = load_sweep(stored["path"], limit=stored["sweep"]["limit"], overrides=stored["overrides"])
    return run_id, _same(asked, stored, run_id=run_id)


def _same(asked: Sweep, stored: dict[str, Any], *, run_id: str) -> Sweep:
    file = asked.file.model_copy(update={"repeats": stored["sweep"]["repeats"]})
    if file.model_dump(mode="json") != stored["sweep"]:
        raise ConfigError.one(
            f"sweep {run_id} began with another content of this file",
            file=asked.path,
            suggestion="put back what it was, or begin a new sweep",
        )
    return Sweep(name=asked.name, base=asked.base, path=asked.path, file=file, cells=asked.cells)


def _config(asked: Sweep, planned: Sequence[PlannedCell]) -> dict[str, Any]:
    """All that a session which goes on with this sweep must find again."""
    settings = [[f"{key}" for key in cell.settings] for cell in asked.cells]
    first = asked.cells[0].overrides
    return {
        "path": str(asked.path),
        "base": asked.base,
        "sweep": asked.file.model_dump(mode="json"),
        "overrides": first[: len(first) - len(settings[0])],
        "cells": [cell.model_dump(mode="json") for cell in asked.cells],
        "experiments": [config_hash(each.experiment) for each in planned],
    }


def _before(
    home: Path, record: CellsRecord, *, asked: Sweep, planned: Sequence[PlannedCell]
) -> dict[tuple[int, int], CellResult]:
    """What an earlier session did, by cell and repeat. Raises ConfigError where the experiment is another one now."""
    if not record.resumed:
        return {}
    _, stored = stored_sweep(home, record.run_id, flow="sweep")
    if stored["experiments"] != [config_hash(each.experiment) for each in planned]:
        raise ConfigError.one(
            f"sweep {record.run_id} began with another content of the experiment",
            file=Path(asked.base),
            suggestion="put back what it was, or begin a new sweep",
        )
    return {(each.cell.index, each.repeat): each for each in stored_cells(home, record.run_id, cells=asked.cells)}


def _run_all(
    runner: CellRunner,
    order: Sequence[Turn],
    *,
    before: dict[tuple[int, int], CellResult],
    retry: bool,
    limit: int | None,
    console: RunConsole,
) -> None:
    again = ("failed", "timeout") if retry else ()
    for number, turn in enumerate(order, start=1):
        earlier = before.get((turn.planned.cell.index, turn.repeat))
        at = f"cell {number} of {len(order)}: {turn.planned.cell.name}"
        if earlier is not None and earlier.state in ("finished", "failed", "timeout") and earlier.state not in again:
            console.note(f"{at}: {earlier.state} before")
            continue
        console.title(at)
        begun = None if earlier is None or earlier.state in again else earlier.run_id
        found = runner.run(turn, limit=limit, resume=begun)
        if found.error is not None:
            console.warn(f"{at}: {found.state}: {found.error.splitlines()[0]}")


def _waiting(turn: Turn) -> CellResult:
    return CellResult(
        cell=turn.planned.cell,
        repeat=turn.repeat,
        order_index=turn.order_index,
        state="waiting",
        engine_group=turn.planned.group,
    )


def _plan_words(planned: Sequence[PlannedCell], order: Sequence[Turn]) -> str:
    groups = {each.group for each in planned if each.group is not None}
    lost = sum(1 for each in planned if each.group is None)
    words = f"{len(planned)} cells, {len(order)} runs on {len(groups)} engines"
    return f"{words}; {lost} cannot be planned" if lost else words


def _lost_words(lost: Sequence[CellResult]) -> str:
    shown = [f"{each.cell.name} ({each.state})" for each in lost[:3]]
    return ", ".join(shown) + (f" and {len(lost) - 3} more" if len(lost) > len(shown) else "")
