"""The run over its time: requests in flight by arm, and output tokens per second."""

from typing import TYPE_CHECKING

from tasks.report.data import ReportData, arm_order
from tasks.report.figures.style import INK, LINE, MUTED, Table, arm_colour, cell, drawing, legend, new_figure
from tasks.report.latency import timed
from tasks.report.timeline import REQUESTS, in_flight, phases, shading
from tasks.report.usage import throughput

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Requests and tokens over the time of the run"
_ROWS = 24


def _arms(data: ReportData) -> list[str]:
    return sorted({row["arm"] for row in timed(data)}, key=arm_order)


def describe(data: ReportData) -> str:
    """What the figure shows, in words."""
    parts = [f"{name} from {begin:.1f} to {end:.1f} s" for name, begin, end in phases(data)]
    for arm in _arms(data):
        parts.append(f"at most {max((count for _, count in in_flight(data, arm=arm)), default=0)} {arm} in flight")
    rates = [rate for _, rate in throughput(data)]
    parts += [f"at most {max(rates):.3g} output tokens/s"] if rates else []
    return "; ".join(parts) + "."


def table(data: ReportData) -> Table:
    """Both panels at up to 24 moments."""
    rates = throughput(data)
    lines = {arm: in_flight(data, arm=arm) for arm in _arms(data)}
    step = max(1, -(-len(rates) // _ROWS))

    def at(line: list[tuple[float, int]], moment: float) -> int:
        return next((count for when, count in reversed(line) if when <= moment), 0)

    return (
        ("Seconds since the run began", *(f"{arm} in flight" for arm in lines), "Output tokens/s"),
        [
            (f"{moment:.1f}", *(cell(at(line, moment)) for line in lines.values()), cell(float(rate)))
            for moment, rate in rates[::step]
        ],
    )


def draw(data: ReportData) -> "Figure | None":
    """The figure; None where no request was timed."""
    lines = {arm: line for arm in _arms(data) if (line := in_flight(data, arm=arm))}
    rates = throughput(data)
    if not lines or not rates:
        return None
    spans = phases(data)
    with drawing():
        fig = new_figure(width=9.2, height=3.6)
        upper, lower = fig.subplots(2, 1, sharex=True)
        keys = {}
        for arm, line in lines.items():
            times, counts = [moment for moment, _ in line], [count for _, count in line]
            keys[arm] = upper.step(times, counts, where="post", color=arm_colour(arm), linewidth=1.6)[0]
        upper.set_title("requests in flight", pad=3)
        times, heights = [moment for moment, _ in rates], [rate for _, rate in rates]
        lower.fill_between(times, heights, color=INK, alpha=0.12, linewidth=0)
        lower.plot(times, heights, color=INK, linewidth=1.5)
        lower.set_title("output tokens/s", pad=3)
        for axes in (upper, lower):
            for name, begin, end in spans:
                if name != REQUESTS:
                    axes.axvspan(begin, end, color=LINE, alpha=0.45, linewidth=0)
            axes.set_ylim(bottom=0)
            axes.set_xlim(0, max([end for _, _, end in spans] + [times[-1]]))
            axes.tick_params(axis="y", labelcolor=MUTED, labelsize=9)
            axes.yaxis.get_major_locator().set_params(integer=True, nbins=4)
            axes.grid(visible=True, axis="y")
            axes.set_axisbelow(True)
        lower.set_xlabel(f"seconds since the run began ({shading(data)})")
        legend(fig, list(keys.values()), list(keys))
    return fig
