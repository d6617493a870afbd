"""A tuning: a search over engine options, and its winner held against the plan and vLLM's own defaults."""

from pathlib import Path
from typing import Annotated, Any

from prefect import flow, get_run_logger
from prefect.artifacts import create_table_artifact
from prefect.runtime import flow_run
from pydantic import Field

from flows import pages
from flows.begin import before_it_begins, going_on_with
from flows.cells import cell_runner, recorded
from flows.cells_page import write_page
from flows.console import RunConsole
from flows.context import this_flow_run
from flows.duration import parse_duration
from flows.form import MaxTime, Resume, Tunings
from flows.hooks import after_crash
from flows.runtime import assay_home
from flows.signals import keep_sigterm
from flows.tuning import Start, Tuner
from schemas.errors import ConfigError, RunError
from schemas.tune import Confirmation, Tuned, TuneFile, TuneResult
from tasks.cells.record import CellsRecord, stored_sweep
from tasks.config.resolve import load_experiment
from tasks.record.step import try_artifact
from tasks.tune.answer import tuned
from tasks.tune.confirm import confirm
from tasks.tune.engine_yaml import engine_yaml, write_engine_yaml
from tasks.tune.file import Tuning, load_tuning, overrides
from tasks.tune.rows import trial_rows
from tasks.tune.study import Ended, Search
from tasks.tune.table import trial_table
from warehouse.ids import new_run_id

Trials = Annotated[int, Field(ge=0, le=10_000)]
STUDY, ENGINE = "study.db", "engine.yaml"
"""What a tuning leaves in the folder of its run, beside its report."""


class NothingFeasible(RunError):
    """No setting ran as a whole within the limits; everything is recorded, and `result` has all of it."""

    def __init__(self, result: TuneResult) -> None:
        super().__init__(result.tuned.answer)
        self.result = result


def _flow_run_name() -> str:
    if flow_run.parameters.get("resume"):
        return f"resume {flow_run.parameters['resume']}"
    return Path(str(flow_run.parameters.get("config"))).stem


@flow(name="tune", flow_run_name=_flow_run_name, persist_result=False, on_crashed=[after_crash])
def tune(
    config: Tunings = "quickstart-engine", trials: Trials = 0, time_limit: MaxTime = "", resume: Resume = ""
) -> TuneResult:
    """Search engine options for the best throughput, latency or goodput, and confirm the winner under the full load.

    Args:
        config: The tuning: a name in configs/tunings.
        trials: How many settings are run. 0: as the tuning says.
        time_limit: The time of all trials together after which no further one begins (90s, 15m, 2h). Empty: as the
            tuning says.
        resume: The id of an interrupted tuning to go on with, or last; it may get more trials. Empty: a new one.

    Raises ConfigError before anything runs, and NothingFeasible where no setting ran within the limits.
    """
    keep_sigterm()
    console = RunConsole(log=get_run_logger().info)
    home, warnings = assay_home(), before_it_begins()
    with pages.refusal_explained():
        run_id, asked, began = _asked(
            home, config, trials=trials, time_limit=time_limit, resume=going_on_with(home, resume)
        )
    console.title(f"{asked.name}  {run_id}{'  (resumed)' if began else ''}")
    tuner = Tuner(base=asked.base, tune=asked.file.tune, home=home, console=console)
    with console.step("plan references") as said:
        start = tuner.start()
        said.append(f"{asked.file.tune.trials} trials, {start.samples} samples of the largest dataset in each")
    _check_same(began, start, run_id=run_id, base=asked.base)
    record = CellsRecord(
        home=home,
        run_id=run_id,
        flow="tune",
        name=asked.name,
        config=_config(asked, start),
        tags=asked.file.tags,
        prefect_flow_run_id=str(this_flow_run().id),
        experiment=start.name,
    )
    tuner.known(record)
    with recorded(record, warnings):
        search = Search(record.folder / STUDY, tune=asked.file.tune, samples=start.samples)
        try:
            record.write("trials", trial_rows(search.trials))
            ended, confirmation = _run(search, tuner, asked=asked, start=start, record=record, console=console)
            found = tuned(search, run_id=run_id, name=asked.name, ended=ended, confirmation=confirmation)
        finally:
            search.close()
        rows = trial_rows(found.trials, front=found.front, winner=found.winner, over=True)
        record.write("trials", rows)
        file = _write_engine(record, found, base=asked.base)
        results = sorted(tuner.results.values(), key=lambda each: each.order_index)
        report = write_page(
            record, results=results, title=asked.name, warnings=warnings, made_of=lambda _: {"tuned": found}
        )
    result = TuneResult(
        run_id=run_id,
        name=asked.name,
        status="finished" if found.winner is not None else "failed",
        exit_code=0 if found.winner is not None else 1,
        report=report,
        engine_file=str(file),
        tuned=found,
        warnings=warnings,
    )
    try_artifact(
        create_table_artifact,
        key="tuning",
        table=trial_table(found),
        description=f"Every trial of {asked.name}, tuning {run_id}. {found.answer}",
    )
    if result.exit_code:
        raise NothingFeasible(result)
    return result


def _asked(
    home: Path, config: str, *, trials: int, time_limit: str, resume: str | None
) -> tuple[str, Tuning, dict[str, Any] | None]:
    """The tuning, its id, and what it began with where it is to go on."""
    limit = parse_duration(time_limit) if time_limit else None
    if resume is None:
        return new_run_id(), load_tuning(config, trials=trials or None, time_limit_s=limit), None
    run_id, stored = stored_sweep(home, resume, flow="tune")
    file = TuneFile.model_validate(stored["tuning"])
    changes = {"trials": trials or None, "time_limit_s": limit}
    block = file.tune.model_copy(update={key: value for key, value in changes.items() if value is not None})
    asked = Tuning(
        name=stored["name"],
        base=stored["base"],
        path=Path(stored["path"]),
        file=file.model_copy(update={"tune": block}),
    )
    return run_id, asked, stored


def _check_same(began: dict[str, Any] | None, start: Start, *, run_id: str, base: str) -> None:
    """Raises ConfigError where the experiment, or its data, are others than when the tuning began."""
    if began is not None and (began["experiment"], began["samples"]) != (start.experiment, start.samples):
        raise ConfigError.one(
            f"tuning {run_id} began with another content of the experiment",
            file=Path(base),
            suggestion="put back what it was, or begin a new tuning",
        )


def _config(asked: Tuning, start: Start) -> dict[str, Any]:
    """All that a session which goes on with this tuning must find again."""
    return {
        "path": str(asked.path),
        "base": asked.base,
        "name": asked.name,
        "tuning": asked.file.model_dump(mode="json"),
        "experiment": start.experiment,
        "samples": start.samples,
    }


def _run(
    search: Search, tuner: Tuner, *, asked: Tuning, start: Start, record: CellsRecord, console: RunConsole
) -> tuple[Ended, Confirmation | None]:
    """The search, and the confirmation of what it found where that is not the plan itself."""
    with cell_runner(
        record,
        base=asked.base,
        time_limit_s=asked.file.tune.trial_time_limit_s,
        tags={**asked.file.tags, "tuning": record.run_id},
        room=1,
        console=console,
    ) as runner:
        tuner.use(record, runner)
        ended = search.run(
            tuner.run_trial, references=start.references, identity=tuner.identity, on_trial=tuner.on_trial
        )
        winner = search.winner
        if winner is None or winner.reference == "plan":
            return ended, None
        return ended, confirm(
            search,
            winner,
            lambda settings, side, index: tuner.run_side(winner, settings, side, index),
            references=start.references,
        )


def _write_engine(record: CellsRecord, found: Tuned, *, base: str) -> Path:
    experiment = load_experiment(base, overrides=overrides(found.engine))
    path = record.folder / ENGINE
    write_engine_yaml(path, engine_yaml(found, engine=experiment.vllm, experiment=experiment.name))
    return path
