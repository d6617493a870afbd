"""How a run ends: whether it counts as done, what its callers are told, and what is written whatever ends it early."""

import contextlib
from collections.abc import Iterator

from filelock import FileLock, Timeout
from prefect.exceptions import TerminationSignal

from flows import measuring, pages
from flows.events import announce
from flows.gates import not_passed
from flows.signals import Terminated
from schemas.errors import ConfigError
from schemas.gate import GateVerdict, gate_exit_code
from schemas.run import RunContext, RunResult, RunStatus
from schemas.summary import GeneratedSummary, JudgedSummary, MeasuredSummary
from tasks.record import mlflow_run, stage
from tasks.record.host import peak_memory_bytes
from tasks.session import Session


def verdict(
    generated: GeneratedSummary,
    *,
    max_failed: float,
    judged: JudgedSummary | None = None,
    measured: MeasuredSummary | None = None,
) -> tuple[RunStatus, str | None]:
    """Whether the run counts as done, and if not, why."""
    if generated.stopped is not None:
        return "cancelled", f"{generated.stopped}: {_answered(generated)} of {generated.requests} requests are answered"
    share = generated.failed / max(1, generated.requests)
    if share > max_failed:
        return "failed", (
            f"{generated.failed} of {generated.requests} requests failed: {share:.1%}, of at most {max_failed:.1%}; "
            '`assay sql "FROM failures"` lists them'
        )
    if judged is not None and judged.failed > max_failed * judged.answers:
        return "failed", (
            f"{judged.failed} of {judged.answers} answers could not be judged: {judged.failed / judged.answers:.1%}, "
            f"of at most {max_failed:.1%}; the table `judgements` says why"
        )
    too_many = measuring.load_failed(measured, max_failed=max_failed)
    return ("finished", None) if too_many is None else ("failed", too_many)


def _answered(generated: GeneratedSummary) -> int:
    return generated.reused + sum(generated.statuses.values())


@contextlib.contextmanager
def run_lock(run: RunContext) -> Iterator[None]:
    """One session of a run at a time: two would answer everything twice. Raises ConfigError if another one runs."""
    lock = FileLock(run.folder / "lock")
    try:
        lock.acquire(timeout=5)  # whoever looks whether it is held holds it for a moment
    except Timeout as error:
        raise ConfigError.one(
            f"run {run.run_id} is running in another process", suggestion="wait for it, or end it first"
        ) from error
    try:
        yield
    finally:
        lock.release()


@contextlib.contextmanager
def whatever_happens(session: Session, warnings: list[str]) -> Iterator[None]:
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
        with contextlib.suppress(mlflow_run.TrackingError):
            mlflow_run.close_run(session.run.home, session.run.run_id)
        announce(session.run, status=status, error=reason, mlflow_run_id=mlflow_run_id)
        if not cancelled:  # a run that is being stopped has seconds; its page says that it was cancelled
            with pages.pages_may_fail(warnings):
                resumable = not isinstance(error, ConfigError)
                pages.write_failure(session.run, reason=reason, mlflow_run_id=mlflow_run_id, resumable=resumable)
        raise


def run_result(
    run: RunContext,
    status: RunStatus,
    error: str | None,
    generated: GeneratedSummary,
    measured: MeasuredSummary | None,
    mlflow_run_id: str | None,
    warnings: list[str],
    gates: list[GateVerdict],
) -> RunResult:
    """How the run ended, as its callers are told."""
    return RunResult(
        run_id=run.run_id,
        name=run.experiment.name,
        status=status,
        exit_code=gate_exit_code(gates) if status == "finished" else 1,
        error=not_passed(gates) if status == "finished" else error,
        report=run.report_file,
        mlflow_run_id=mlflow_run_id,
        requests=generated.requests,
        failed=generated.failed,
        generate_s=generated.wall_s,
        measured=0 if measured is None else measured.requests,
        measured_failed=0 if measured is None else measured.failed,
        flow_rss_peak_bytes=peak_memory_bytes(),
        warnings=warnings,
        gates=gates,
    )
