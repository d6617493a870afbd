"""What the run took of the machine, by device, and in words what could not be read."""

from tasks.report.data import ReportData
from tasks.report.sections.section import Section
from tasks.report.usage import peaks, readings, unread


def section(data: ReportData) -> Section | None:
    """None where no request was made and nothing was read."""
    if not data.telemetry and not data.requests:
        return None
    return Section(
        anchor="telemetry",
        title="Telemetry",
        template="_telemetry.html.j2",
        context={"peaks": peaks(data), "readings": readings(data), "unread": unread(data)},
    )
