"""Closing runs whose process is gone: after a crash, every hour, and before a new run."""

import contextlib
from pathlib import Path
from uuid import UUID

import httpx
from prefect.client.orchestration import get_client
from prefect.exceptions import PrefectException
from prefect.states import Crashed

from flows.events import announce_run
from tasks.record.reconcile import ClosedRun, close_orphans


def close_what_crashed(home: Path, *, own: UUID | None = None) -> list[ClosedRun]:
    """Marks them crashed in the warehouse and at Prefect, closes them in MLflow, and announces each as
    `assay.run.failed`. own: the flow run that asks; a retried one may be going on with a run that crashed."""
    closed = close_orphans(home)
    for run in closed:
        if run.prefect_flow_run_id is not None and run.prefect_flow_run_id != str(own):
            _close_flow_run(UUID(run.prefect_flow_run_id))
        announce_run(
            run_id=run.run_id,
            name=run.name,
            status="crashed",
            error="the process of the run ended without a word",
            mlflow_run_id=run.mlflow_run_id,
            prefect_flow_run_id=run.prefect_flow_run_id,
        )
    return closed


def _close_flow_run(flow_run_id: UUID) -> None:
    """A run that had a server of its own took that with it: nobody else would ever say that it is over. A server that
    does not know the flow run, or cannot be reached, keeps what it has."""
    with contextlib.suppress(PrefectException, httpx.HTTPError), get_client(sync_client=True) as client:
        flow_run = client.read_flow_run(flow_run_id)
        if flow_run.state is not None and not flow_run.state.is_final():
            message = "its process ended without a word; what was answered is kept"
            client.set_flow_run_state(flow_run_id, Crashed(message=message), force=True)
