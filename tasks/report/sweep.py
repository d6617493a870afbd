"""The page of a sweep, an ablation or a tuning: one file that needs nothing outside itself and runs no script."""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from schemas.sweep import CellResult
from schemas.tune import Tuned
from tasks.cells import figure_words as words
from tasks.cells.tables import (
    Ablated,
    ablation_table,
    by_cell,
    cells_table,
    comparison_table,
    counts,
    effects_table,
    mean_figures,
    sweep_table,
)
from tasks.report import sweep_figures, sweep_tuning
from tasks.report.data import ReportData
from tasks.report.environment import HERE, environment
from tasks.report.figures.style import Table, to_svg
from tasks.report.numbers import seconds
from tasks.report.sections.section import Section
from tasks.report.sweep_model import Page, page_of
from warehouse.schema.table import literal

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_STYLES = ("report.css", "samples.css", "print.css")
_CHIPS = 8
_NAMES = {"sweep": "Sweep", "ablate": "Ablation", "tune": "Tuning"}
_STATES = ("finished", "failed", "timeout", "cancelled", "running", "waiting")
_SHORT = {"ablation": "Settings", "confirmation": "Confirmation", "results": "Figures", "failures": "Not finished"}
_SAID = {"timeout": "over their time limit"}


def sweep_page(
    *,
    home: Path,
    run_id: str,
    title: str,
    results: Sequence[CellResult],
    matrix: Mapping[str, Sequence[Any]] | None = None,
    ablation: Sequence[Ablated] = (),
    tuned: Tuned | None = None,
    notes: Sequence[str] = (),
) -> str:
    """The whole page, for `runs/<run_id>/report.html`: it links to the cells' own reports beside it.

    results: every cell and repeat, also those that did not run. matrix: values by dotted key. ablation: each setting
    against the control. tuned: what a tuning found. notes: what a reader must know first. Of the runs it reads the
    tables under `home`. Raises AssayError for tables that cannot be read."""
    return render(
        page_of(
            home=home,
            run_id=run_id,
            title=title,
            results=list(results),
            matrix={key: list(values) for key, values in (matrix or {}).items()},
            ablation=list(ablation),
            tuned=tuned,
            notes=list(notes),
        )
    )


def render(page: Page) -> str:
    """The page of what it is given. Its content policy admits its own style by its hash, and no script or address."""
    css = "\n".join((HERE / name).read_text(encoding="utf-8") for name in _STYLES)
    digest = base64.b64encode(hashlib.sha256(css.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    templates = environment(ReportData(run={"run_id": page.run_id}))
    shared = {"page": page, "words": words, "figures": _svgs(page)}
    inside = [
        (section, Markup(templates.get_template(section.template).render(**shared, **section.context)))  # noqa: S704 - escaped
        for section in _sections(page)
    ]
    own = {"css": Markup(css), "script": "", "policy": Markup(policy), "data": ""}  # noqa: S704 - our own
    return templates.get_template("report.html.j2").render(
        **own, run={"name": page.title}, run_id=page.run_id, sections=inside, figures={}, present=set()
    )


def figures(page: Page) -> "dict[str, Figure]":
    """The page's figures by name, for a tracking server. Pass one to `tasks.report.figures.to_png`."""
    drawn = {name: figure for name, (figure, *_) in _drawn(page).items()}
    return {name: figure for name, figure in drawn.items() if figure is not None}


def _drawn(page: Page) -> "dict[str, tuple[Figure | None, str, Table]]":
    """(figure, title, its numbers) by name."""
    found: dict[str, tuple[Figure | None, str, Table]] = {}
    cells = [run for run in page.runs if run.result.cell.role == "cell"]
    shown = sweep_figures.shown_of(page.runs)
    grid = sweep_figures.grid_of(cells, page.matrix)
    if grid is not None:
        table = sweep_figures.heat_table(grid, shown)
        found["heat"] = (sweep_figures.draw_heat(grid, shown), sweep_figures.HEAT_TITLE, table)
    if page.tuned is None and (grid is None or any(run.result.repeat for run in cells)):
        lines = sweep_figures.cell_lines(page.runs, shown)
        found["dots"] = (
            sweep_figures.draw_dots(lines, shown),
            sweep_figures.DOTS_TITLE,
            sweep_figures.dots_table(lines, shown),
        )
    if page.ablation:
        table = sweep_figures.forest_table(page.ablation)
        found["forest"] = (sweep_figures.draw_forest(page.ablation), sweep_figures.FOREST_TITLE, table)
    if page.tuned is not None:
        tuning, tuned = sweep_tuning, page.tuned
        found |= {
            "pareto": (tuning.draw_pareto(tuned), tuning.PARETO_TITLE, tuning.pareto_table(tuned)),
            "importances": (tuning.draw_importances(tuned), tuning.IMPORTANCES_TITLE, tuning.importances_table(tuned)),
            "history": (tuning.draw_history(tuned), tuning.HISTORY_TITLE, tuning.history_table(tuned)),
        }
    return found


def _svgs(page: Page) -> dict[str, dict[str, Any]]:
    found = {}
    for name, (figure, title, table) in _drawn(page).items():
        if figure is not None:
            lines = "; ".join(", ".join(row) for row in table[1][:40])
            svg = to_svg(figure, name=name, title=title, description=f"{', '.join(table[0])}: {lines}.")
            found[name] = {"svg": Markup(svg), "title": title, "table": table}  # noqa: S704 - drawn here
    return found


def _sections(page: Page) -> list[Section]:
    """The parts of the page that have something to show."""
    runs = sorted(page.runs, key=lambda run: (run.result.cell.index, run.result.repeat))
    several = any(run.result.repeat for run in runs)
    lost = [run for run in runs if run.result.error]
    sentence, chips = _said(page)
    parts: list[tuple[str, str, dict[str, Any], int | None, bool]] = [
        ("top", "Overview", {"sentence": sentence, "chips": chips, "kicker": _NAMES[page.kind], "facts": _facts(page)},
         None, True),
        ("ablation", "What each setting is worth",
         {"rows": ablation_table(page.ablation), "effects": effects_table(page.ablation)}, None, bool(page.ablation)),
        ("confirmation", "The winner under the full load",
         {"rows": comparison_table(page.arms, page.against), "effects": page.against}, None, bool(page.arms)),
        ("tuning", "Trials", {"rows": sweep_tuning.trial_rows(page.tuned) if page.tuned else []},
         len(page.tuned.trials) if page.tuned else None, page.tuned is not None),
        ("results", "Throughput and latency", {"rows": cells_table(runs) if several else []}, None,
         bool(runs) and page.tuned is None),
        ("cells", "Cells", {"rows": list(zip(runs, sweep_table(runs), strict=True))}, len(runs), bool(runs)),
        ("failures", "What did not finish", {"lost": lost}, len(lost), bool(lost)),
        ("sql", "Ask in SQL", {"queries": queries(page)}, None, True),
    ]  # fmt: skip
    return [
        Section(
            anchor=anchor,
            title=title,
            template=f"_sweep_{anchor}.html.j2",
            context=context,
            count=count,
            short=_SHORT.get(anchor),
            frame="header" if anchor == "top" else "section",
        )
        for anchor, title, context, count, there in parts
        if there
    ]


def _facts(page: Page) -> list[tuple[str, str]]:
    built = sum(run.result.built is True for run in page.runs)
    reused = sum(run.result.built is False for run in page.runs)
    took = [run.result.seconds for run in page.runs if run.result.seconds is not None]
    found = list(page.facts)
    if page.runs:
        found.append(("Cells, runs", f"{len(by_cell(page.runs)):,}, {len(page.runs):,}"))
    if built or reused:
        found.append(("Engines built, reused", f"{built:,}, {reused:,}"))
    if took:
        found.append(("All runs together", seconds(sum(took))))
    return found


def _said(page: Page) -> tuple[str, list[tuple[str, str]]]:
    """The first sentence of the page, and (text, verdict) of what stands out."""
    states = counts(page.runs)
    ended = ", ".join(f"{states[state]:,} {_SAID.get(state, state)}" for state in _STATES if state in states)
    if page.tuned is not None:
        return page.tuned.answer, [(f"trials: {len(page.tuned.trials):,}", ""), (f"runs: {ended or 'none'}", "")]
    if page.ablation:
        drawn = sweep_figures.forest_of(page.ablation)
        told: list[tuple[str, str]] = [
            (f"{each.name}: {words.title(effect.figure)} {words.effect(effect)}", effect.verdict)
            for each in page.ablation
            for effect in each.effects
            if effect.figure in drawn and effect.verdict in ("better", "worse")
        ]
        apart = len({text.partition(": ")[0] for text, _ in told})
        said = f"{apart or 'None'} of {len(page.ablation)} settings can be told apart from the control"
        return f"{said} in speed, memory, start-up or energy. Runs: {ended or 'none'}.", told[:_CHIPS]
    return f"{len(by_cell(page.runs)):,} cells, {len(page.runs):,} runs: {ended or 'none'}.", _best(page)


def _best(page: Page) -> list[tuple[str, str]]:
    """The cell that is best in each of the two figures; of one cell nothing is said."""
    means = [(own[0].result.cell.name, mean_figures(own)) for own in by_cell(page.runs).values()]
    found = []
    for name, choose in zip(sweep_figures.shown_of(page.runs), (max, min), strict=True):
        there = [(figures_[name].value, cell, figures_[name]) for cell, figures_ in means if name in figures_]
        if len(there) > 1:
            _, cell, figure = choose(there, key=lambda item: item[0])
            word = "most" if choose is max else "lowest"
            found.append((f"{word} {words.title(name)}: {words.value(figure)}, {cell}", ""))
    return found


def queries(page: Page) -> list[tuple[str, str]]:
    """(question, SQL) of questions that name this run."""
    run = literal(page.run_id)
    return [
        (
            "What was set in each cell, and how did it end?",
            "SELECT cell_index, repeat, name, role, state, built, seconds, error\n"
            f"FROM sweep_cells\nWHERE run_id = {run}\nORDER BY cell_index, repeat;",
        ),
        (
            "How good and how fast was each cell?",
            "SELECT c.name, c.repeat, m.name AS metric, m.arm, m.value, m.unit\n"
            "FROM sweep_cells AS c JOIN metrics AS m ON m.run_id = c.cell_run_id\n"
            f"WHERE c.run_id = {run} AND (m.scope = 'dataset' OR m.name LIKE 'timing.%')\n"
            "ORDER BY m.name, m.arm, c.cell_index, c.repeat;",
        ),
        (
            "What did each engine cost to start, and what did it hold?",
            "SELECT c.name, c.repeat, e.start_s, e.load_s, e.compile_s, e.capture_s, e.kv_tokens\n"
            "FROM sweep_cells AS c JOIN engines AS e ON e.run_id = c.cell_run_id\n"
            f"WHERE c.run_id = {run}\nORDER BY c.order_index;",
        ),
    ]
