"""Prefect's view of planning."""

from prefect import task
from prefect.artifacts import create_table_artifact
from prefect.cache_policies import NO_CACHE

from schemas.plan import DeviceFacts, EnginePlan, ModelFacts
from tasks.plan import stage
from tasks.record.step import try_artifact
from tasks.session import Session


@task(name="plan engine", cache_policy=NO_CACHE, persist_result=False)
def plan_engine(session: Session, *, model: ModelFacts, device: DeviceFacts) -> EnginePlan:
    """See tasks.plan.stage.plan_run. The plan becomes an artifact of the flow run and a file in the run's folder."""
    run = session.run
    plan = stage.plan_run(run.experiment, home=run.home, requests=session.requests, model=model, device=device)
    (session.run.folder / "plan.json").write_text(plan.model_dump_json(indent=2), encoding="utf-8")
    try_artifact(
        create_table_artifact,
        key="engine-plan",
        table=[
            {"option": o.option, "value": str(o.value), "vLLM's default": str(o.default_value), "reason": o.reason}
            for o in plan.options
        ],
        description=f"How the engine is set for run {session.run.run_id}, and why",
    )
    return plan
