"""The questions to ask next, in SQL."""

from tasks.report.data import ReportData
from tasks.report.queries import queries
from tasks.report.sections.section import Section


def section(data: ReportData) -> Section:
    """Always there."""
    return Section(anchor="sql", title="Ask in SQL", template="_sql.html.j2", context={"queries": queries(data)})
