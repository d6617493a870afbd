"""Which share of requests was answered within which time: one curve an arm, for ttft, tpot and e2e."""

from typing import TYPE_CHECKING

from tasks.report.data import ReportData, Row, arm_order
from tasks.report.figures.style import Table, arm_colour, cell, drawing, legend, new_figure
from tasks.report.latency import DRAWN, TIMES, by_arm, timed, values

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Latency: share of requests answered within a time"
_LABELS = {column: (name, meaning) for column, name, meaning in TIMES}


def describe(data: ReportData) -> str:
    """What the figure shows, in words."""
    wanted = {_LABELS[column][0] for column in DRAWN}
    parts = [
        f"{row['name']}, {row['arm']}: median {row['p50']:.1f} ms, 95 % within {row['p95']:.1f} ms"
        for row in by_arm(data)
        if row["name"] in wanted
    ]
    return "Cumulative shares. " + "; ".join(parts) + "."


def _decimal(value: float, _: object = None) -> str:
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"


def table(data: ReportData) -> Table:
    """The curves at some of their points, in ms."""
    wanted = {_LABELS[column][0] for column in DRAWN}
    return (
        ("Time", "Arm", "Requests", "50 % within, ms", "90 %", "95 %", "99 %"),
        [
            (row["name"], row["arm"], cell(row["n"]), *(cell(row[f"p{q}"]) for q in (50, 90, 95, 99)))
            for row in by_arm(data)
            if row["name"] in wanted
        ],
    )


def draw(data: ReportData) -> "Figure | None":
    """The figure; None where no request was timed."""
    rows = timed(data)
    columns = [column for column in DRAWN if values(rows, column)]
    if not columns:
        return None
    with drawing():
        from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter  # noqa: PLC0415 - see drawing()

        fig = new_figure(width=9.2, height=3.3)
        keys = {}
        for axes, column in zip(fig.subplots(1, len(columns), sharey=True, squeeze=False)[0], columns, strict=True):
            name, meaning = _LABELS[column]
            for arm in sorted({row["arm"] for row in rows}, key=arm_order):
                ordered = sorted(value for value in values((r for r in rows if r["arm"] == arm), column) if value > 0)
                if ordered:
                    shares = [(index + 1) / len(ordered) for index in range(len(ordered))]
                    keys[arm] = axes.step(ordered, shares, where="post", color=arm_colour(arm), linewidth=1.8)[0]
            ratio = _ratio(rows, column)
            if ratio < 8:
                axes.xaxis.set_major_locator(MaxNLocator(5))
            else:
                axes.set_xscale("log")
                axes.xaxis.set_major_locator(LogLocator(subs=(1, 3) if ratio < 300 else (1,), numticks=8))
            axes.xaxis.set_major_formatter(_decimal)
            axes.xaxis.set_minor_formatter(NullFormatter())
            axes.set_title(name, pad=6)
            axes.set_xlabel(f"ms, {meaning}", fontsize=8.5)
            axes.set_yticks([0, 0.25, 0.5, 0.75, 0.95], ["0", "25 %", "50 %", "75 %", "95 %"])
            axes.set_ylim(0, 1.02)
            axes.grid(visible=True)
            axes.set_axisbelow(True)
        legend(fig, list(keys.values()), list(keys))
    return fig


def _ratio(rows: list[Row], column: str) -> float:
    """The longest time over the shortest: what spans several powers of ten is drawn on a logarithmic axis."""
    found = [value for value in values(rows, column) if value > 0]
    return max(found) / min(found) if found else 1.0
