"""What ran, on what, and in one look what came of it."""

from tasks.report import header
from tasks.report.data import ReportData
from tasks.report.links import links
from tasks.report.sections.section import Section


def section(data: ReportData) -> Section:
    """Always there."""
    sentence, reasons = header.verdict(data)
    length, ended = header.duration(data)
    return Section(
        anchor="top",
        title="Overview",
        template="_overview.html.j2",
        frame="header",
        context={
            "model": header.model_name(data),
            "device": header.device(data),
            "versions": header.versions(data),
            "sentence": sentence,
            "reasons": reasons,
            "duration": length,
            "ended": ended,
            "tally": header.tally(data),
            "measured": header.measured_tally(data),
            "datasets": data.datasets,
            "arms": header.all_arms(data),
            "links": links(data.run),
        },
    )
