"""What is traded for what: throughput for latency over the loads, quality for cost over the arms."""

from typing import TYPE_CHECKING, Any

from tasks.report.benchmark_trade import Dot, Plane, loads_plane, quality_plane
from tasks.report.data import ReportData
from tasks.report.figures.style import MUTED, Table, arm_colour, cell, drawing, legend, new_figure, times_axis
from tasks.report.numbers import number
from tasks.report.text import plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE = "What is traded for what"
_LABEL = 34


def _planes(data: ReportData) -> list[Plane]:
    return [plane for plane in (loads_plane(data), quality_plane(data)) if plane is not None]


def describe(data: ReportData) -> str:
    """What the figure shows, in words."""
    said = []
    for plane in _planes(data):
        dots = [
            f"{dot.name}, {dot.arm}: {number(dot.x)}, {number(dot.y)}{', none better on both' if dot.is_best else ''}"
            for dot in plane.own
        ]
        runs = len({dot.run_id for dot in plane.earlier})
        behind = f"; {runs} earlier runs behind" if runs else ""
        said.append(f"{plane.y} against {plane.x}: {'; '.join(dots)}{behind}")
    return plain(". ".join(said) + ".")


def table(data: ReportData) -> Table:
    """The dots as numbers, earlier runs last."""
    rows: list[tuple[str, ...]] = [
        (plane.y, plane.x, dot.name or dot.run_id, dot.arm, cell(dot.y), cell(dot.x), "yes" if dot.is_best else "")
        for plane in _planes(data)
        for dot in (*plane.own, *plane.earlier)
    ]
    return ("Up", "Across", "Load or run", "Arm", "Up, value", "Across, value", "Nothing better on both"), rows


def draw(data: ReportData) -> "Figure | None":
    """The figure; None where there is nothing to trade."""
    planes = _planes(data)
    if not planes:
        return None
    with drawing():
        fig = new_figure(width=9.2, height=3.9)
        keys: dict[str, Any] = {}
        for axes, plane in zip(fig.subplots(1, len(planes), squeeze=False)[0], planes, strict=True):
            keys |= _plane(axes, plane)
        legend(fig, list(keys.values()), list(keys))
    return fig


def _plane(axes: "Axes", plane: Plane) -> dict[str, Any]:
    keys: dict[str, Any] = {}
    if plane.earlier:
        (keys["earlier runs"],) = axes.plot(
            [dot.x for dot in plane.earlier], [dot.y for dot in plane.earlier],
            "o", color=MUTED, markersize=5, alpha=0.35, markeredgewidth=0,
        )  # fmt: skip
    front = sorted((dot for dot in plane.own if dot.is_best), key=lambda dot: dot.x)
    if len(front) > 1:
        (keys["nothing better on both"],) = axes.plot(
            [dot.x for dot in front], [dot.y for dot in front], color=MUTED, linewidth=1.1, linestyle=(0, (3, 2))
        )
    for dot in plane.own:
        colour = arm_colour(dot.arm)
        (keys[plain(dot.arm)],) = axes.plot(
            [dot.x], [dot.y], "o", color=colour, markersize=8, markeredgewidth=1.4,
            markerfacecolor=colour if dot.is_best else "none", linestyle="none",
        )  # fmt: skip
    _axis(axes, plane)
    _labels(axes, plane.own)
    axes.set_xlabel(f"{plain(plane.x)} ({'left' if plane.x_is == 'lower' else 'right'} is better)", fontsize=9)
    axes.set_title(plain(plane.y), pad=6)
    return keys


def _axis(axes: "Axes", plane: Plane) -> None:
    xs = [dot.x for dot in (*plane.own, *plane.earlier)]
    ys = [dot.y for dot in (*plane.own, *plane.earlier)]
    times_axis(axes, xs, which="x")
    if axes.get_xscale() == "log":
        axes.set_xlim(min(each for each in xs if each > 0) / 1.6, max(xs) * 2.6)
    else:
        width = max(xs) - min(xs) or abs(max(xs)) or 1.0
        axes.set_xlim(min(xs) - 0.15 * width, max(xs) + 0.5 * width)
    top = max(ys)
    axes.set_ylim(0, top * 1.18 if top > 1 or plane.y.startswith("output") else min(1.05, top * 1.3) or 1.0)
    axes.tick_params(axis="y", labelcolor=MUTED, labelsize=9)
    axes.grid(visible=True)
    axes.set_axisbelow(True)


def _labels(axes: "Axes", dots: list[Dot]) -> None:
    """A name beside each dot, below or above it in turns, where dots may lie close; the arms of a load share one."""
    first: dict[str, Dot] = {}
    for dot in dots:
        first.setdefault(dot.name, dot)
    for index, dot in enumerate(sorted(first.values(), key=lambda dot: (dot.y, dot.x))):
        name = plain(dot.name)
        axes.annotate(
            name if len(name) <= _LABEL else f"{name[: _LABEL - 1]}…", (dot.x, dot.y),
            xytext=(7, 5 if index % 2 else -12), textcoords="offset points", color=MUTED, fontsize=8.5,
        )  # fmt: skip
