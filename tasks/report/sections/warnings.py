"""What a reader must know before trusting a number."""

from tasks.report.alerts import alerts
from tasks.report.data import ReportData
from tasks.report.sections.section import Section


def section(data: ReportData) -> Section:
    """Always there: that there is no warning is worth a line too."""
    found = alerts(data)
    return Section(
        anchor="warnings", title="Warnings", template="_warnings.html.j2", count=len(found), context={"alerts": found}
    )
