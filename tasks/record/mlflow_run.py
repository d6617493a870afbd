"""A run in MLflow: what people compare there. Rows and series stay in the warehouse.

MLflow being down never stops a run: every function raises TrackingError, which the flow turns into a warning.
"""

import contextlib
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock

from schemas.errors import RunError
from schemas.metric import Aggregate
from schemas.run import RunContext

if TYPE_CHECKING:
    from mlflow import MlflowClient

MAX_METRICS = 49
"""MLflow's compare page freezes with many more."""
PARAM_CHARACTERS = 500
"""Longer values are cut, with a mark; the whole config is an artifact."""


class TrackingError(RunError):
    """MLflow could not be written to; the message says why."""


def tracking_uri(home: Path) -> str:
    """The user's MLFLOW_TRACKING_URI, or a SQLite file under ASSAY_HOME."""
    return os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{home / 'mlflow.db'}"


def start_run(run: RunContext, *, mlflow_run_id: str | None, config_hash: str) -> str:
    """Opens the run and gives its id; a resumed run, whose id is given, is opened again."""
    experiment = run.experiment
    with _client(run.home) as client:
        if mlflow_run_id is not None:
            client.update_run(mlflow_run_id, status="RUNNING")
            return mlflow_run_id
        tags = {
            **experiment.tags,
            "mlflow.runName": f"{experiment.name}-{run.run_id}",
            "mlflow.note.content": _note(run),
            "assay.run_id": run.run_id,
            "assay.config_hash": config_hash,
            "assay.model": experiment.model.name,
            "assay.datasets": ", ".join(dataset.name for dataset in experiment.datasets),
            "assay.prefect_flow_run_id": run.prefect_flow_run_id or "none",
            "assay.git_commit": run.git_commit or "none",
            "assay.git_dirty": "unknown" if run.git_dirty is None else str(run.git_dirty).lower(),
        }
        created = client.create_run(
            _experiment_id(client, experiment.name, run.home),
            tags=tags,
            start_time=int(run.started_at.timestamp() * 1000),
        )
        return str(created.info.run_id)


def finish_run(
    run: RunContext,
    *,
    mlflow_run_id: str,
    status: str,
    params: Mapping[str, Any],
    metrics: Mapping[str, float],
    figures: Mapping[str, bytes],
    files: Sequence[Path],
) -> None:
    """Logs everything and closes the run.

    status: FINISHED, FAILED or KILLED. metrics: see `compared_metrics`. figures: PNG bytes by name. files: artifacts;
    one that is not there is left out."""
    from mlflow.entities import Metric, Param  # noqa: PLC0415 - seconds of imports

    now = int(time.time() * 1000)
    with _client(run.home) as client:
        known = client.get_run(mlflow_run_id).data.params
        client.log_batch(
            mlflow_run_id,
            metrics=[Metric(name, value, now, run.revision) for name, value in metrics.items()],
            params=[Param(name, _short(value)) for name, value in params.items() if name not in known],
        )
        folder = run.folder / "figures"
        folder.mkdir(exist_ok=True)
        for name, content in figures.items():
            (folder / f"{name}.png").write_bytes(content)
        if figures:
            client.log_artifacts(mlflow_run_id, str(folder), "figures")
        for path in files:
            if path.exists():
                client.log_artifact(mlflow_run_id, str(path))
        client.set_terminated(mlflow_run_id, status=status)


def close_run(run: RunContext, *, mlflow_run_id: str, status: str) -> None:
    """Closes a run that ended before it could be recorded."""
    with _client(run.home) as client:
        client.set_terminated(mlflow_run_id, status=status)


def compared_metrics(metrics: Sequence[Aggregate]) -> dict[str, float]:
    """The numbers that MLflow gets: quality, form, then the speed that people ask for; at most MAX_METRICS.

    Names are the warehouse's with the arm behind: `arithmetic.exact_match.free`."""
    ranked = [(rank, metric) for metric in metrics if (rank := _rank(metric)) is not None and metric.value is not None]
    chosen: dict[str, float] = {}
    for _, metric in sorted(ranked, key=lambda pair: (pair[0], pair[1].name)):
        name = metric.name if metric.arm is None else f"{metric.name}.{metric.arm}"
        if metric.value is not None:
            chosen.setdefault(name, metric.value)
    return dict(list(chosen.items())[:MAX_METRICS])


_WANTED_FORM = (".form.empirical_coverage", ".form.parse_failures")
_WANTED_TIMES = tuple(f"timing.{name}_ms.p{p}" for name in ("ttft", "tpot", "e2e") for p in (50, 95))


def _rank(metric: Aggregate) -> int | None:
    """What goes first when not everything fits; None for what stays in the warehouse."""
    if metric.name.startswith("timing."):
        return 2 if metric.arm is None or metric.name in _WANTED_TIMES else None
    if ".form." in metric.name:
        return 1 if metric.name.endswith(_WANTED_FORM) else None
    return 0


def _note(run: RunContext) -> str:
    """The run's description in MLflow: where to look next."""
    return (
        f"The report is among the artifacts (`report.html`), and lies at `{run.report_file}`.\n\n"
        f"Every sample and timing: `assay sql \"FROM requests WHERE run_id = '{run.run_id}'\"`, "
        f"what failed: `assay sql \"FROM failures WHERE run_id = '{run.run_id}'\"`.\n\n"
        f"Prefect flow run: `{run.prefect_flow_run_id or 'none'}`"
    )


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= PARAM_CHARACTERS else text[: PARAM_CHARACTERS - 1] + "…"


def _experiment_id(client: "MlflowClient", name: str, home: Path) -> str:
    found = client.get_experiment_by_name(name)
    if found is not None:
        return str(found.experiment_id)
    local = not os.environ.get("MLFLOW_TRACKING_URI")
    location = (home / "mlartifacts" / name).as_uri() if local else None
    return str(client.create_experiment(name, artifact_location=location))


@contextlib.contextmanager
def _client(home: Path) -> "Iterator[MlflowClient]":
    """A client of the store. One process at a time makes a fresh SQLite store: two at once break its migrations."""
    from mlflow import MlflowClient  # noqa: PLC0415 - seconds of imports
    from mlflow.exceptions import MlflowException  # noqa: PLC0415
    from sqlalchemy.exc import SQLAlchemyError  # noqa: PLC0415

    uri = tracking_uri(home)
    home.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(home / "mlflow.lock", timeout=120) if uri.startswith("sqlite") else contextlib.nullcontext():
            client = MlflowClient(tracking_uri=uri)
            client.search_experiments(max_results=1)
        yield client
    except (MlflowException, SQLAlchemyError, OSError) as error:
        raise TrackingError(f"MLflow at {uri}: {error}") from error
