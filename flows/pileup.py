"""Schedules that piled up while no worker was there: the first run that starts stands for all of them."""

import contextlib
import datetime
from uuid import UUID

import httpx
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import (
    DeploymentFilter,
    DeploymentFilterId,
    FlowRunFilter,
    FlowRunFilterExpectedStartTime,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.client.schemas.sorting import FlowRunSort
from prefect.exceptions import PrefectException
from prefect.states import Cancelled

_PAGE = 200


def stand_for_the_others(run: FlowRun) -> int:
    """Cancels every other run of this deployment that its schedule made, with the same parameters, and that is due
    by now; gives how many. A run that a person launched, or launched again by Retry, stands for itself only, and is
    never cancelled. A server that does not do as it is told costs that, not the run."""
    if run.deployment_id is None:
        return 0
    cancelled = 0
    with contextlib.suppress(PrefectException, httpx.HTTPError), get_client(sync_client=True) as client:
        for other in _due(client, run.deployment_id):
            if not stands_for(run, other):
                continue
            message = f"due while no worker was free: the run {run.name} stands for it"
            client.set_flow_run_state(other.id, Cancelled(message=message), force=True)
            cancelled += 1
    return cancelled


def stands_for(run: FlowRun, other: FlowRun) -> bool:
    """Whether the run, which has begun, does what the other, which is due, would do."""
    if other.id == run.id or not (run.auto_scheduled and other.auto_scheduled):
        return False
    if run.run_count > 1 or other.run_count > 0:
        return False  # one that has run before is being retried: it goes on with what it had begun
    return other.parameters == run.parameters


def _due(client: SyncPrefectClient, deployment_id: UUID) -> list[FlowRun]:
    """All that should have begun by now: after a long time off there are more than the server gives at once."""
    found: list[FlowRun] = []
    now = datetime.datetime.now(datetime.UTC)
    while len(found) % _PAGE == 0:
        page = client.read_flow_runs(
            deployment_filter=DeploymentFilter(id=DeploymentFilterId(any_=[deployment_id])),
            flow_run_filter=FlowRunFilter(
                state=FlowRunFilterState(type=FlowRunFilterStateType(any_=[StateType.SCHEDULED])),
                expected_start_time=FlowRunFilterExpectedStartTime(before_=now),
            ),
            sort=FlowRunSort.EXPECTED_START_TIME_ASC,
            limit=_PAGE,
            offset=len(found),
        )
        if not page:
            break
        found += page
    return found
