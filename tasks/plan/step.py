"""Prefect's view of planning."""

from collections.abc import Sequence

from prefect import task
from prefect.artifacts import create_table_artifact
from prefect.cache_policies import NO_CACHE

from schemas.plan import DeviceFacts, EnginePlan, ModelFacts
from schemas.sample import Request
from tasks.plan import stage
from tasks.session import Session


@task(name="plan engine", cache_policy=NO_CACHE, persist_result=False)
def plan_engine(session: Session, *, requests: Sequence[Request], model: ModelFacts, device: DeviceFacts) -> EnginePlan:
    """See tasks.plan.stage.plan_run. The plan becomes an artifact of the flow run and a file in the run's folder."""
    run = session.run
    plan = stage.plan_run(run.experiment, home=run.home, requests=requests, model=model, device=device)
    (session.run.folder / "plan.json").write_text(plan.model_dump_json(indent=2), encoding="utf-8")
    create_table_artifact(
        key="engine-plan",
        table=[
            {"option": o.option, "value": str(o.value), "vLLM's default": str(o.default_value), "reason": o.reason}
            for o in plan.options
        ],
        description=f"How the engine is set for run {session.run.run_id}, and why",
    )
    return plan
