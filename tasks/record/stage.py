"""The recording steps of a run: its row in the warehouse, its run in MLflow, its compacted files."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from schemas.errors import AssayError
from schemas.run import RunContext, RunStatus
from tasks.config.document import config_hash
from tasks.record import mlflow_run
from tasks.record.rows import run_row
from tasks.record.tracking.build import PREFECT_PAGE
from tasks.session import Session
from warehouse.build import ensure_fresh
from warehouse.parquet import compact_run, remove_superseded
from warehouse.parts import run_ids

KEEP_SUPERSEDED_S = 3600.0
"""A reader that opened the database before a compaction still reads the old files for so long."""
_FEW_RUNS = 200
"""Looking through more runs takes seconds at each run's end: then it is left to the hourly maintenance, or `vacuum`."""
_PREFECT_SERVERS = ("PREFECT_UI_URL", "ASSAY_PREFECT_UI", "ASSAY_PREFECT_API_URL")
_LAST = 2
"""The run's last row comes after the one that its MLflow id may have brought."""


def begin(session: Session) -> None:
    """Writes the run's row, so that it is there whatever happens next."""
    run = session.run
    row = run_row(
        run, status="running", config_hash=config_hash(run.experiment), mlflow_run_id=known_mlflow_id(run.folder)
    )
    session.store.write("runs", [row])
    page = prefect_page(run, os.environ)
    if page is not None:
        (run.folder / PREFECT_PAGE).write_text(page)


def prefect_page(run: RunContext, environment: Mapping[str, str]) -> str | None:
    """The address of the run's page in Prefect; None where it reports to a temporary server, which goes with the run.

    A lasting server's pages are named by PREFECT_UI_URL or ASSAY_PREFECT_UI; else they lie beside the API that
    ASSAY_PREFECT_API_URL names."""
    named = next((environment[name] for name in _PREFECT_SERVERS if environment.get(name)), None)
    if not named or run.prefect_flow_run_id is None:
        return None
    base = named.rstrip("/").removesuffix("/api").rstrip("/")
    return f"{base}/runs/flow-run/{run.prefect_flow_run_id}"


def end(
    session: Session,
    *,
    status: RunStatus,
    error: str | None = None,
    mlflow_run_id: str | None = None,
    warnings: Sequence[str] = (),
) -> list[str]:
    """Writes the run's last row, joins its parts and rebuilds the database file; gives what went wrong with the rest.

    The row is what counts, and it alone raises (OSError where the disk is full): neither a broken file nor a disk that
    fills up afterwards takes a run down at its end. What MLflow is to know of the end goes into the spool at once, so
    that it gets there even if this process does not get any further. What compaction replaced stays for a while, for
    readers."""
    run = session.run
    row = run_row(
        run,
        status=status,
        config_hash=config_hash(run.experiment),
        error=error,
        mlflow_run_id=mlflow_run_id or known_mlflow_id(run.folder),
        warnings=list(dict.fromkeys(warnings)),
        ended=True,
    )
    session.store.write("runs", [row], later=_LAST)
    problems = []
    try:
        mlflow_run.prepare(run.home, run.run_id)
    except AssayError as problem:
        problems.append(str(problem))
    try:
        compact_run(home=run.home, run_id=run.run_id)
        if len(run_ids(home=run.home, table="runs")) <= _FEW_RUNS:
            remove_superseded(run.home, KEEP_SUPERSEDED_S)
        ensure_fresh(run.home)
    except (AssayError, OSError) as problem:
        problems.append(f"the warehouse could not be tidied up: {problem}; `assay vacuum` does it later")
    return problems


def start_tracking(session: Session) -> str:
    """Opens the run in MLflow, or opens it again. Raises TrackingError."""
    return mlflow_run.start_run(session.run.home, session.run.run_id)


def known_mlflow_id(folder: Path) -> str | None:
    """The MLflow run of this run; kept in a file, so that a killed session's is found again."""
    return mlflow_run.known_id(folder)


def track(session: Session, *, figures: Mapping[str, bytes]) -> str:
    """Logs params, metrics, datasets, figures and files, and closes the run in MLflow; gives its id there.

    figures: PNG bytes by name. All else is read from the warehouse, where `end` has written how the run ended. A run
    that MLflow did not take at its beginning is made now. Raises TrackingError."""
    folder = session.run.folder / "figures"
    folder.mkdir(exist_ok=True)
    for name, content in figures.items():
        (folder / f"{name}.png").write_bytes(content)
    return mlflow_run.record_run(session.run)
