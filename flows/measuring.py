"""The load of a run's benchmark is put on the engine that stands, and measured."""

from pathlib import Path

from flows import pages, recruiting
from flows.console import RunConsole
from schemas.built import BuiltEngine
from schemas.summary import GeneratedSummary, MeasuredSummary
from tasks.engine.keeper import EngineKeeper
from tasks.load.step import measure_load
from tasks.session import Session

NOTHING_ASKED = GeneratedSummary(
    requests=0,
    reused=0,
    statuses={},
    failed=0,
    output_tokens=0,
    prompt_tokens=0,
    wall_s=0.0,
    stopped=None,
    warnings=[],
)
"""The generating step of a run that only measures load."""


def measure(
    session: Session,
    engine: EngineKeeper,
    *,
    built: BuiltEngine,
    folder: Path,
    stopped: str | None,
    console: RunConsole,
    warnings: list[str],
) -> MeasuredSummary | None:
    """Measures what the benchmark asks; None where there is none, or generating was stopped before its end."""
    if session.run.experiment.benchmark is None or stopped is not None:
        return None
    with (
        console.step("measure load") as said,
        console.counting(0, what="measuring", unit="cells") as bar,
        pages.Progress(0, what=("load", "cells")) as page,
    ):

        def say(done: int, total: int, text: str) -> None:
            bar(done, text, total)
            page.of(done, total)

        gather = recruiting.gathering(session.run.experiment.benchmark, run_id=session.run.run_id)
        measured = measure_load(session, engine, built=built, folder=folder, say=say, gather=gather)
        counts = ", ".join(f"{n:,} {status}" for status, n in sorted(measured.statuses.items()))
        said.append(f"{measured.cells} cells, {counts or 'nothing left to measure'}")
    warnings += measured.warnings
    return measured


def load_failed(measured: MeasuredSummary | None, *, max_failed: float) -> str | None:
    """Why a run counts as failed for what was measured; None where it does not."""
    if measured is None or measured.failed <= max_failed * measured.requests:
        return None
    return (
        f"{measured.failed:,} of {measured.requests:,} measured requests failed: "
        f"{measured.failed / measured.requests:.1%}, of at most {max_failed:.1%}; "
        '`assay sql "FROM failures"` lists them'
    )
