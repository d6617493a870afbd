"""What each engine that was built says of itself, and what its steps add up to."""

from functools import partial

from tasks.report.data import ReportData
from tasks.report.engine import engine_facts, start_line, starts
from tasks.report.sections.section import Section
from tasks.report.steps import work


def section(data: ReportData) -> Section | None:
    """None where no engine was built, or tried."""
    started = [start_line(row) for row in starts(data)]
    if not data.engines and not started:
        return None
    return Section(
        anchor="engine",
        title="Engine",
        template="_engine.html.j2",
        context={
            "engines": data.engines,
            "engine_facts": engine_facts,
            "work": partial(work, data),
            "starts": started,
        },
    )
