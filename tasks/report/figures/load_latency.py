"""Which share of a load's requests was answered within which time: one curve a load and arm, for ttft and e2e."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from schemas.sample import ANSWERED
from tasks.compare.points import Measured
from tasks.report.benchmark import load_words, points, requests_of
from tasks.report.benchmark_time import load_height
from tasks.report.data import ReportData
from tasks.report.figures.style import LOADS, MUTED, Table, arm_colour, cell, drawing, legend, new_figure, times_axis
from tasks.report.latency import values
from tasks.report.numbers import percentile
from tasks.report.text import plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE = "Latency under load: share of requests answered within a time"
_TIMES = (("ttft_ms", "ttft"), ("e2e_ms", "e2e"))
_MOST_ARMS = 3
_CORNERS = 120
_DASHES: tuple[Any, ...] = ("-", (0, (4, 1.6)), (0, (1.2, 1.2)))
_SHARES = (50, 90, 95, 99)


def chosen(data: ReportData) -> list[str]:
    """The loads that are drawn, by name, from the lightest to the heaviest: five at most, both ends among them."""
    height: dict[str, float] = {}
    for point in points(data):
        height[point.name] = max(height.get(point.name, 0.0), load_height(data, point))
    names = sorted(height, key=lambda name: height[name])
    if len(names) <= len(LOADS):
        return names
    step = (len(names) - 1) / (len(LOADS) - 1)
    return [names[round(index * step)] for index in range(len(LOADS))]


def _times(data: ReportData, point: Measured, column: str) -> list[float]:
    """Of all repeats together."""
    return data.once(
        ("load times", point.point_id, column),
        lambda: sorted(
            values(
                (row for own in point.cells for row in requests_of(data, own["cell_id"]) if row["status"] in ANSWERED),
                column,
            )
        ),
    )


def _shown(data: ReportData) -> list[Measured]:
    names = chosen(data)
    arms = list(dict.fromkeys(point.arm for point in points(data)))[:_MOST_ARMS]
    found = [point for point in points(data) if point.name in names and point.arm in arms]
    return sorted(found, key=lambda point: (names.index(point.name), arms.index(point.arm)))


def describe(data: ReportData) -> str:
    """What the figure shows, in words."""
    parts = []
    for point in _shown(data):
        for column, name in _TIMES:
            found = _times(data, point, column)
            if found:
                half, most = percentile(found, 50), percentile(found, 99)
                parts.append(
                    f"{load_words(point)}, {point.arm}: {name} median {half:.1f} ms, 99 % within {most:.1f} ms"
                )
    return plain("Cumulative shares. " + "; ".join(parts) + ".")


def table(data: ReportData) -> Table:
    """The curves at some of their points, in ms."""
    rows: list[tuple[str, ...]] = []
    for point in _shown(data):
        for column, name in _TIMES:
            found = _times(data, point, column)
            if found:
                ends = (cell(percentile(found, q)) for q in _SHARES)
                rows.append((load_words(point), point.arm, name, cell(len(found)), *ends))
    return ("Load", "Arm", "Time", "Requests", "50 % within, ms", "90 %", "95 %", "99 %"), rows


def draw(data: ReportData) -> "Figure | None":
    """The figure; None where nothing was measured under load."""
    shown = [point for point in _shown(data) if any(_times(data, point, column) for column, _ in _TIMES)]
    if not shown:
        return None
    names = [name for name in chosen(data) if any(point.name == name for point in shown)]
    arms = list(dict.fromkeys(point.arm for point in shown))
    with drawing():
        from matplotlib.lines import Line2D  # noqa: PLC0415 - see drawing()

        fig = new_figure(width=9.2, height=3.5)
        panels = fig.subplots(1, len(_TIMES), sharey=True)
        keys: dict[str, Any] = {}
        for axes, (column, name) in zip(panels, _TIMES, strict=True):
            for point in shown:
                found = _times(data, point, column)
                if not found:
                    continue
                colour = arm_colour(point.arm) if len(names) == 1 else LOADS[_place(names, point.name)]
                times, shares = _corners(found)
                style = _DASHES[arms.index(point.arm)]
                axes.step(times, shares, where="post", color=colour, linewidth=1.8, linestyle=style)
                if len(names) > 1:
                    keys.setdefault(plain(load_words(point)), Line2D([], [], color=colour, linewidth=1.8))
            _axis(axes, [_times(data, point, column) for point in shown])
            axes.set_title(name, pad=6)
        for arm, style in zip(arms if len(arms) > 1 or len(names) == 1 else (), _DASHES, strict=False):
            colour = arm_colour(arm) if len(names) == 1 else MUTED
            keys[plain(arm)] = Line2D([], [], color=colour, linewidth=1.8, linestyle=style)
        legend(fig, list(keys.values()), list(keys), across=min(4, len(keys)))
    return fig


def _place(names: Sequence[str], name: str) -> int:
    """The colour of a load: both ends of the scale are used, whatever their number."""
    return round(names.index(name) * (len(LOADS) - 1) / max(1, len(names) - 1))


def _corners(found: Sequence[float]) -> tuple[list[float], list[float]]:
    """The curve's corners; of many requests so many as a page can bear, its end among them."""
    n = len(found)
    step = max(1, -(-n // _CORNERS))
    places = [*range(0, n - 1, step), n - 1]
    return [found[0], *(found[place] for place in places)], [0.0, *((place + 1) / n for place in places)]


def _axis(axes: "Axes", times: Sequence[Sequence[float]]) -> None:
    times_axis(axes, [time for own in times for time in own], which="x")
    axes.set_xlabel("ms, from when it was due or sent", fontsize=9)
    axes.set_yticks([0, 0.5, 0.9, 0.99], ["0", "50 %", "90 %", "99 %"])
    axes.tick_params(axis="y", labelcolor=MUTED, labelsize=9)
    axes.set_ylim(0, 1.02)
    axes.grid(visible=True)
    axes.set_axisbelow(True)
