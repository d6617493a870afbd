"""A run's copy in MLflow, as the flow drives it: opened, recorded, closed. Rows and series stay in the warehouse.

MLflow being down, slow or full never stops a run. Everything is written into a spool first (tasks/record/tracking) and
published from there; what could not be published waits for `assay sync` or for the next run.
"""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from schemas.run import RunContext
from tasks.record.tracking import spool, sync
from tasks.record.tracking.build import build_publication
from tasks.record.tracking.errors import TrackingError, TrackingUnreachable
from tasks.record.tracking.store import tracking_uri

__all__ = [
    "TrackingError",
    "TrackingUnreachable",
    "close_run",
    "end_run",
    "is_tracked",
    "known_id",
    "may_fail",
    "prepare",
    "publish_run",
    "record_run",
    "start_run",
    "tracking_uri",
]


def prepare(home: Path, run_id: str) -> None:
    """Puts what MLflow is to know of the run now into the spool, from its rows and files. Raises TrackingError."""
    try:
        spool.keep(home, build_publication(home, run_id))
    except OSError as error:
        raise TrackingError(f"what MLflow is to know of the run could not be written down: {error}") from error


@contextlib.contextmanager
def may_fail(warnings: list[str]) -> Iterator[None]:
    """MLflow that cannot be written to costs its copy of the run, and a warning, not the run."""
    try:
        yield
    except TrackingError as error:
        warnings.append(str(error))


def start_run(home: Path, run_id: str) -> str:
    """Opens the run, or opens it again, within seconds; gives its MLflow id. Raises TrackingError.

    Where that worked, what other runs left in the spool goes along, for some seconds more at most."""
    prepare(home, run_id)
    found = _published(home, run_id, within_s=sync.BEGIN_S)
    sync.sync(home, within_s=sync.OTHERS_S, leave=run_id)
    return found


def record_run(run: RunContext) -> str:
    """Publishes the run as the warehouse and its folder have it now; gives its MLflow id. Raises TrackingError."""
    prepare(run.home, run.run_id)
    return _published(run.home, run.run_id, within_s=sync.END_S)


def is_tracked(run: Mapping[str, Any]) -> bool:
    """Whether what becomes of a recorded run (a row of `runs`) goes to MLflow. An experiment's run that MLflow never
    had was recorded elsewhere; what was scored or imported is brought to it whenever it is written."""
    return run["mlflow_run_id"] is not None or run["flow"] in ("score", "import")


def publish_run(home: Path, run_id: str) -> str:
    """Publishes a run that no flow drives, as its rows and its folder have it now; gives its MLflow id.

    What MLflow does not take stays in the spool. Raises TrackingError."""
    prepare(home, run_id)
    return _published(home, run_id, within_s=sync.END_S)


def end_run(home: Path, run_id: str, *, interrupted: bool) -> None:
    """Publishes how a sweep, an ablation or a tuning ended; one that was interrupted keeps nobody waiting. Raises
    TrackingError."""
    prepare(home, run_id)
    if interrupted:
        close_run(home, run_id)
    else:
        _published(home, run_id, within_s=sync.END_S)


def close_run(home: Path, run_id: str) -> None:
    """Publishes how a run ended that was broken off. Raises TrackingError.

    Its row says how it ended (see tasks.record.stage.end). Where MLflow failed this run before, nobody is kept waiting:
    it stays in the spool."""
    if sync.has_trouble(run_id):
        raise TrackingError("MLflow did not answer before; `assay sync` or the next run brings this run to it")
    _published(home, run_id, within_s=sync.CLOSE_S)


def _published(home: Path, run_id: str, *, within_s: float) -> str:
    """Another process may have been faster in bringing the run from the spool; then its id is on disk."""
    found = sync.send(home, run_id, within_s=within_s) or known_id(home / "runs" / run_id)
    if found is None:
        raise TrackingError(f"run {run_id} is neither in the spool nor in MLflow")
    return found


def known_id(folder: Path) -> str | None:
    """The id of the MLflow run of a run, from its folder; None while MLflow has not answered."""
    file = folder / sync.ID_FILE
    return file.read_text().strip() if file.exists() else None
