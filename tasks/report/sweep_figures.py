"""The figures of a sweep and of an ablation: heat maps of two axes, cells with their intervals, ratios with theirs."""

import itertools
import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from schemas.cell_figures import LOAD, Effect, Repeated
from tasks.cells import figure_words as words
from tasks.cells.tables import OF_LOAD, Ablated, CellRun, by_cell, load_figures, mean_figures
from tasks.report.figures.style import (
    BAD,
    GOOD,
    GUIDED,
    INK,
    LINE,
    MUTED,
    Table,
    bare,
    drawing,
    new_figure,
)
from tasks.report.numbers import DASH
from tasks.report.text import plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HEAT_TITLE = "Throughput and latency over the matrix"
DOTS_TITLE = "Throughput and latency of the cells"
FOREST_TITLE = "What each setting is worth, against the control"
Shown = tuple[str, str]
"""The two figures that are drawn: one of which more is better, and one of which less is."""
ANSWERING: Shown = ("throughput.output_tokens_per_s", "e2e_ms.p50")
FOREST = (
    "e2e_ms.p50",
    "ttft_ms.p50",
    "tpot_ms.p50",
    "throughput.output_tokens_per_s",
    "memory.peak_bytes",
    "start_s",
    "energy.j_per_output_token",
)
MOST_CELLS = 60
"""Lines that one figure can bear; the table has them all."""
_LABEL = 44
_TURNED = 8
"""Letters of a column's name beyond which the names are written aslant."""
_ACROSS = 3
_COLOURS = {"better": GOOD, "worse": BAD, "same": INK, "undecided": MUTED}
_FAINT = 0.08
_STRONG = 0.62


def shown_of(runs: Sequence[CellRun]) -> Shown:
    """Of a sweep under load the point with the most throughput: it was measured apart, warm and in turns. Else what
    answering came to."""
    rate, first_token = OF_LOAD
    rates = [
        (figure.value, name)
        for run in runs
        for name, figure in run.figures.items()
        if name.startswith(LOAD) and name.endswith(f".{rate}")
    ]
    if not rates:
        return ANSWERING
    point = max(rates)[1].removesuffix(rate)
    return f"{point}{rate}", f"{point}{first_token}"


class Grid(NamedTuple):
    """A matrix of two axes. places: each cell's runs by the texts of its two values."""

    down: str
    across: str
    rows: list[str]
    columns: list[str]
    places: dict[tuple[str, str], list[CellRun]]


def grid_of(runs: Sequence[CellRun], matrix: Mapping[str, Sequence[Any]]) -> Grid | None:
    """The two axes that have more than one value each; None where there are fewer or more of them, and where a place
    would hold two cells."""
    axes = {key: [_text(value) for value in values] for key, values in matrix.items() if len(values) > 1}
    if len(axes) != 2:
        return None
    (down, rows), (across, columns) = axes.items()
    places: dict[tuple[str, str], list[CellRun]] = {}
    for own in by_cell(runs).values():
        settings = own[0].result.cell.settings
        place = (_text(settings.get(down)), _text(settings.get(across)))
        if place[0] not in rows or place[1] not in columns:
            continue
        if place in places:
            return None
        places[place] = own
    return Grid(down=down, across=across, rows=rows, columns=columns, places=places)


def heat_table(grid: Grid, shown: Shown) -> Table:
    """The heat maps as numbers."""
    lines = []
    for (row, column), own in grid.places.items():
        means = mean_figures(own)
        lines.append((row, column, *(words.repeated(means.get(name)) for name in shown)))
    return (grid.down, grid.across, *(words.title(name) for name in shown)), lines


def draw_heat(grid: Grid, shown: Shown) -> "Figure | None":
    """One panel a figure; None where none of the cells has it."""
    there = [(name, values) for name in shown if (values := _values(grid, name))]
    if not there:
        return None
    with drawing():
        turned = max(len(each) for each in grid.columns) > _TURNED
        fig = new_figure(width=9.2, height=1.2 + 0.5 * len(grid.rows) + (0.5 if turned else 0.0))
        panels = fig.subplots(1, len(there), sharey=True, squeeze=False)[0]
        for axes, (name, values) in zip(panels, there, strict=True):
            _heat_panel(axes, grid, name, values)
            axes.set_xticks(
                range(len(grid.columns)),
                [_short(each) for each in grid.columns],
                rotation=25 if turned else 0,
                ha="right" if turned else "center",
            )
            axes.set_xlabel(_short(grid.across))
        panels[0].set_yticks(range(len(grid.rows)), [_short(each) for each in grid.rows])
        panels[0].set_ylabel(_short(grid.down))
    return fig


def cell_lines(runs: Sequence[CellRun], shown: Shown) -> list[tuple[str, dict[str, Repeated], list[CellRun]]]:
    """(name, means, runs) of the cells that have something to draw, in their order: of too many, those with the most
    throughput."""
    lines = [(own[0].result.cell.name, mean_figures(own), own) for own in by_cell(runs).values()]
    lines = [line for line in lines if any(name in line[1] for name in shown)]
    if len(lines) <= MOST_CELLS:
        return lines
    best = sorted(lines, key=lambda line: -line[1][shown[0]].value if shown[0] in line[1] else 0.0)[:MOST_CELLS]
    return [line for line in lines if line in best]


def dots_table(lines: Sequence[tuple[str, dict[str, Repeated], list[CellRun]]], shown: Shown) -> Table:
    """The dots and bars as numbers."""
    return (
        ("Cell", *(words.title(name) for name in shown)),
        [(name, *(words.repeated(means.get(figure)) for figure in shown)) for name, means, _ in lines],
    )


def draw_dots(lines: Sequence[tuple[str, dict[str, Repeated], list[CellRun]]], shown: Shown) -> "Figure | None":
    """One line a cell; None where no cell finished."""
    there = [name for name in shown if any(name in means for _, means, _ in lines)]
    if not there:
        return None
    with drawing():
        fig = new_figure(width=9.2, height=1.0 + 0.36 * len(lines))
        panels = fig.subplots(1, len(there), sharey=True, squeeze=False)[0]
        for axes, name in zip(panels, there, strict=True):
            bare(axes, grid="x")
            points = [run.figures[name].value for _, _, own in lines for run in own if name in run.figures]
            end = 1.15 * max(points)
            for line, (_, means, own) in enumerate(lines):
                if name not in means:
                    axes.annotate("not measured", (0.01 * end, line), va="center", color=MUTED, fontsize=9)
                    continue
                mean = means[name]
                if mean.lo is not None and mean.hi is not None:
                    axes.plot([max(0.0, mean.lo), min(end, mean.hi)], [line, line], color=GUIDED, linewidth=2.4)
                each = [run.figures[name].value for run in own if name in run.figures]
                if len(each) > 1:
                    axes.plot(each, [line] * len(each), "|", color=MUTED, markersize=9, markeredgewidth=1.2)
                axes.plot(mean.value, line, "o", color=GUIDED, markersize=7, markeredgewidth=0)
            axes.set_xlim(0, end)
            axes.set_xlabel(_axis(name, lines))
        panels[0].set_yticks(range(len(lines)), _labels([name for name, _, _ in lines]))
        panels[0].set_ylim(len(lines) - 0.5, -0.5)
    return fig


def forest_of(settings: Sequence[Ablated]) -> tuple[str, ...]:
    """What an ablation is drawn of: the usual figures, and of each measured point its throughput and first token."""
    named = dict.fromkeys(effect.figure for each in settings for effect in each.effects)
    return (*FOREST, *load_figures(named))


def forest_table(settings: Sequence[Ablated]) -> Table:
    """The ratios as numbers."""
    rows: list[tuple[str, ...]] = []
    for each in settings:
        found = words.by_figure(each.effects)
        for name in forest_of(settings):
            effect = found.get(name)
            if effect is not None:
                rows.append((each.name, words.title(name), words.effect(effect), str(effect.rounds), effect.verdict))
    return ("Setting", "Figure", "Setting / control", "Rounds", "Verdict"), rows


def draw_forest(settings: Sequence[Ablated]) -> "Figure | None":
    """One panel a figure, one line a setting, on a logarithmic axis; None where nothing can be compared."""
    effects = [words.by_figure(each.effects) for each in settings]
    shown = [name for name in forest_of(settings) if any(_ratio(found.get(name)) is not None for found in effects)]
    if not shown:
        return None
    with drawing():
        down = math.ceil(len(shown) / _ACROSS)
        fig = new_figure(width=9.2, height=0.4 + down * (1.1 + 0.34 * len(settings)))
        panels = fig.subplots(down, min(_ACROSS, len(shown)), sharey=True, squeeze=False).flatten()
        for axes in panels[len(shown) :]:
            axes.set_visible(False)
        for axes, name in zip(panels, shown, strict=False):
            _forest_panel(axes, name, [found.get(name) for found in effects])
            axes.set_yticks(range(len(settings)), _labels([each.name for each in settings]))
            axes.set_ylim(len(settings) - 0.5, -0.5)
    return fig


def _forest_panel(axes: "Axes", name: str, effects: Sequence[Effect | None]) -> None:
    from matplotlib.ticker import FixedLocator, NullFormatter, NullLocator  # noqa: PLC0415 - see drawing()

    bare(axes, grid="x")
    axes.set_xscale("log")
    ratios = [ratio for effect in effects if (ratio := _ratio(effect)) is not None]
    reach = max(1.25, *(1.3 * max(ratio, 1 / ratio) for ratio in ratios))
    axes.axvline(1, color=INK, linewidth=1)
    for line, effect in enumerate(effects):
        if effect is None or effect.ratio is None:
            axes.annotate("not measured", (1, line), va="center", ha="center", color=MUTED, fontsize=8.5)
            continue
        colour = _COLOURS[effect.verdict]
        if effect.lo is not None and effect.hi is not None:
            ends = [max(1 / reach, effect.lo), min(reach, effect.hi)]
            axes.plot(ends, [line, line], color=colour, linewidth=2.4)
        axes.plot(effect.ratio, line, "o", color=colour, markersize=7, markeredgewidth=0)
    axes.set_xlim(1 / reach, reach)
    ticks = _ticks(reach)
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_major_formatter(lambda value, _: f"{round(value, 2):g}×")
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_minor_formatter(NullFormatter())
    better = next((effect.direction for effect in effects if effect is not None), "none")
    side = {"lower": " (left is better)", "higher": " (right is better)"}.get(better, "")
    axes.set_title(f"{words.title(name)}{side}", fontsize=9.5)


def _ticks(reach: float) -> list[float]:
    """Ratios to write on an axis from 1 / reach to reach: 1, and one or two on each side."""
    for step in (1.1, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0):
        if step**2 > reach:
            return [1 / step, 1.0, step]
    return [1 / reach, 1.0, reach]


def _heat_panel(axes: "Axes", grid: Grid, name: str, values: Mapping[tuple[str, str], Repeated]) -> None:
    from matplotlib.patches import Rectangle  # noqa: PLC0415 - see drawing()

    low, high = (edge(each.value for each in values.values()) for edge in (min, max))
    lower = next(iter(values.values())).direction == "lower"
    for line, row in enumerate(grid.rows):
        for place, column in enumerate(grid.columns):
            found = values.get((row, column))
            share = 0.0 if found is None or high == low else (found.value - low) / (high - low)
            depth = _FAINT + (_STRONG - _FAINT) * (1 - share if lower else share)
            corner = (place - 0.47, line - 0.45)
            colour = "none" if found is None else GUIDED
            box = Rectangle(
                corner, 0.94, 0.9, facecolor=colour, alpha=None if found is None else depth, edgecolor="none"
            )
            axes.add_patch(box)
            if found is None:
                axes.add_patch(Rectangle(corner, 0.94, 0.9, facecolor="none", edgecolor=LINE, linewidth=1))
            text = words.value(found) if found is not None else _no_value(grid.places.get((row, column)))
            axes.annotate(
                text,
                (place, line),
                ha="center",
                va="center",
                color=INK if found else MUTED,
                fontsize=9.5 if found else 8.5,
            )
    axes.set_xlim(-0.5, len(grid.columns) - 0.5)
    axes.set_ylim(len(grid.rows) - 0.5, -0.5)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.tick_params(length=0)
    axes.set_title(f"{words.title(name)} ({'lower' if lower else 'higher'} is better)", fontsize=10)


def _no_value(runs: list[CellRun] | None) -> str:
    """Why a place of the matrix has no number: it is no cell, or how its runs ended."""
    if runs is None:
        return "excluded"
    states = dict.fromkeys(run.result.state for run in runs)
    return ", ".join(states) if set(states) != {"finished"} else DASH


def _values(grid: Grid, name: str) -> dict[tuple[str, str], Repeated]:
    means = {place: mean_figures(own) for place, own in grid.places.items()}
    return {place: found[name] for place, found in means.items() if name in found}


def _axis(name: str, lines: Sequence[tuple[str, dict[str, Repeated], list[CellRun]]]) -> str:
    found = next(means[name] for _, means, _ in lines if name in means)
    unit = "" if words.title(name) == found.unit else f", {found.unit}"
    return f"{words.title(name)}{unit} ({found.direction} is better)"


def _ratio(effect: Effect | None) -> float | None:
    return None if effect is None else effect.ratio


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _labels(names: Sequence[str]) -> list[str]:
    """The names of lines, cut where they are long: first what all begin with, then their heads, as the last of several
    settings changes most."""
    shown = [plain(name) for name in names]
    if max(len(name) for name in shown) <= _LABEL:
        return shown
    parts = [name.split(", ") for name in shown]
    same = (
        len(list(itertools.takewhile(lambda each: len(set(each)) == 1, zip(*parts, strict=False)))) if parts[1:] else 0
    )
    rests = [f"…{', '.join(own[same:])}" if same else ", ".join(own) for own in parts]
    return [rest if len(rest) <= _LABEL else f"…{rest[1 - _LABEL :]}" for rest in rests]


def _short(text: str) -> str:
    shown = plain(text)
    return shown if len(shown) <= _LABEL else f"{shown[: _LABEL - 1]}…"
