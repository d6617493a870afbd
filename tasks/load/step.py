"""Prefect's view of measuring load."""

from pathlib import Path

from prefect import task
from prefect.cache_policies import NO_CACHE

from schemas.built import BuiltEngine
from schemas.summary import MeasuredSummary
from tasks.engine.keeper import EngineKeeper
from tasks.load import stage
from tasks.session import Session


@task(name="measure load", cache_policy=NO_CACHE, persist_result=False)
def measure_load(
    session: Session,
    engine: EngineKeeper,
    *,
    built: BuiltEngine,
    folder: Path,
    say: stage.Say,
    gather: stage.Gather | None = None,
) -> MeasuredSummary:
    """See tasks.load.stage.measure_load."""
    return stage.measure_load(session, engine, built=built, folder=folder, say=say, gather=gather)
