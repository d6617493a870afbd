"""Prefect's view of scoring."""

from prefect import task
from prefect.cache_policies import NO_CACHE

from schemas.summary import DatasetsSummary, ScoredSummary
from tasks.score import stage
from tasks.session import Session


@task(name="score", cache_policy=NO_CACHE, persist_result=False)
def score_run(session: Session, datasets: DatasetsSummary) -> ScoredSummary:
    """See tasks.score.stage.score_run."""
    return stage.score_run(session, datasets)
