"""What the page's words mean."""

from tasks.report.data import ReportData
from tasks.report.sections.section import Section


def section(data: ReportData) -> Section:
    """Always there."""
    return Section(anchor="terms", title="Terms", template="_terms.html.j2", frame="footer", context={})
