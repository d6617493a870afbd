"""The main job: one experiment, from its YAML file to a report.

profile -> plan -> build the engine, and beside it examine the grammars -> generate and validate (free | guided) ->
measure load, where there is a benchmark -> judge, where a metric asks for it -> score -> report -> record
"""

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from prefect import flow, get_run_logger
from prefect.runtime import flow_run

from flows import building, early_engine, measuring, pages, recruiting
from flows.begin import before_it_begins, going_on_with
from flows.console import RunConsole
from flows.context import this_flow_run
from flows.duration import parse_duration
from flows.ending import run_lock, run_result, verdict, whatever_happens
from flows.engine_slot import engine_slot
from flows.events import announce, announce_gates
from flows.form import (
    AS_CONFIGURED,
    Arms,
    Config,
    Datasets,
    Graphs,
    Limit,
    MaxTime,
    Model,
    Overrides,
    Prefill,
    Resume,
    form_overrides,
)
from flows.gates import GatesNotPassed, judged_gates
from flows.hooks import after_crash
from flows.runtime import assay_home
from flows.shelf import current
from flows.signals import keep_sigterm
from schemas.built import BuiltEngine
from schemas.errors import AssayError, RunError
from schemas.experiment import Experiment
from schemas.plan import DeviceFacts, ModelFacts
from schemas.run import RunContext, RunResult
from schemas.summary import DatasetsSummary, GeneratedSummary, JudgedSummary, ScoredSummary
from tasks.compare.points import measured_points
from tasks.compare.read import read_recorded
from tasks.dataset.step import load_datasets, profile_datasets
from tasks.engine.keeper import EngineKeeper
from tasks.engine.step import generate_answers
from tasks.gate.check import check_gates
from tasks.generate import Update
from tasks.judge.stage import has_judge, runs_engine
from tasks.judge.step import judge_run
from tasks.model.facts import read_model_facts
from tasks.model.resolve import model_folder
from tasks.plan.context import as_overridden
from tasks.plan.device import read_device_facts
from tasks.plan.stage import run_requests, run_retries
from tasks.plan.step import plan_engine
from tasks.preflight.beside import Preflight
from tasks.record import mlflow_run, stage
from tasks.record.open import open_run
from tasks.record.step import start_tracking, track
from tasks.report.step import write_report
from tasks.score.step import score_run
from tasks.session import Session


class RunNotFinished(RunError):
    """The run came to its end, and everything is recorded, but it does not count as done; `result` says why."""

    def __init__(self, result: RunResult) -> None:
        super().__init__(result.error)
        self.result = result


def _flow_run_name() -> str:
    """A name that says what runs, for Prefect's lists."""
    parameters = flow_run.parameters
    if parameters.get("resume"):
        return f"resume {parameters['resume']}"
    changed = [str(parameters[key]) for key in ("model", "arms") if parameters.get(key, AS_CONFIGURED) != AS_CONFIGURED]
    changed += [f"{parameters['limit']} a dataset"] if parameters.get("limit") else []
    changed += [str(override) for override in parameters.get("overrides") or []]
    return ", ".join([Path(str(parameters.get("config"))).stem, *changed])


@flow(name="experiment", flow_run_name=_flow_run_name, persist_result=False, on_crashed=[after_crash])
def experiment(  # noqa: PLR0913, PLR0917 - the fields of the launch form
    config: Config = "quickstart",
    model: Model = AS_CONFIGURED,
    datasets: Datasets = [],  # noqa: B006 - the form shows it, nothing changes it
    arms: Arms = AS_CONFIGURED,
    limit: Limit = 0,
    graphs: Graphs = AS_CONFIGURED,
    prefill: Prefill = AS_CONFIGURED,
    overrides: Overrides = [],  # noqa: B006
    max_time: MaxTime = "",
    resume: Resume = "",
) -> RunResult:
    """Run one experiment: profile, plan, build the engine, generate and validate, score, report.

    Args:
        config: The experiment: a name in configs/experiments.
        model: Another model than the experiment's own.
        datasets: Only these datasets. None chosen: the experiment's own.
        arms: Answer freely, guided by a grammar, or both on the same samples; free_matched adds free answers of the
            guided ones' length, repair guided ones in place of free ones that are not valid.
        limit: The most samples of each dataset. 0: all of them.
        graphs: CUDA graph mode of the engine. There are none on a CPU.
        prefill: How long prompts are split: by the rule from their lengths, by auto from the mix of lengths, or off.
        overrides: Any other key of the experiment, each as key=value, for example engine.max_num_seqs=64.
        max_time: Stop generating after this time (90s, 15m, 2h) with what is finished. Empty: no bound.
        resume: The id of an interrupted run to go on with, or last. Empty: a new run. All else is then as it began.

    Raises ConfigError before the engine starts, EngineError, RunNotFinished when too many requests failed or the time
    was over, and GatesNotPassed when a gate failed.
    """
    keep_sigterm()
    console = RunConsole(log=get_run_logger().info)
    warnings = before_it_begins()
    with pages.refusal_explained():
        changes = form_overrides(
            model=model, datasets=datasets, arms=arms, graphs=graphs, prefill=prefill, overrides=overrides
        )
        run = _open(config=config, overrides=changes, limit=limit, max_time=max_time, resume=resume)
    session = Session(run)
    console.title(f"{run.experiment.name}  {run.run_id}{'  (resumed)' if run.resumed else ''}")
    with run_lock(run), whatever_happens(session, warnings):
        stage.begin(session)
        folder, facts, device = _model_and_device(session, console)

        # vLLM's import takes seconds and needs no plan: it runs while the data is read.
        warn = _warned(console, warnings)
        with (
            engine_slot(console),
            early_engine.take(session, device=device, warn=warn, note=console.note) as engine,
            Preflight(cache=session.cache) as preflight,
        ):
            with console.step("load datasets") as said:
                loaded = load_datasets(session, model=facts, folder=folder)
                console.datasets(said, loaded)
            with console.step("profile") as said:
                loaded = profile_datasets(session, loaded)
                console.profile(said, loaded)
            with console.step("plan") as said:
                session.requests = run_requests(run.experiment, datasets=loaded, samples=session.samples())
                session.retries = run_retries(run.experiment, datasets=loaded, samples=session.samples())
                plan = plan_engine(session, model=facts, device=device)
                console.plan(said, plan)
            building.begin_preflight(session, preflight, plan=plan, model=facts, loaded=loaded)
            warnings += [*loaded.warnings, *plan.warnings]
            with console.step("start tracking"):
                mlflow_run_id = _start_tracking(session, warnings)
            built = building.build(
                session, engine, preflight, plan=plan, model=facts, device=device, console=console, warnings=warnings
            )
            generated = _generate(session, engine, built=built, console=console, warnings=warnings)
            measured = measuring.measure(
                session,
                engine,
                built=built,
                folder=folder,
                stopped=generated.stopped,
                console=console,
                warnings=warnings,
            )

        status, error = verdict(
            generated,
            max_failed=run.experiment.max_failed,
            judged=_judge(session, loaded, console, warnings),
            measured=measured,
        )
        scored = _score(session, loaded, console, warnings)
        gates = judged_gates(session, console, warnings) if status == "finished" else []
        with console.step("report and record"):
            warnings += stage.end(session, status=status, error=error, mlflow_run_id=mlflow_run_id, warnings=warnings)
            figures = write_report(session)
            with mlflow_run.may_fail(warnings):
                mlflow_run_id = track(session, figures=figures)
            warnings += _pushed(run)
            result = run_result(
                run, status, error, generated, measured, mlflow_run_id, list(dict.fromkeys(warnings)), gates
            )
            _tell_prefect(run, result, scored)

    console.results(scored, warnings=list(dict.fromkeys(warnings)), gates=gates)
    if measured is not None:
        console.load(measured_points(read_recorded(run.home, run.run_id)))
    if result.exit_code:
        raise (RunNotFinished if status != "finished" else GatesNotPassed)(result)
    return result


def _open(*, config: str, overrides: list[str], limit: int, max_time: str, resume: str) -> RunContext:
    """A new run, or the one to go on with: the one that is named, or, on Prefect's Retry, the one that this flow run
    had begun."""
    home, this, shelf = assay_home(), this_flow_run(), current()
    going_on = going_on_with(home, resume)
    run = open_run(
        home=home,
        file=None if going_on else config,
        overrides=[] if going_on else overrides,
        limit=limit or None,
        max_time_s=parse_duration(max_time) if max_time else None,
        resume=going_on,
        prefect_flow_run_id=str(this.id),
        cell=None if shelf is None else shelf.cell,
    )
    if shelf is not None and shelf.cell is not None:
        shelf.run_id = run.run_id
        shelf.begun(run.run_id)
    check_gates(home, run.experiment)
    recruiting.check_hosts(run.experiment.benchmark)
    return run


def _model_and_device(session: Session, console: RunConsole) -> tuple[Path, ModelFacts, DeviceFacts]:
    with console.step("model") as said:
        model = session.run.experiment.model
        folder = model_folder(model, cache=session.cache, on_progress=console.warn)
        facts = read_model_facts(folder, cache=session.cache)
        said.append(f"{model.name}, {facts.weights_bytes / 1e6:,.0f} MB of {facts.dtype} weights")
    engine = session.run.experiment.vllm
    return folder, as_overridden(facts, engine), read_device_facts(python=engine.python)


def _warned(console: RunConsole, warnings: list[str]) -> Callable[[str], None]:
    """Says what happened to an engine at once, and keeps it for the run's warnings."""

    def say(text: str) -> None:
        console.warn(text)
        warnings.append(text)

    return say


def _pushed(run: RunContext) -> list[str]:
    """Copies the run's rows to the storage that ASSAY_PUSH names. What could not be copied now goes with the next
    hourly maintenance."""
    url = os.environ.get("ASSAY_PUSH")
    if not url:
        return []
    from warehouse.push import push_run  # noqa: PLC0415 - loads an S3 client, which few runs need

    try:
        push_run(home=run.home, run_id=run.run_id, url=url)
    except AssayError as error:
        return [f"the rows were not copied to {url}: {error}"]
    return []


@contextlib.contextmanager
def _progress(console: RunConsole, session: Session) -> Iterator[Callable[[Update], None]]:
    """How far generating is, on the console and on Prefect's page."""
    total = len(session.requests)
    with console.progress(total) as bar, pages.Progress(total) as page:

        def update(update: Update) -> None:
            bar.update(update)
            page.update(update)

        yield update


def _tell_prefect(run: RunContext, result: RunResult, scored: ScoredSummary) -> None:
    """The result's pages, and the event that automations wait for."""
    with pages.pages_may_fail(result.warnings):
        pages.write_result(run, result, scored)
    announce(run, status=result.status, error=result.error, mlflow_run_id=result.mlflow_run_id)
    announce_gates(run, gates=result.gates, error=result.error, mlflow_run_id=result.mlflow_run_id)


def _generate(
    session: Session, engine: EngineKeeper, *, built: BuiltEngine, console: RunConsole, warnings: list[str]
) -> GeneratedSummary:
    if only_load(session.run.experiment):
        return measuring.NOTHING_ASKED
    with console.step("generate") as said, _progress(console, session) as on_update:
        generated = generate_answers(session, engine, built=built, on_update=on_update)
        console.generated(said, generated)
    warnings += generated.warnings
    return generated


def only_load(experiment: Experiment) -> bool:
    """Whether the run answers nothing before it measures load."""
    benchmark = experiment.benchmark
    return benchmark is not None and (benchmark.alone or not experiment.datasets)


def _judge(session: Session, loaded: DatasetsSummary, console: RunConsole, warnings: list[str]) -> JudgedSummary | None:
    """Has the answers judged, where a metric asks for it. A judge that assay runs waits for the slot of engines."""
    experiment = session.run.experiment
    if not has_judge(experiment) or only_load(experiment):
        return None
    slot = engine_slot(console) if runs_engine(experiment) else contextlib.nullcontext()
    with slot, console.step("judge") as said, console.progress(0, what="judging") as bar:
        judged = judge_run(session, loaded, on_update=bar.update)
        console.judged(said, judged)
    warnings += judged.warnings
    return judged


def _score(session: Session, loaded: DatasetsSummary, console: RunConsole, warnings: list[str]) -> ScoredSummary:
    if only_load(session.run.experiment):
        return ScoredSummary(scores=0, headline=[], verdicts=[])
    with console.step("score") as said:
        scored = score_run(session, loaded)
        said.append(f"{scored.scores:,} scores")
    warnings += scored.warnings
    return scored


def _start_tracking(session: Session, warnings: list[str]) -> str | None:
    with mlflow_run.may_fail(warnings):
        return start_tracking(session)
    return None
