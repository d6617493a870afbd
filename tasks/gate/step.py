"""Prefect's view of the gates."""

from prefect import task
from prefect.artifacts import create_markdown_artifact
from prefect.cache_policies import NO_CACHE

from schemas.gate import GateVerdict
from tasks.gate import stage
from tasks.record.step import try_artifact
from tasks.session import Session


@task(name="gates", cache_policy=NO_CACHE, persist_result=False)
def judge_gates(session: Session) -> list[GateVerdict]:
    """See tasks.gate.stage.judge_gates. What came of them becomes an artifact of the flow run."""
    verdicts = stage.judge_gates(session)
    text = (session.run.folder / stage.MARKDOWN).read_text(encoding="utf-8")
    try_artifact(
        create_markdown_artifact,
        key="gates",
        markdown=text,
        description=f"The gates of run {session.run.run_id}",
    )
    return verdicts
