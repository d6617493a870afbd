"""The automations and the piled-up runs as Prefect's own rules see them; `tests/e2e/test_up.py` has them at work."""

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from prefect.client.schemas.objects import FlowRun

from flows.automations import FLOWS, wanted
from flows.pileup import stands_for

ROOT = Path(__file__).resolve().parents[3]


NAMES = {"parameters": {"config": "quickstart"}, "auto_scheduled": True}


def scheduled(**changed: Any) -> FlowRun:
    return FlowRun.model_validate({"flow_id": uuid4(), "run_count": 0, **NAMES, **changed})


@pytest.mark.parametrize(
    ("run", "other", "expected"),
    [
        ({}, {}, True),
        ({}, {"parameters": {"config": "mine"}}, False),
        ({}, {"auto_scheduled": False}, False),
        ({"auto_scheduled": False}, {}, False),
        ({}, {"run_count": 1}, False),  # somebody clicked Retry on an earlier one
        ({"run_count": 2}, {}, False),  # a retry of last night's run is not tonight's
    ],
)
def test_whom_a_run_stands_for(run: dict[str, Any], other: dict[str, Any], expected: bool) -> None:
    assert stands_for(scheduled(**{"run_count": 1, **run}), scheduled(**other)) is expected


def test_a_run_does_not_stand_for_itself() -> None:
    run = scheduled(run_count=0)
    assert not stands_for(run, run)


def test_only_assays_own_flows_are_watched() -> None:
    from prefect.server.events.schemas.automations import EventTrigger
    from prefect.server.events.schemas.events import ReceivedEvent

    silent, unbegun, _ = wanted(maintain_id=uuid4())
    for automation, happened in ((silent, "prefect.flow-run.heartbeat"), (unbegun, "prefect.flow-run.Running")):
        trigger = EventTrigger.model_validate(automation.trigger.model_dump())
        seen = {
            name: trigger.covers(
                ReceivedEvent(
                    id=uuid4(),
                    occurred=datetime.now(UTC),
                    event=happened,
                    resource={"prefect.resource.id": f"prefect.flow-run.{uuid4()}"},
                    related=[
                        {
                            "prefect.resource.id": f"prefect.flow.{uuid4()}",
                            "prefect.resource.role": "flow",
                            "prefect.resource.name": name,
                        }
                    ],
                )
            )
            for name in ("experiment", "maintain", "somebody-elses")
        }
        assert seen == {"experiment": True, "maintain": True, "somebody-elses": False}, automation.name


def test_every_flow_is_watched() -> None:
    named = [re.findall(r'^@flow\(name="([^"]+)"', path.read_text(), re.M) for path in (ROOT / "flows").glob("*.py")]
    assert sorted(name for names in named for name in names) == sorted(FLOWS)
