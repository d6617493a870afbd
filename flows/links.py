"""Addresses of MLflow's pages, where the server that shows them is known."""

import os


def mlflow_run_url(run_id: str) -> str | None:
    """MLflow's page of a run; None where no server's address is known. The page finds the experiment by itself."""
    base = _mlflow()
    return None if base is None else f"{base}/#/runs/{run_id}"


def mlflow_report_url(run_id: str) -> str | None:
    """The report as MLflow shows it among the run's artifacts."""
    base = _mlflow()
    return None if base is None else f"{base}/#/experiments/0/runs/{run_id}/artifacts/report.html"


def _mlflow() -> str | None:
    for variable in ("ASSAY_MLFLOW_UI", "MLFLOW_TRACKING_URI"):
        url = os.environ.get(variable, "")
        if url.startswith(("http://", "https://")):
            return url.rstrip("/")
    return None
