"""A comparison of two runs as one page that needs nothing outside itself and runs no script: the report's style."""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from jinja2 import Environment
from markupsafe import Markup

from tasks.compare import words
from tasks.compare.flips import TEXTS
from tasks.compare.model import Answer, Flip, Result, RunComparison
from tasks.report.data import ReportData
from tasks.report.environment import HERE, environment
from tasks.report.figures.style import (
    BAD,
    GOOD,
    INK,
    MUTED,
    Table,
    bare,
    cell,
    drawing,
    new_figure,
    to_svg,
)
from tasks.report.numbers import is_number, missing
from tasks.report.sections.section import Section
from tasks.report.text import plain, shortened, visible
from warehouse.schema.table import literal

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_STYLES = ("report.css", "samples.css", "print.css")
_COLOURS = {"better": GOOD, "worse": BAD, "same": INK, "undecided": MUTED}
_TITLE = "Candidate minus baseline, paired by sample"
_TEXT = 4_000
_LABEL = 60


def render(comparison: RunComparison) -> str:
    """The whole page. Its content policy admits its own style by its hash, and no script, picture or address."""
    templates = environment(ReportData(run={"run_id": comparison.candidate.run_id}))
    templates.filters.update(value=words.value, target=_target, said=_said)
    title = f"{comparison.candidate.name} against {comparison.baseline.name}"
    shared = {"c": comparison, "words": words, "figures": _figures(comparison)}
    return page(templates, _sections(comparison), shared=shared, title=title, run_id=comparison.candidate.run_id)


def page(
    templates: Environment, sections: Sequence[Section], *, shared: Mapping[str, Any], title: str, run_id: str
) -> str:
    """A comparison's page of these sections. shared: what all of their templates know."""
    css = "\n".join((HERE / name).read_text(encoding="utf-8") for name in _STYLES)
    digest = base64.b64encode(hashlib.sha256(css.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    inside = [
        (section, Markup(templates.get_template(section.template).render(**shared, **section.context)))  # noqa: S704 - escaped
        for section in sections
    ]
    own = {"css": Markup(css), "script": "", "policy": Markup(policy), "data": ""}  # noqa: S704 - our own
    return templates.get_template("report.html.j2").render(
        **own, run={"name": title}, run_id=run_id, sections=inside, figures={}, present=set()
    )


def _sections(comparison: RunComparison) -> list[Section]:
    """The parts of the page that have something to show."""
    names = (
        ("top", "Verdict", "overview", True),
        ("results", "Metrics", "results", bool(comparison.results)),
        ("speed", "Speed under load", "speed", bool(comparison.speed)),
        ("flips", "Samples that changed", "flips", bool(comparison.flips)),
        ("differences", "What else differs", "differences", True),
        ("times", "Times", "times", bool(comparison.timings)),
        ("sql", "Ask in SQL", "sql", True),
    )
    counted = {"flips": len(comparison.flips), "differences": len(comparison.differences)}
    contexts: dict[str, dict[str, Any]] = {
        "results": {"left_out": any(_left_out(result) for result in comparison.results)},
        "flips": {"groups": _groups(comparison)},
        "sql": {"queries": queries(comparison)},
    }
    return [
        Section(
            anchor=anchor,
            title=title,
            template=f"_compare_{name}.html.j2",
            context=contexts.get(anchor, {}),
            short={"flips": "Changed samples", "differences": "Differences"}.get(anchor),
            count=counted.get(anchor),
            frame="header" if anchor == "top" else "section",
        )
        for anchor, title, name, there in names
        if there
    ]


def _left_out(result: Result) -> int:
    """Samples of either side that are in no pair."""
    return sum((result.only_candidate, result.only_baseline, result.unscored_candidate, result.unscored_baseline))


def _groups(comparison: RunComparison) -> list[dict[str, Any]]:
    """By result: its flips, the lost ones first, those each way whose answers are held."""
    found = []
    for number, result in enumerate(comparison.results, start=1):
        own = comparison.flips_of(result)
        ways = {way: [flip for flip in own if flip.change == way] for way in ("lost", "won")}
        if own:
            shown = [flip for flips in ways.values() for flip in flips[:TEXTS]]
            counts = {way: len(flips) for way, flips in ways.items()}
            found.append({"result": result, "flips": shown, "counts": counts, "anchor": f"flips-{number}"})
    return found


def _target(flip: Flip) -> Markup:
    return missing("no target was recorded") if flip.target is None else visible(flip.target)


def _said(answer: Answer) -> Markup:
    """An answer's text with its middle left out where it is long; else what was taken from it."""
    text = answer.output if answer.output is not None else answer.extracted
    if text is None:
        return missing(answer.reason or "the score rests on several requests, or the text is not held here")
    head, left_out, tail = shortened(text, limit=_TEXT)
    if not left_out:
        return visible(head)
    return visible(head) + Markup('<b class="c"> … {} characters … </b>').format(f"{left_out:,}") + visible(tail)


def _figures(comparison: RunComparison) -> dict[str, dict[str, Any]]:
    rows = [result for result in comparison.results if is_number(result.comparison.effect)]
    if not rows:
        return {}
    labels = [_label(row, told=comparison.arms is not None) for row in rows]
    return {"effects": effects(rows, labels, title=_TITLE)}


def effects(rows: list[Result], labels: list[str], *, title: str) -> dict[str, Any]:
    """The figure of differences that are there, with its numbers. labels: short and plain, one a row."""
    svg = to_svg(_draw(rows, labels), name="effects", title=title, description=_describe(rows, labels))
    return {"svg": Markup(svg), "title": title, "table": _numbers(rows)}  # noqa: S704 - drawn here


def _label(result: Result, *, told: bool) -> str:
    """The metric, with the arms unless all results are of the same."""
    return plain(result.name if told else f"{result.name} · {result.arms}")[-_LABEL:]


def _describe(rows: list[Result], labels: list[str]) -> str:
    pairs = zip(labels, rows, strict=True)
    said = "; ".join(f"{label}: {words.effect(row)}, {row.comparison.verdict}" for label, row in pairs)
    return f"Differences with 95 % intervals; right of zero the candidate is higher. {said}."


def _numbers(rows: list[Result]) -> Table:
    return (
        ("Metric", "Arm", "Difference", "from", "to", "Verdict"),
        [
            (
                row.name,
                row.arms,
                *(cell(each) for each in (row.comparison.effect, row.comparison.lo, row.comparison.hi)),
                row.comparison.verdict,
            )
            for row in rows
        ],
    )


def _draw(rows: list[Result], labels: list[str]) -> "Figure":
    """Each effect with its interval, and the margin on the side of a loss."""
    with drawing():
        fig = new_figure(width=9.2, height=1.0 + 0.4 * len(rows))
        axes = fig.subplots()
        bare(axes, grid="x")
        axes.axvline(0, color=INK, linewidth=1)
        ends = [0.05]
        for line, row in enumerate(rows):
            own = row.comparison
            if own.effect is None:
                continue
            colour = _COLOURS[own.verdict]
            if own.margin:
                loss = own.margin if row.direction == "lower" else -own.margin
                axes.plot([loss, loss], [line - 0.32, line + 0.32], color=MUTED, linewidth=1.2, linestyle=":")
            if own.lo is not None and own.hi is not None:
                axes.plot([own.lo, own.hi], [line, line], color=colour, linewidth=2.4)
                ends += [abs(own.lo), abs(own.hi)]
            axes.plot(own.effect, line, "o", color=colour, markersize=7, markeredgewidth=0)
            ends.append(abs(own.effect))
            axes.annotate(
                own.verdict, (1.01, line), xycoords=("axes fraction", "data"), va="center", color=colour, fontsize=10
            )
        axes.set_yticks(range(len(rows)), labels)
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_xlim(-1.08 * max(ends), 1.08 * max(ends))
        axes.set_xlabel("candidate − baseline, mean difference and 95 % interval; dotted: the margin")
    return fig


def queries(comparison: RunComparison) -> list[tuple[str, str]]:
    """(question, SQL) of questions that name these two runs."""
    own, other = literal(comparison.candidate.run_id), literal(comparison.baseline.run_id)
    found = [
        (
            "What came of this comparison?",
            "SELECT dataset, metric, candidate_arm, cell_id, candidate, baseline, effect, lo, hi, p_adjusted, verdict\n"
            f"FROM comparisons\nWHERE run_id = {own} AND baseline_run_id = {other}\nORDER BY dataset, cell_id, metric;",
        ),
        (
            "Where is any run worse than what it was compared with?",
            "SELECT run_id, baseline_run_id, dataset, metric, candidate_arm, effect, lo, hi\n"
            "FROM regressions\nORDER BY compared_at DESC;",
        ),
    ]
    if own != other:
        found.append(
            (
                "Which samples changed, all of them?",
                "SELECT dataset, metric, arm, sample_id, value_a AS baseline, value_b AS candidate,\n"
                "  extracted_a, extracted_b\n"
                f"FROM flips({other}, {own})\nORDER BY dataset, metric, value_b - value_a;",
            )
        )
    return found
