"""What happens when a flow's process is found dead. Runs in the worker, which outlived it."""

from prefect import Flow, State
from prefect.client.schemas.objects import FlowRun

from flows.reconcile import close_what_crashed
from flows.runtime import assay_home


def after_crash(flow: Flow[..., object], flow_run: FlowRun, state: State[object]) -> None:
    """Closes the run in the warehouse and in MLflow, and says so to Prefect's event feed."""
    close_what_crashed(assay_home())
