"""Every sample with its answers: the list, the filters, and the texts packed into the page."""

from tasks.report.data import ReportData
from tasks.report.payload import pack
from tasks.report.quality import plain_metric
from tasks.report.sections.section import Section

STATUSES = ("ok", "invalid", "truncated", "refused", "error", "cancelled")


def section(data: ReportData) -> Section | None:
    """None where no sample was recorded."""
    if not data.samples:
        return None
    packed = pack(data)
    return Section(
        anchor="samples",
        title="Samples",
        template="_samples.html.j2",
        count=len(data.samples),
        data={"sample-index": packed.index, **{f"sample-texts-{n}": chunk for n, chunk in enumerate(packed.chunks)}},
        context={
            "shortened": packed.shortened,
            "answered": bool(data.requests) or not data.measured,
            "dataset_names": data.dataset_names,
            "arms": data.arms,
            "pair": data.pair,
            "statuses": STATUSES,
            "metrics": [(name, plain_metric(name)) for name in packed.metrics],
            "sample_count": len(data.samples),
        },
    )
