"""The requests that took longest."""

from tasks.report.data import ReportData
from tasks.report.latency import slowest
from tasks.report.sections.section import Section


def section(data: ReportData) -> Section | None:
    """None where no request was timed."""
    rows = slowest(data)
    if not rows:
        return None
    return Section(
        anchor="slowest",
        title="Slowest requests",
        short="Slowest",
        template="_slowest.html.j2",
        context={"slowest": rows},
    )
