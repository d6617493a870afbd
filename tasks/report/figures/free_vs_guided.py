"""What one arm changes against another, as guiding does: the paired difference of each metric with its interval, round
a line at no difference."""

from typing import TYPE_CHECKING

from tasks.report.data import ReportData, Row
from tasks.report.figures.style import BAD, GOOD, INK, MUTED, Table, bare, cell, drawing, new_figure
from tasks.report.numbers import is_number
from tasks.report.quality import arm_comparisons, plain_metric

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Arms against each other, paired by sample"
_COLOURS = {"better": GOOD, "worse": BAD, "same": INK, "undecided": MUTED}


def _rows(data: ReportData) -> list[Row]:
    return [row for row in arm_comparisons(data) if is_number(row.get("effect"))]


def _names(row: Row, rows: list[Row]) -> str:
    """Dataset and metric, and where several pairs of arms are compared, the arms."""
    name = f"{row['dataset']} · {plain_metric(row['metric'])}"
    pairs = {(each["candidate_arm"], each["baseline_arm"]) for each in rows}
    return name if len(pairs) == 1 else f"{name} · {row['candidate_arm']} − {row['baseline_arm']}"


def describe(data: ReportData) -> str:
    """What the figure shows, in words."""
    parts = [
        f"{_names(row, _rows(data)).replace(' · ', ' ')}: {row['effect']:+.3f}, {row['verdict']}" for row in _rows(data)
    ]
    return "Differences with 95 % intervals; right of zero the candidate arm is higher. " + "; ".join(parts) + "."


def table(data: ReportData) -> Table:
    """The dots and bars as numbers."""
    return (
        ("Dataset", "Metric", "Arms", "Difference", "from", "to", "Verdict"),
        [
            (
                row["dataset"],
                plain_metric(row["metric"]),
                f"{row['candidate_arm']} − {row['baseline_arm']}",
                *(cell(row.get(k)) for k in ("effect", "lo", "hi")),
                row["verdict"],
            )
            for row in _rows(data)
        ],
    )


def draw(data: ReportData) -> "Figure | None":
    """The figure; None where no two arms were compared."""
    rows = _rows(data)
    if not rows:
        return None
    with drawing():
        fig = new_figure(width=9.2, height=1.0 + 0.4 * len(rows))
        axes = fig.subplots()
        bare(axes, grid="x")
        axes.axvline(0, color=INK, linewidth=1)
        ends = [0.05]
        for line, row in enumerate(rows):
            colour = _COLOURS.get(row["verdict"], MUTED)
            if is_number(row.get("lo")) and is_number(row.get("hi")):
                axes.plot([row["lo"], row["hi"]], [line, line], color=colour, linewidth=2.4)
                ends += [abs(row["lo"]), abs(row["hi"])]
            axes.plot(row["effect"], line, "o", color=colour, markersize=7, markeredgewidth=0)
            ends.append(abs(row["effect"]))
            axes.annotate(
                row["verdict"], (1.01, line), xycoords=("axes fraction", "data"), va="center", color=colour, fontsize=10
            )
        axes.set_yticks(range(len(rows)), [_names(row, rows) for row in rows])
        axes.set_ylim(len(rows) - 0.5, -0.5)
        shares = all(abs(row["effect"]) <= 1 for row in rows)
        reach = min(max(ends), 1.0) if shares else max(ends)
        axes.set_xlim(-1.08 * reach, 1.08 * reach)
        pairs = {(row["candidate_arm"], row["baseline_arm"]) for row in rows}
        names = "".join(f"{candidate} − {baseline}, " for candidate, baseline in pairs if len(pairs) == 1)
        axes.set_xlabel(f"{names}mean difference and 95 % interval")
    return fig
