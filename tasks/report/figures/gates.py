"""The gated metrics over the runs: one point a run with its interval, and the lines that they are held against."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from schemas.gate import RATIOS, GateVerdict
from tasks.report.data import ReportData, Row
from tasks.report.figures.style import BAD, GOOD, INK, MUTED, Table, cell, drawing, new_figure
from tasks.report.gates import verdicts
from tasks.report.numbers import is_number
from tasks.report.text import plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE = "The gated metrics over the runs"
_MOST = 6
"""Metrics; the table of the gates has them all."""
_LABEL = 60


def describe(data: ReportData) -> str:
    """What the figure shows, in words."""
    parts = []
    for (metric, arm), rows in _lines(data).items():
        first, last = rows[0], rows[-1]
        parts.append(
            f"{metric}, {arm}: {len(rows)} runs, {first['value']:.3f} in the first, {last['value']:.3f} in the last"
        )
    return f"Points are means, bars are 95 % intervals, the last is this run. {'; '.join(parts)}."


def table(data: ReportData) -> Table:
    """The points as numbers."""
    return (
        ("Metric", "Arm", "Run", "Mean", "from", "to"),
        [
            (metric, arm, row["run_id"], *(cell(row[name]) for name in ("value", "lo", "hi")))
            for (metric, arm), rows in _lines(data).items()
            for row in rows
        ],
    )


def draw(data: ReportData) -> "Figure | None":
    """The figure; None for a run without gates."""
    lines = _lines(data)
    if not lines:
        return None
    with drawing():
        fig = new_figure(width=9.2, height=0.5 + 1.9 * len(lines))
        panels = fig.subplots(len(lines), 1, squeeze=False)
        for axes, ((metric, arm), rows) in zip(panels[:, 0], lines.items(), strict=True):
            own = [each for each in verdicts(data) if (each.metric, each.cell_id or each.arm) == (metric, arm)]
            _panel(axes, rows, own, title=plain(f"{metric}, {arm}")[-_LABEL:], run_id=data.run_id)
    return fig


def _lines(data: ReportData) -> dict[tuple[str, str], list[Row]]:
    """The points of each metric and arm (of a measured load, each of its points), the oldest first."""
    found: dict[tuple[str, str], list[Row]] = {}
    for row in data.gate_trend:
        if is_number(row["value"]):
            found.setdefault((row["metric"], row.get("cell_id") or row["arm"]), []).append(row)
    return dict(list(found.items())[:_MOST])


def _panel(axes: "Axes", rows: Sequence[Row], own: Sequence[GateVerdict], *, title: str, run_id: str) -> None:
    axes.grid(visible=True, axis="y")
    axes.set_axisbelow(True)
    axes.set_title(title)
    values = {row["run_id"]: float(row["value"]) for row in rows}
    for place, row in enumerate(rows):
        colour = _colour(own) if row["run_id"] == run_id else INK
        if is_number(row["lo"]) and is_number(row["hi"]):
            axes.plot([place, place], [row["lo"], row["hi"]], color=colour, linewidth=2)
        axes.plot(place, row["value"], "o", color=colour, markersize=6, markeredgewidth=0)
    levels = _levels(own, values)
    for level, _, dotted in levels:
        axes.axhline(level, color=MUTED, linewidth=1.2, linestyle=":" if dotted else "--")
    low, high = axes.get_ylim()
    for level, text in _apart(levels, least=0.1 * (high - low)):
        axes.annotate(text, (1.01, level), xycoords=("axes fraction", "data"), va="center", color=MUTED, fontsize=9)
    axes.set_xlim(-0.5, max(1.0, len(rows) - 0.5))
    shown = {0, len(rows) - 1}
    axes.set_xticks(sorted(shown), [str(rows[place]["run_id"])[:13] for place in sorted(shown)])


def _levels(own: Sequence[GateVerdict], values: dict[str, float]) -> list[tuple[float, str, bool]]:
    """(height, what it is, whether it is a margin) of the lines that the metric is held against, each once."""
    found: dict[float, tuple[float, str, bool]] = {}
    for each in own:
        base: Any = values.get(each.baseline_run_id or "")
        if each.rule in RATIOS and each.value is not None and base is not None:
            found.setdefault(each.value * base, (each.value * base, "", True))
        elif each.value is not None and each.rule not in RATIOS:
            found.setdefault(each.value, (each.value, f"{each.rule.replace('_', ' ')} {each.value:g}", False))
        if base is None:
            continue
        found[base] = (base, plain(str(each.against))[:24], False)
        if each.margin:
            loss = base + each.margin if each.direction == "lower" else base - each.margin
            found.setdefault(loss, (loss, "", True))
    return list(found.values())


def _apart(levels: Sequence[tuple[float, str, bool]], *, least: float) -> list[tuple[float, str]]:
    """The names beside the lines; those of lines that are nearer to each other than `least` on one line."""
    found: list[tuple[float, str]] = []
    for level, text, _ in sorted(levels):
        if text and found and level - found[-1][0] < least:
            found[-1] = (found[-1][0], f"{found[-1][1]}, {text}")
        elif text:
            found.append((level, text))
    return found


def _colour(own: Sequence[GateVerdict]) -> str:
    if any(each.fails or each.verdict == "refused" for each in own):
        return BAD
    return GOOD if any(each.verdict == "passed" for each in own) else INK
