"""What every flow that runs experiments does before it begins, and which run it goes on with."""

from pathlib import Path

from flows.context import this_flow_run
from flows.pileup import stand_for_the_others
from flows.reconcile import close_what_crashed
from flows.runtime import assay_home
from schemas.errors import AssayError
from tasks.record.open import begun_by


def before_it_begins() -> list[str]:
    """What other runs left: those that crashed are closed, those that piled up are stood for. Gives what to say."""
    said = []
    try:
        close_what_crashed(assay_home(), own=this_flow_run().id)
    except (AssayError, OSError) as error:
        said.append(f"runs that crashed could not be closed: {error}")
    others = stand_for_the_others(this_flow_run())
    if others:
        said.append(f"{others} scheduled runs were due while no worker was free; this run stands for them")
    return said


def going_on_with(home: Path, resume: str) -> str | None:
    """The run to go on with: the one that is named, or, on Prefect's Retry, the one that this flow run had begun; None
    for a new one."""
    this = this_flow_run()
    if resume or this.run_count <= 1:
        return resume or None
    return begun_by(home, prefect_flow_run_id=str(this.id))
