"""The main job: one experiment, from its YAML file to a report.

profile -> plan -> build the engine -> generate and validate (free | guided) -> score -> report -> record
"""

import contextlib
import resource
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout
from prefect import flow
from prefect.exceptions import TerminationSignal
from prefect.runtime import flow_run

from flows.console import RunConsole
from flows.runtime import assay_home
from flows.signals import Terminated, keep_sigterm
from schemas.errors import ConfigError, RunError
from schemas.run import RunContext, RunResult, RunStatus
from schemas.summary import GeneratedSummary
from tasks.dataset.step import load_datasets, profile_datasets
from tasks.engine.stage import start_engine
from tasks.engine.step import build_engine, generate_answers
from tasks.model.facts import read_model_facts
from tasks.model.resolve import model_folder
from tasks.plan.device import read_device_facts
from tasks.plan.stage import run_requests
from tasks.plan.step import plan_engine
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
    limit = f", {parameters['limit']} a dataset" if parameters.get("limit") else ""
    return f"{Path(str(parameters.get('config'))).stem}{limit}"


@flow(name="experiment", flow_run_name=_flow_run_name, persist_result=False)
def experiment(
    config: str | None = None,
    overrides: list[str] | None = None,
    limit: int | None = None,
    max_time_s: float | None = None,
    resume: str | None = None,
    quiet: bool = False,
) -> RunResult:
    """Run one experiment.

    Args:
        config: the experiment's name or the path of its YAML file.
        overrides: changes to it, as key=value (engine.prefill.policy=off).
        limit: the most samples of each dataset.
        max_time_s: seconds after which generating stops with what is finished; the run can be resumed.
        resume: the id of an interrupted run to go on with.
        quiet: print nothing but errors.

    Raises ConfigError before the engine starts, EngineError, and RunNotFinished when too many requests failed or the
    time was over.
    """
    keep_sigterm()
    console = RunConsole(quiet=quiet)
    run = open_run(
        home=assay_home(),
        file=config,
        overrides=overrides or [],
        limit=limit,
        max_time_s=max_time_s,
        resume=resume,
        prefect_flow_run_id=flow_run.id,
    )
    session = Session(run)
    console.title(f"{run.experiment.name}  {run.run_id}{'  (resumed)' if run.resumed else ''}")
    warnings: list[str] = []
    with _run_lock(run), _whatever_happens(session, warnings):
        stage.begin(session)
        with console.step("model") as said:
            folder = model_folder(run.experiment.model, cache=session.cache, on_progress=console.warn)
            model = read_model_facts(folder, cache=session.cache)
            device = read_device_facts()
            said.append(f"{run.experiment.model.name}, {model.weights_bytes / 1e6:,.0f} MB of {model.dtype} weights")

        # vLLM's import takes seconds and needs no plan: it runs while the data is read.
        with start_engine(run, device=device) as engine:
            with console.step("load datasets") as said:
                datasets = load_datasets(session, model=model, folder=folder)
                console.datasets(said, datasets)
            with console.step("profile") as said:
                datasets = profile_datasets(session, datasets)
                console.profile(said, datasets)
            with console.step("plan") as said:
                session.requests = run_requests(run.experiment, datasets=datasets, samples=session.samples())
                plan = plan_engine(session, model=model, device=device)
                console.plan(said, plan)
            warnings += [*datasets.warnings, *plan.warnings]
            with console.step("start tracking"):
                mlflow_run_id = _start_tracking(session, warnings)
            with console.step("build engine") as said:
                built = build_engine(session, engine, plan=plan, model=model, device=device)
                console.built(said, built)
            warnings += built.downgrades
            with console.step("generate") as said, console.progress(len(session.requests)) as bar:
                generated = generate_answers(session, engine, built=built, on_update=bar.update)
                console.generated(said, generated)
            warnings += generated.warnings

        with console.step("score") as said:
            scored = score_run(session, datasets)
            said.append(f"{scored.scores:,} scores")
        status, error = verdict(generated, max_failed=run.experiment.max_failed)
        with console.step("report and record"):
            warnings += stage.end(session, status=status, error=error, mlflow_run_id=mlflow_run_id, warnings=warnings)
            figures = write_report(session)
            if mlflow_run_id is not None:
                with _tracking_may_fail(warnings):
                    track(session, mlflow_run_id=mlflow_run_id, status=status, built=built, figures=figures)

    console.results(scored, warnings=list(dict.fromkeys(warnings)))
    result = _result(run, status, error, generated, mlflow_run_id, list(dict.fromkeys(warnings)))
    if status != "finished":
        raise RunNotFinished(result)
    return result


def verdict(generated: GeneratedSummary, *, max_failed: float) -> tuple[RunStatus, str | None]:
    """Whether the run counts as done, and if not, why."""
    if generated.stopped is not None:
        return "cancelled", f"{generated.stopped}: {_answered(generated)} of {generated.requests} requests are answered"
    share = generated.failed / generated.requests
    if share > max_failed:
        return "failed", (
            f"{generated.failed} of {generated.requests} requests failed: {share:.1%}, of at most {max_failed:.1%}; "
            '`assay sql "FROM failures"` lists them'
        )
    return "finished", None


def _answered(generated: GeneratedSummary) -> int:
    return generated.reused + sum(generated.statuses.values())


def _start_tracking(session: Session, warnings: list[str]) -> str | None:
    with _tracking_may_fail(warnings):
        return start_tracking(session)
    return None


@contextlib.contextmanager
def _tracking_may_fail(warnings: list[str]) -> Iterator[None]:
    """MLflow that cannot be written to costs its copy of the run, not the run."""
    try:
        yield
    except mlflow_run.TrackingError as error:
        warnings.append(str(error))


@contextlib.contextmanager
def _run_lock(run: RunContext) -> Iterator[None]:
    """One session of a run at a time: two would answer everything twice. Raises ConfigError if another one runs."""
    lock = FileLock(run.folder / "lock")
    try:
        lock.acquire(blocking=False)
    except Timeout as error:
        raise ConfigError.one(
            f"run {run.run_id} is running in another process", suggestion="wait for it, or end it first"
        ) from error
    try:
        yield
    finally:
        lock.release()


@contextlib.contextmanager
def _whatever_happens(session: Session, warnings: list[str]) -> Iterator[None]:
    """However the run is ended early, its row and its MLflow run say so."""
    try:
        yield
    except BaseException as error:
        cancelled = isinstance(error, KeyboardInterrupt | Terminated | TerminationSignal)
        status: RunStatus = "cancelled" if cancelled else "failed"
        if not isinstance(error, ConfigError):  # what is wrong with the config or the data would be so again
            error.add_note(f"assay run --resume {session.run.run_id}")
        reason = "interrupted" if cancelled else f"{type(error).__name__}: {error}"
        mlflow_run_id = stage.known_mlflow_id(session.run.folder)
        try:
            stage.end(session, status=status, error=reason, mlflow_run_id=mlflow_run_id, warnings=warnings)
        except Exception as second:  # noqa: BLE001 - the first error is the one to report; this one goes with it
            error.add_note(f"how the run ended could not be written either: {second}")
        if mlflow_run_id is not None:
            with contextlib.suppress(mlflow_run.TrackingError):
                mlflow_run.close_run(session.run, mlflow_run_id=mlflow_run_id, status=stage.MLFLOW_STATUS[status])
        raise


def _result(
    run: RunContext,
    status: RunStatus,
    error: str | None,
    generated: GeneratedSummary,
    mlflow_run_id: str | None,
    warnings: list[str],
) -> RunResult:
    return RunResult(
        run_id=run.run_id,
        name=run.experiment.name,
        status=status,
        exit_code=0 if status == "finished" else 1,
        error=error,
        report=run.report_file,
        mlflow_run_id=mlflow_run_id,
        requests=generated.requests,
        failed=generated.failed,
        generate_s=generated.wall_s,
        flow_rss_peak_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        warnings=warnings,
    )
