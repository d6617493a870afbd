"""Prefect's view of scoring."""

from prefect import task
from prefect.artifacts import create_table_artifact
from prefect.cache_policies import NO_CACHE

from schemas.summary import DatasetsSummary, ScoredSummary
from tasks.record.step import try_artifact
from tasks.score import stage
from tasks.session import Session


@task(name="score", cache_policy=NO_CACHE, persist_result=False)
def score_run(session: Session, datasets: DatasetsSummary) -> ScoredSummary:
    """See tasks.score.stage.score_run. The results become artifacts of the flow run."""
    summary = stage.score_run(session, datasets)
    run_id = session.run.run_id
    try_artifact(create_table_artifact, key="results", table=summary.headline, description=f"Quality of run {run_id}")
    if summary.verdicts:
        try_artifact(
            create_table_artifact,
            key="free-against-guided",
            table=summary.verdicts,
            description=f"Guided against free on the same samples, run {run_id}: effect = guided - free",
        )
    return summary
