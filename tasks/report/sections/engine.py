"""What each engine that was built says of itself."""

from tasks.report.data import ReportData
from tasks.report.engine import engine_facts
from tasks.report.sections.section import Section


def section(data: ReportData) -> Section | None:
    """None where no engine was built."""
    if not data.engines:
        return None
    return Section(
        anchor="engine",
        title="Engine",
        template="_engine.html.j2",
        context={"engines": data.engines, "engine_facts": engine_facts},
    )
