"""How good the answers are, by dataset, metric and arm."""

from tasks.report.data import ReportData
from tasks.report.quality import quality_rows
from tasks.report.sections.section import Section


def section(data: ReportData) -> Section | None:
    """None where nothing was scored."""
    rows = quality_rows(data)
    if not rows:
        return None
    return Section(anchor="quality", title="Quality", template="_quality.html.j2", context={"quality": rows})
