"""The flow run that this code is part of."""

from prefect.client.schemas.objects import FlowRun
from prefect.context import FlowRunContext


def this_flow_run() -> FlowRun:
    """Raises RuntimeError outside a flow."""
    context = FlowRunContext.get()
    if context is None or context.flow_run is None:
        raise RuntimeError("this runs inside a flow only")
    return context.flow_run
