"""Processor, memory, power and clocks over the time of the run: one small panel a series."""

from typing import TYPE_CHECKING

from tasks.report.data import ReportData
from tasks.report.figures.style import GUIDED, MUTED, Table, cell, drawing, new_figure
from tasks.report.usage import series

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "The machine over time"


def describe(data: ReportData) -> str:
    """What the figure shows, in words."""
    parts = [
        f"{name}: {min(value for _, value in points):.3g} to {max(value for _, value in points):.3g} {unit}"
        for name, unit, points in series(data)
    ]
    return "; ".join(parts) + "."


def table(data: ReportData) -> Table:
    """Each line's lowest, mean and highest reading."""
    rows = []
    for name, unit, points in series(data):
        heights = [value for _, value in points]
        mean = sum(heights) / len(heights)
        rows.append((name, unit, cell(len(heights)), cell(min(heights)), cell(mean), cell(max(heights))))
    return ("Reading", "Unit", "Readings", "Lowest", "Mean", "Highest"), rows


def draw(data: ReportData) -> "Figure | None":
    """The figure; None where nothing was measured over time."""
    found = series(data)
    if not found:
        return None
    with drawing():
        fig = new_figure(width=9.2, height=0.6 + 1.15 * len(found))
        panels = fig.subplots(len(found), 1, sharex=True, squeeze=False)[:, 0]
        for axes, (name, unit, points) in zip(panels, found, strict=True):
            times, heights = [time for time, _ in points], [value for _, value in points]
            axes.fill_between(times, heights, color=GUIDED, alpha=0.16, linewidth=0)
            axes.plot(times, heights, color=GUIDED, linewidth=1.5)
            axes.set_title(f"{name} ({unit})", pad=3)
            axes.set_ylim(0, max(*heights, 1e-9) * 1.12)
            axes.tick_params(axis="y", labelcolor=MUTED, labelsize=9)
            axes.locator_params(axis="y", nbins=4)
            axes.grid(visible=True, axis="y")
            axes.set_axisbelow(True)
        panels[-1].set_xlabel("seconds since the run began")
    return fig
