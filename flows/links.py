"""Addresses of pages, where the servers that show them are known."""

import os


def mlflow_run_url(run_id: str, *, experiment_id: str | None = None) -> str | None:
    """MLflow's page of a run; None where no server's address is known. The page finds the experiment by itself."""
    base = _base("ASSAY_MLFLOW_UI") or _http(os.environ.get("MLFLOW_TRACKING_URI"))
    return None if base is None else f"{base}/#/experiments/{experiment_id or 0}/runs/{run_id}"


def mlflow_report_url(run_id: str, *, experiment_id: str | None = None) -> str | None:
    """The report as MLflow shows it among the run's artifacts."""
    page = mlflow_run_url(run_id, experiment_id=experiment_id)
    return None if page is None else f"{page}/artifacts/report.html"


def prefect_run_url(flow_run_id: str) -> str | None:
    """Prefect's page of a flow run."""
    base = _base("ASSAY_PREFECT_UI") or _http((os.environ.get("ASSAY_PREFECT_API_URL") or "").removesuffix("/api"))
    return None if base is None else f"{base}/runs/flow-run/{flow_run_id}"


def _base(variable: str) -> str | None:
    return _http(os.environ.get(variable))


def _http(url: str | None) -> str | None:
    return url.rstrip("/") if url and url.startswith(("http://", "https://")) else None
