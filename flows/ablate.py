"""An ablation: what each choice of the engine is worth, one changed at a time against the planned engine."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from prefect import flow, get_run_logger
from prefect.artifacts import create_table_artifact
from prefect.runtime import flow_run
from pydantic import Field

from flows import pages
from flows.ablation import Ablation, planned_ablation
from flows.begin import before_it_begins, going_on_with
from flows.console import RunConsole
from flows.context import this_flow_run
from flows.form import Config, Limit, Overrides, Resume, Shown
from flows.hooks import after_crash
from flows.runtime import assay_home
from flows.signals import keep_sigterm
from flows.turns import CellsNotFinished, Work, experiments, plan_words, run_work
from schemas.sweep import SweepResult
from tasks.cells.ablation import ablated
from tasks.cells.alternatives import KNOWN
from tasks.cells.group import PlannedCell, Planner, turns
from tasks.cells.record import CellsRecord, stored_sweep
from tasks.cells.tables import ablation_table
from tasks.record.step import try_artifact
from warehouse.ids import new_run_id

Over = Annotated[
    list[Annotated[str, Shown(lambda: {"examples": [*KNOWN, "engine.max_num_seqs=8|64"]})]],
    Shown(lambda: {"uniqueItems": True}),
]
Rounds = Annotated[int, Field(ge=1, le=50)]
AtOnce = Annotated[int, Field(ge=1, le=64)]
TimeLimit = Annotated[int, Field(ge=1)]


def _flow_run_name() -> str:
    if flow_run.parameters.get("resume"):
        return f"resume {flow_run.parameters['resume']}"
    over = ", ".join(flow_run.parameters.get("over") or [])
    return f"{Path(str(flow_run.parameters.get('config'))).stem} over {over or 'the usual'}"


@flow(name="ablate", flow_run_name=_flow_run_name, persist_result=False, on_crashed=[after_crash])
def ablate(
    config: Config = "quickstart",
    over: Over = [],  # noqa: B006 - the form shows it, nothing changes it
    rounds: Rounds = 3,
    limit: Limit = 0,
    overrides: Overrides = [],  # noqa: B006
    engines_at_once: AtOnce = 1,
    cell_time_limit_s: TimeLimit = 3600,
    resume: Resume = "",
) -> SweepResult:
    """Measure what each choice of the engine is worth: one changed at a time against the planned engine, in rounds.

    Args:
        config: The experiment: a name in configs/experiments.
        over: What is changed, one after another: keys of the engine, or key=value|value. None: the usual ones.
        rounds: How often everything runs, in turns. There are intervals from two rounds on; three and more are useful.
        limit: The most samples of each dataset. 0: all of them.
        overrides: Any other key of the experiment for all runs, each as key=value.
        engines_at_once: How many engines may stand at the same time. One: each is built anew in every round, so that
            starting is measured too.
        cell_time_limit_s: Seconds that a run may take to start its engine, and again to answer.
        resume: The id of an interrupted ablation to go on with, or last. Empty: a new one.

    Raises ConfigError before anything runs, and CellsNotFinished where a run did not finish.
    """
    keep_sigterm()
    console = RunConsole(log=get_run_logger().info)
    home, warnings = assay_home(), before_it_begins()
    with pages.refusal_explained():
        begun = going_on_with(home, resume)
        if begun is not None:
            run_id, stored = stored_sweep(home, begun, flow="ablate")
            asked = Ablation.model_validate({key: stored[key] for key in Ablation.model_fields})
        else:
            run_id = new_run_id()
            asked = planned_ablation(
                config,
                over=over,
                limit=limit or None,
                overrides=overrides,
                home=home,
                on_progress=console.warn,
                rounds=rounds,
                engines_at_once=engines_at_once,
                cell_time_limit_s=cell_time_limit_s,
            )
    console.title(f"{asked.name}  {run_id}{'  (resumed)' if begun else ''}")
    planner = Planner(base=asked.base, home=home, limit=asked.limit, on_progress=console.warn)
    with console.step("plan cells") as said:
        planned = [planner.plan(cell) for cell in asked.cells]
        order = turns(planned, repeats=asked.rounds, order="interleaved")
        said.append(plan_words(planned, order))
    warnings += [f"{name} changes nothing of the engine that is planned" for name in _without_effect(planned)]
    record = CellsRecord(
        home=home,
        run_id=run_id,
        flow="ablate",
        name=asked.name,
        config=asked.model_dump(mode="json") | {"experiments": experiments(planned)},
        tags={},
        prefect_flow_run_id=str(this_flow_run().id),
        experiment=planned[0].experiment.name,
    )
    work = Work(
        record=record,
        flow="ablate",
        name=asked.name,
        base=asked.base,
        planned=planned,
        order=order,
        limit=asked.limit,
        time_limit_s=asked.cell_time_limit_s,
        tags={"ablation": run_id},
        # With one, no round takes over the engine that the one before it ended with: starting is measured too.
        room=asked.engines_at_once if asked.engines_at_once > 1 else 0,
    )
    result = run_work(
        work,
        retry=False,
        console=console,
        warnings=warnings,
        made_of=lambda results: {"ablation": ablated(home, results)},
    )
    try_artifact(
        create_table_artifact,
        key="ablation",
        table=ablation_table(ablated(home, result.cells)),
        description=f"What each choice of the engine is worth, ablation {run_id}: multiples of the planned engine's",
    )
    for warning in warnings:
        console.warn(warning)
    if result.exit_code:
        raise CellsNotFinished(result)
    return result


def _without_effect(planned: Sequence[PlannedCell]) -> list[str]:
    """The candidates whose engine is the control's, threshold and all."""
    control, *others = planned
    if control.plan is None:
        return []
    wanted = {option.option: option.value for option in control.plan.options if option.option != "prefill_policy"}
    return [
        each.cell.name
        for each in others
        if each.plan is not None
        and {option.option: option.value for option in each.plan.options if option.option != "prefill_policy"} == wanted
    ]
