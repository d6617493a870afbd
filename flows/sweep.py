"""A sweep: an experiment under every combination of some settings, with engines shared where they can be."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from prefect import flow, get_run_logger
from prefect.artifacts import create_table_artifact
from prefect.runtime import flow_run
from pydantic import Field

from flows import pages
from flows.begin import before_it_begins, going_on_with
from flows.console import RunConsole
from flows.context import this_flow_run
from flows.form import Limit, Overrides, Resume, Sweeps
from flows.hooks import after_crash
from flows.runtime import assay_home
from flows.signals import keep_sigterm
from flows.turns import CellsNotFinished, Work, experiments, plan_words, run_work
from schemas.errors import ConfigError
from schemas.sweep import SweepResult
from tasks.cells.expand import Sweep, load_sweep
from tasks.cells.group import PlannedCell, Planner, turns
from tasks.cells.record import CellsRecord, stored_sweep
from tasks.cells.tables import sweep_rows
from tasks.record.step import try_artifact
from warehouse.ids import new_run_id

Repeats = Annotated[int, Field(ge=0, le=100)]


def _flow_run_name() -> str:
    if flow_run.parameters.get("resume"):
        return f"resume {flow_run.parameters['resume']}"
    return Path(str(flow_run.parameters.get("config"))).stem


@flow(name="sweep", flow_run_name=_flow_run_name, persist_result=False, on_crashed=[after_crash])
def sweep(
    config: Sweeps = "engine-matrix",
    repeats: Repeats = 0,
    limit: Limit = 0,
    overrides: Overrides = [],  # noqa: B006 - the form shows it, nothing changes it
    resume: Resume = "",
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
    home, warnings = assay_home(), before_it_begins()
    with pages.refusal_explained():
        begun = going_on_with(home, resume)
        run_id, asked = _asked(home, config, limit=limit, repeats=repeats, overrides=overrides, resume=begun)
    planner = Planner(base=asked.base, home=home, limit=asked.file.limit, on_progress=console.warn)
    console.title(f"{asked.name}  {run_id}{'  (resumed)' if begun else ''}")
    with console.step("plan cells") as said:
        planned = [planner.plan(cell) for cell in asked.cells]
        order = turns(planned, repeats=asked.file.repeats, order=asked.file.order)
        said.append(plan_words(planned, order))
    record = CellsRecord(
        home=home,
        run_id=run_id,
        flow="sweep",
        name=asked.name,
        config=_config(asked, planned),
        tags=asked.file.tags,
        prefect_flow_run_id=str(this_flow_run().id),
        experiment=planned[0].experiment.name,
    )
    work = Work(
        record=record,
        flow="sweep",
        name=asked.name,
        base=asked.base,
        planned=planned,
        order=order,
        limit=asked.file.limit,
        time_limit_s=asked.file.cell_time_limit_s,
        tags={**asked.file.tags, "sweep": run_id},
        room=asked.file.engines_at_once,
    )
    result = run_work(
        work, retry=retry, console=console, warnings=warnings, made_of=lambda _: {"matrix": asked.file.matrix}
    )
    try_artifact(
        create_table_artifact,
        key="sweep",
        table=sweep_rows(home, result.cells),
        description=f"Every cell of {asked.name}, sweep {run_id}",
    )
    if result.exit_code:
        raise CellsNotFinished(result)
    return result


def _asked(
    home: Path, config: str, *, limit: int, repeats: int, overrides: Sequence[str], resume: str | None
) -> tuple[str, Sweep]:
    """The sweep and its id: a new one, or the one to go on with. Raises ConfigError where its files are others now."""
    if resume is None:
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
    first = asked.cells[0]
    return {
        "path": str(asked.path),
        "base": asked.base,
        "sweep": asked.file.model_dump(mode="json"),
        "overrides": first.overrides[: len(first.overrides) - len(first.settings)],
        "cells": [cell.model_dump(mode="json") for cell in asked.cells],
        "experiments": experiments(planned),
    }
