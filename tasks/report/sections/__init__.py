"""The report's sections: one module each, in the order in which the page has them.

A section is a function that looks at a run's data and gives a `Section`, or None where the run has nothing to show for
it. To add one:

1. write `tasks/report/sections/<name>.py` with `def section(data: ReportData) -> Section | None`; what it counts and
   sorts lies in a module of its own if it is more than a few lines;
2. write its template, `tasks/report/_<name>.html.j2`: the inside of the section without its heading. It sees the
   section's `context` and what every section sees (`run`, `run_id`, `figures`, `present`, and the filters of
   `tasks.report.environment`); `_parts.html.j2` has the macros for arms, states, figures, texts and links to samples.
   Whatever a model or a data file can write goes through `| text`;
3. add the function to `SECTIONS` below.

The list of contents, the heading and the anchor follow from the `Section`. A figure is a module of
`tasks.report.figures` with TITLE, `describe`, `table` and `draw`, named in its `KINDS`.
"""

from collections.abc import Callable

from tasks.report.data import ReportData
from tasks.report.sections import (
    arms,
    benchmark,
    datasets,
    engine,
    failures,
    gates,
    grammars,
    latency,
    noise,
    overview,
    plan,
    quality,
    samples,
    slowest,
    sql,
    telemetry,
    terms,
    timeline,
    warnings,
)
from tasks.report.sections.section import Section

SECTIONS: tuple[Callable[[ReportData], Section | None], ...] = (
    overview.section,
    warnings.section,
    gates.section,
    quality.section,
    arms.section,
    benchmark.section,
    noise.section,
    grammars.section,
    samples.section,
    failures.section,
    latency.section,
    timeline.section,
    slowest.section,
    plan.section,
    engine.section,
    telemetry.section,
    datasets.section,
    sql.section,
    terms.section,
)


def sections(data: ReportData) -> list[Section]:
    """The sections that this run has something to show for, in the page's order."""
    return [made for make in SECTIONS if (made := make(data)) is not None]


__all__ = ["SECTIONS", "Section", "sections"]
