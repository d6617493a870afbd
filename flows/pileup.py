"""Schedules that piled up while no worker was there: the first run that starts stands for all of them."""

import datetime

from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import (
    DeploymentFilter,
    DeploymentFilterId,
    FlowRunFilter,
    FlowRunFilterExpectedStartTime,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.states import Cancelled

_PAGE = 200


def stand_for_the_others(run: FlowRun) -> int:
    """Cancels every other run of this deployment that its schedule made, with the same parameters, and that is due
    by now; gives how many. A run that a person launched stands for itself only, and is never cancelled."""
    if run.deployment_id is None or not run.auto_scheduled:
        return 0
    cancelled = 0
    with get_client(sync_client=True) as client:
        due = client.read_flow_runs(
            deployment_filter=DeploymentFilter(id=DeploymentFilterId(any_=[run.deployment_id])),
            flow_run_filter=FlowRunFilter(
                state=FlowRunFilterState(type=FlowRunFilterStateType(any_=[StateType.SCHEDULED])),
                expected_start_time=FlowRunFilterExpectedStartTime(before_=datetime.datetime.now(datetime.UTC)),
            ),
            limit=_PAGE,
        )
        for other in due:
            if other.id == run.id or not other.auto_scheduled or other.parameters != run.parameters:
                continue
            message = f"due while no worker was free: the run {run.name} stands for it"
            client.set_flow_run_state(other.id, Cancelled(message=message), force=True)
            cancelled += 1
    return cancelled
