"""Every metric with its error bar, one line a dataset and metric, one dot an arm."""

from typing import TYPE_CHECKING

from tasks.report.data import ReportData
from tasks.report.figures.style import Table, arm_colour, bare, cell, drawing, legend, new_figure
from tasks.report.numbers import DASH, is_number
from tasks.report.quality import drawable, grouped, plain_metric, quality_rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Quality by dataset, metric and arm"


def describe(data: ReportData) -> str:
    """What the figure shows, in words."""
    rows = [row for row in quality_rows(data) if drawable(row)]
    parts = [f"{row['dataset']} {plain_metric(row['metric'])}, {row['arm']}: {row['value']:.3f}" for row in rows]
    return "Dots are means, bars are 95 % intervals. " + "; ".join(parts) + "."


def table(data: ReportData) -> Table:
    """The dots and bars as numbers."""
    rows = [row for row in quality_rows(data) if drawable(row)]
    return (
        ("Dataset", "Metric", "Arm", "Mean", "from", "to"),
        [
            (
                row["dataset"],
                plain_metric(row["metric"]),
                row["arm"] or DASH,
                *(cell(row.get(k)) for k in ("value", "lo", "hi")),
            )
            for row in rows
        ],
    )


def draw(data: ReportData) -> "Figure | None":
    """The figure; None where no metric lies between 0 and 1."""
    groups = grouped([row for row in quality_rows(data) if drawable(row)])
    if not groups:
        return None
    with drawing():
        fig = new_figure(width=9.2, height=1.1 + 0.46 * len(groups))
        axes = fig.subplots()
        bare(axes, grid="x")
        keys = {}
        for line, rows in enumerate(groups.values()):
            for index, row in enumerate(rows):
                colour, value = arm_colour(row["arm"]), float(row["value"])
                place = line + (index - (len(rows) - 1) / 2) * 0.26
                if is_number(row.get("lo")) and is_number(row.get("hi")):
                    axes.plot([max(0.0, row["lo"]), min(1.0, row["hi"])], [place, place], color=colour, linewidth=2.2)
                keys[row["arm"]] = axes.plot(value, place, "o", color=colour, markersize=6.5, markeredgewidth=0)[0]
        axes.set_yticks(
            range(len(groups)), [f"{dataset} · {plain_metric(metric)}" for dataset, metric in groups], fontsize=10.5
        )
        axes.set_ylim(len(groups) - 0.5, -0.5)
        axes.set_xlim(-0.02, 1.02)
        axes.set_xlabel("mean and 95 % interval (0 to 1)")
        legend(fig, list(keys.values()), [arm or "no arm" for arm in keys])
    return fig
