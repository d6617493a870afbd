"""Where the prompts come from and how long they are."""

from tasks.report.data import ReportData
from tasks.report.profiles import cut_rows, profile_table
from tasks.report.sections.section import Section


def section(data: ReportData) -> Section | None:
    """None where neither a dataset nor a profile was recorded."""
    profiles = profile_table(data)
    if not data.datasets and not profiles:
        return None
    return Section(
        anchor="datasets",
        title="Datasets and profiles",
        short="Datasets",
        template="_datasets.html.j2",
        count=len(data.dataset_names),
        context={"datasets": data.datasets, "profiles": profiles, "cuts": cut_rows(data)},
    )
