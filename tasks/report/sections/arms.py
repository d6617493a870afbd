"""What guiding changes: paired differences, the samples behind them, and the form of each arm's answers."""

from schemas.arm import FREE_MATCHED
from tasks.report.arms import form_rows, guiding
from tasks.report.data import ReportData
from tasks.report.quality import arm_comparisons
from tasks.report.sections.section import Section


def section(data: ReportData) -> Section | None:
    """None where no two arms were compared and no answer has a form to keep to."""
    compared, form = arm_comparisons(data), form_rows(data)
    if not compared and not form:
        return None
    pairs = list(dict.fromkeys((row["candidate_arm"], row["baseline_arm"]) for row in compared))
    return Section(
        anchor="arms",
        title="Free against guided" if set(pairs) <= {("guided", "free")} else "Arms compared",
        template="_arms.html.j2",
        context={
            "comparisons": compared,
            "form": form,
            "pairs": pairs,
            "pair": data.pair,
            "guiding": guiding(data),
            "matched": FREE_MATCHED in data.arms,
        },
    )
