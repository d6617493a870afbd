"""The recording steps of a run: its row in the warehouse, its run in MLflow, its compacted files."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from schemas.built import BuiltEngine
from schemas.errors import AssayError
from schemas.metric import Aggregate
from schemas.run import RunStatus
from tasks.config.document import config_hash
from tasks.record import mlflow_run
from tasks.record.rows import run_row
from tasks.session import Session
from warehouse.build import ensure_fresh
from warehouse.parquet import compact_run, read_rows, remove_superseded

KEEP_SUPERSEDED_S = 3600.0
"""A reader that opened the database before a compaction still reads the old files for so long."""
MLFLOW_STATUS = {"finished": "FINISHED", "failed": "FAILED", "cancelled": "KILLED", "crashed": "KILLED"}


def begin(session: Session) -> None:
    """Writes the run's row, so that it is there whatever happens next."""
    row = run_row(session.run, status="running", config_hash=config_hash(session.run.experiment))
    session.store.write("runs", [row])


def end(
    session: Session,
    *,
    status: RunStatus,
    error: str | None = None,
    mlflow_run_id: str | None = None,
    warnings: Sequence[str] = (),
) -> list[str]:
    """Writes the run's last row, joins its parts and rebuilds the database file; gives what went wrong with the rest.

    The row is what counts: a broken file of another run must not take this one down at its end."""
    row = run_row(
        session.run,
        status=status,
        config_hash=config_hash(session.run.experiment),
        error=error,
        mlflow_run_id=mlflow_run_id,
        warnings=list(dict.fromkeys(warnings)),
        ended=True,
    )
    session.store.write("runs", [row], later=1)
    try:
        compact_run(home=session.run.home, run_id=session.run.run_id)
        remove_superseded(session.run.home, KEEP_SUPERSEDED_S)
        ensure_fresh(session.run.home)
    except AssayError as problem:
        return [f"the warehouse could not be tidied up: {problem}"]
    return []


def start_tracking(session: Session) -> str:
    """Opens the run in MLflow, or opens it again. Raises TrackingError."""
    run = session.run
    rows = read_rows(run.home, "runs", run.run_id, columns=["run_id", "revision", "mlflow_run_id"])
    known = known_mlflow_id(run.folder) or next((row["mlflow_run_id"] for row in rows if row["mlflow_run_id"]), None)
    mlflow_run_id = mlflow_run.start_run(run, mlflow_run_id=known, config_hash=config_hash(run.experiment))
    (run.folder / "mlflow_run_id").write_text(mlflow_run_id)
    return mlflow_run_id


def known_mlflow_id(folder: Path) -> str | None:
    """The MLflow run that a session of this run opened; kept in a file, so that a killed session's is found again."""
    file = folder / "mlflow_run_id"
    return file.read_text().strip() if file.exists() else None


def track(
    session: Session,
    *,
    mlflow_run_id: str,
    status: RunStatus,
    built: BuiltEngine,
    figures: Mapping[str, bytes],
) -> None:
    """Logs params, metrics, figures and files, and closes the run in MLflow. Raises TrackingError."""
    run = session.run
    mlflow_run.finish_run(
        run,
        mlflow_run_id=mlflow_run_id,
        status=MLFLOW_STATUS[status],
        params=tracked_params(session, built),
        metrics=mlflow_run.compared_metrics(stored_metrics(session)),
        figures=figures,
        files=[run.report_file, run.resolved_file, run.engine_log, run.folder / "plan.json"],
    )


def tracked_params(session: Session, built: BuiltEngine) -> dict[str, Any]:
    """The knobs that people compare runs by."""
    experiment = session.run.experiment
    options = {f"engine.{planned.option}": planned.value for planned in built.plan.options}
    sampling = experiment.datasets[0].sampling
    return {
        "model": experiment.model.name,
        "model_fingerprint": built.model.fingerprint[:16],
        "datasets": ", ".join(dataset.name for dataset in experiment.datasets),
        "arms": ", ".join(experiment.arms),
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "seed": sampling.seed,
        "vllm": built.versions.get("vllm"),
        "torch": built.versions.get("torch"),
        "device": built.device.name,
        "engine_id": built.engine_id,
        **options,
    }


def stored_metrics(session: Session) -> Sequence[Aggregate]:
    """The run's aggregates, read back."""
    names = [name for name in Aggregate.__slots__ if name != "details"]
    rows = read_rows(session.run.home, "metrics", session.run.run_id)
    return [Aggregate(**{name: row[name] for name in names}) for row in rows]
