"""Prefect's view of building the engine and generating."""

from collections.abc import Callable

from prefect import task
from prefect.cache_policies import NO_CACHE

from schemas.built import BuiltEngine
from schemas.plan import DeviceFacts, EnginePlan, ModelFacts
from schemas.summary import GeneratedSummary
from tasks.engine import answering, stage
from tasks.engine.keeper import EngineKeeper
from tasks.generate import Update
from tasks.session import Session


@task(name="build engine", cache_policy=NO_CACHE, persist_result=False)
def build_engine(
    session: Session, engine: EngineKeeper, *, plan: EnginePlan, model: ModelFacts, device: DeviceFacts
) -> BuiltEngine:
    """See tasks.engine.stage.build_engine."""
    return stage.build_engine(session, engine, plan=plan, model=model, device=device)


@task(name="generate and validate", cache_policy=NO_CACHE, persist_result=False)
def generate_answers(
    session: Session,
    engine: EngineKeeper,
    *,
    built: BuiltEngine,
    on_update: Callable[[Update], None],
) -> GeneratedSummary:
    """See tasks.engine.answering.generate_answers."""
    return answering.generate_answers(session, engine, built=built, on_update=on_update)
