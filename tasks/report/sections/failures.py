"""Every request that did not end well, with its reason."""

from tasks.report.data import ReportData
from tasks.report.samples import MOST_FAILURES, failure_counts, failures
from tasks.report.sections.section import Section


def section(data: ReportData) -> Section | None:
    """None where no request was made."""
    if not data.requests:
        return None
    rows = failures(data)
    return Section(
        anchor="failures",
        title="Requests that did not end well",
        short="Not ok",
        template="_failures.html.j2",
        count=len(rows),
        context={
            "failures": rows[:MOST_FAILURES],
            "failure_count": len(rows),
            "failure_counts": failure_counts(data),
        },
    )
