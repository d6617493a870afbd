"""Closing runs whose process is gone: after a crash, every hour, and before a new run."""

from pathlib import Path

from flows.events import announce_run
from tasks.record.reconcile import ClosedRun, close_orphans


def close_what_crashed(home: Path) -> list[ClosedRun]:
    """Marks them crashed in the warehouse, closes them in MLflow, and announces each as `assay.run.failed`."""
    closed = close_orphans(home)
    for run in closed:
        announce_run(
            run_id=run.run_id,
            name=run.name,
            status="crashed",
            error="the process of the run ended without a word",
            mlflow_run_id=run.mlflow_run_id,
            prefect_flow_run_id=run.prefect_flow_run_id,
        )
    return closed
