"""Prefect's view of loading and profiling."""

from pathlib import Path

from prefect import task
from prefect.cache_policies import NO_CACHE

from schemas.plan import ModelFacts
from schemas.summary import DatasetsSummary
from tasks.dataset import stage
from tasks.session import Session


@task(name="load datasets", cache_policy=NO_CACHE, persist_result=False)
def load_datasets(session: Session, *, model: ModelFacts, folder: Path) -> DatasetsSummary:
    """See tasks.dataset.stage.load_datasets."""
    return stage.load_datasets(session, model=model, folder=folder)


@task(name="profile datasets", cache_policy=NO_CACHE, persist_result=False)
def profile_datasets(session: Session, datasets: DatasetsSummary) -> DatasetsSummary:
    """See tasks.dataset.stage.profile_datasets."""
    return stage.profile_datasets(session, datasets)
