"""How fast the answers came: distributions, and by length of the prompt."""

from tasks.report.data import ReportData
from tasks.report.latency import by_arm, by_bucket
from tasks.report.sections.section import Section


def section(data: ReportData) -> Section | None:
    """None where no request was timed."""
    times = by_arm(data)
    if not times:
        return None
    return Section(
        anchor="latency",
        title="Latency",
        template="_latency.html.j2",
        context={"times": times, "buckets": by_bucket(data)},
    )
