"""The automations that assay's server carries: they find runs that died without a word, and tidy up behind them."""

from datetime import timedelta
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient
from prefect.events.actions import ChangeFlowRunState, RunDeployment
from prefect.events.schemas.automations import AutomationCore, EventTrigger, Posture
from prefect.events.schemas.events import ResourceSpecification
from prefect.states import StateType

SILENT_FOR = timedelta(seconds=75)
"""A flow sends a heartbeat every 30 s: two missed ones, and 15 s for the news to travel."""
PENDING_FOR = timedelta(minutes=5)
"""From being taken by a worker to the flow's first line; seconds, unless the worker is gone."""

FLOWS = ["experiment", "bench", "client", "compare", "noise", "sweep", "ablate", "tune", "grammars", "maintain"]
"""Only these are watched: the server may be one that other people's flows use, with their own idea of silence."""

_RUNS = {"prefect.resource.id": "prefect.flow-run.*"}
_ENDED = {f"prefect.flow-run.{state}" for state in ("Completed", "Failed", "Cancelled", "Crashed", "Paused")}
_AGAIN = {f"prefect.flow-run.{state}" for state in ("AwaitingRetry", "Scheduled", "Late", "Cancelling")}


def wanted(*, maintain_id: UUID) -> list[AutomationCore]:
    """All of them. maintain_id: the deployment that closes what a crashed run left open."""
    return [
        AutomationCore(
            name="assay: a run that fell silent has crashed",
            description="Its flow sent no heartbeat for over a minute: its process, its worker or its host is gone.",
            trigger=_expect("prefect.flow-run.heartbeat", {"prefect.flow-run.heartbeat", *_ENDED}, SILENT_FOR),
            actions=[_crashed("no sign of life for 75 s: the flow's process, its worker or its host is gone")],
        ),
        AutomationCore(
            name="assay: a run that never began has crashed",
            description="A worker took it and did not start it: the worker or its host is gone.",
            trigger=_expect("prefect.flow-run.Pending", {"prefect.flow-run.Running", *_ENDED, *_AGAIN}, PENDING_FOR),
            actions=[_crashed("taken by a worker five minutes ago and not begun: the worker or its host is gone")],
        ),
        AutomationCore(
            name="assay: after a crash, close what it left",
            description="Writes `crashed` to the warehouse and closes MLflow's run; the run can then be resumed.",
            trigger=EventTrigger(
                posture=Posture.Reactive,
                expect={"prefect.flow-run.Crashed"},
                match=ResourceSpecification.model_validate(_RUNS),
                match_related=ResourceSpecification.model_validate(
                    {"prefect.resource.role": "flow", "prefect.resource.name": "experiment"}
                ),
                threshold=1,
                within=timedelta(0),
            ),
            actions=[
                RunDeployment(
                    source="selected",
                    deployment_id=maintain_id,
                    parameters={"only": "after a crash"},
                )
            ],
        ),
    ]


def install(client: SyncPrefectClient, *, maintain_id: UUID) -> list[str]:
    """Creates them, or brings those of the same name up to date; whether one is switched off stays as it is."""
    names = []
    for automation in wanted(maintain_id=maintain_id):
        before = client.read_automations_by_name(automation.name)
        if before:
            automation.enabled = before[0].enabled
            client.update_automation(before[0].id, automation)
        else:
            client.create_automation(automation)
        names.append(automation.name)
    return names


def _expect(after: str, expect: set[str], within: timedelta) -> EventTrigger:
    return EventTrigger(
        posture=Posture.Proactive,
        after={after},
        expect=expect,
        match=ResourceSpecification.model_validate(_RUNS),
        match_related=ResourceSpecification.model_validate(
            {"prefect.resource.role": "flow", "prefect.resource.name": FLOWS}
        ),
        for_each={"prefect.resource.id"},
        threshold=1,
        within=within,
    )


def _crashed(message: str) -> ChangeFlowRunState:
    return ChangeFlowRunState(name="Crashed", state=StateType.CRASHED, message=message)


__all__ = ["install", "wanted"]
