"""The run over its time: its phases, requests in flight, tokens per second, and where the engine's start went."""

from tasks.report.data import ReportData
from tasks.report.sections.section import Section
from tasks.report.timeline import phases
from tasks.report.usage import totals


def section(data: ReportData) -> Section | None:
    """None where neither a phase nor a request was timed."""
    found, sums = phases(data), totals(data)
    if not found and not sums:
        return None
    return Section(
        anchor="timeline",
        title="Time line",
        template="_timeline.html.j2",
        context={"phases": found, "totals": sums},
    )
