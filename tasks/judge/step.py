"""Prefect's view of judging."""

from collections.abc import Callable

from prefect import task
from prefect.cache_policies import NO_CACHE

from schemas.summary import DatasetsSummary, JudgedSummary
from tasks.generate import Update
from tasks.judge import stage
from tasks.session import Session


@task(name="judge", cache_policy=NO_CACHE, persist_result=False)
def judge_run(session: Session, datasets: DatasetsSummary, *, on_update: Callable[[Update], None]) -> JudgedSummary:
    """See tasks.judge.stage.judge_run."""
    return stage.judge_run(session, datasets, on_update=on_update)
