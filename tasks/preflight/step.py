"""Prefect's view of the preflight."""

from prefect import task
from prefect.cache_policies import NO_CACHE

from schemas.built import BuiltEngine
from tasks.engine.keeper import EngineKeeper
from tasks.preflight import stage
from tasks.preflight.beside import Preflight
from tasks.session import Session


@task(name="examine grammars", cache_policy=NO_CACHE, persist_result=False)
def examine_grammars(session: Session, preflight: Preflight) -> None:
    """See tasks.preflight.stage.examine_grammars."""
    stage.examine_grammars(session, preflight)


@task(name="warm grammars", cache_policy=NO_CACHE, persist_result=False)
def warm_grammars(session: Session, keeper: EngineKeeper, *, built: BuiltEngine) -> BuiltEngine:
    """See tasks.preflight.stage.warm_grammars."""
    return stage.warm_grammars(session, keeper, built=built)
