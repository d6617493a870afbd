"""Prefect's view of the report."""

import base64

from prefect import task
from prefect.artifacts import create_markdown_artifact
from prefect.cache_policies import NO_CACHE

from tasks.record.step import try_artifact
from tasks.report import stage
from tasks.session import Session


@task(name="write report", cache_policy=NO_CACHE, persist_result=False)
def write_report(session: Session) -> dict[str, bytes]:
    """See tasks.report.stage.report_run. The figures become one artifact of the flow run."""
    run = session.run
    path, figures = stage.report_run(home=run.home, run_id=run.run_id, path=run.report_file)
    pictures = "\n\n".join(
        f"![{name}](data:image/png;base64,{base64.b64encode(content).decode()})" for name, content in figures.items()
    )
    try_artifact(
        create_markdown_artifact,
        key="figures",
        markdown=f"Report: `{path}`\n\n{pictures}",
        description=f"The figures of run {run.run_id}",
    )
    return figures
