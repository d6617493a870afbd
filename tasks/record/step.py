"""Prefect's view of recording."""

from collections.abc import Callable
from typing import Any

import httpx
from prefect import get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.exceptions import PrefectException

from tasks.record import stage
from tasks.session import Session


def try_artifact(create: Callable[..., Any], **arguments: Any) -> None:
    """Makes an artifact of the flow run. It is a copy for people: a server that does not take it costs no run."""
    try:
        create(**arguments)
    except (httpx.HTTPError, PrefectException) as error:
        get_run_logger().warning("the artifact %s could not be stored: %s", arguments.get("key"), error)


@task(name="start tracking", cache_policy=NO_CACHE, persist_result=False)
def start_tracking(session: Session) -> str:
    """See tasks.record.stage.start_tracking."""
    return stage.start_tracking(session)


@task(name="record in MLflow", cache_policy=NO_CACHE, persist_result=False)
def track(session: Session, *, figures: dict[str, bytes]) -> str:
    """See tasks.record.stage.track."""
    return stage.track(session, figures=figures)
