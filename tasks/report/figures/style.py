"""How every figure looks, and how it becomes SVG for the page or PNG for a tracking server.

The colours are named. A PNG gets their light values; in SVG each becomes a class (`f-ink` fills, `s-ink` strokes) that
the page's stylesheet colours for light and dark. The SVG carries no style of its own, so that a strict content policy
has nothing to refuse.
"""

import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from markupsafe import escape

from tasks.report.numbers import DASH, is_number, number
from tasks.report.text import plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK = "#1d2530"
MUTED = "#5b6776"
LINE = "#d5dae1"
FREE = "#c2570c"
GUIDED = "#0b6bcb"
OTHER = "#7a4fc0"
GOOD = "#14804a"
BAD = "#c02b2b"
PHASES = (
    "#7c8797", "#4b8fd8", "#94a9c4", "#2f6db0", "#e0973f", "#b5651e", "#5a9f6b", "#9a6fd0", "#c3cad4",
)  # fmt: skip

LOADS = (PHASES[2], PHASES[1], PHASES[6], PHASES[4], BAD)
"""Loads from the lightest to the heaviest."""

_LOGARITHMIC = 8.0
"""Times whose ends are so many times apart are drawn on a logarithmic axis."""

Table = tuple[tuple[str, ...], list[tuple[str, ...]]]
"""A figure's numbers in words: the heads of the columns, and rows of cells."""

_NAMES = {
    INK: "ink", MUTED: "muted", LINE: "line", FREE: "free", GUIDED: "guided", OTHER: "other", GOOD: "good", BAD: "bad",
    **{colour: f"p{index}" for index, colour in enumerate(PHASES)},
}  # fmt: skip

_RC: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "assay",
    "text.parse_math": False,
    "font.family": "DejaVu Sans",
    "font.size": 10.5,
    "axes.edgecolor": LINE,
    "axes.labelcolor": MUTED,
    "axes.titlecolor": INK,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "text.color": INK,
    "xtick.color": LINE,
    "ytick.color": LINE,
    "xtick.labelcolor": MUTED,
    "ytick.labelcolor": INK,
    "grid.color": LINE,
    "grid.linewidth": 0.8,
    "legend.frameon": False,
}

_STYLE = re.compile(r' style="([^"]*)"')
_KEPT = (
    "stroke-width", "stroke-dasharray", "stroke-dashoffset", "stroke-linecap", "stroke-linejoin", "opacity",
    "fill-opacity", "stroke-opacity", "text-anchor", "fill-rule",
    "font-weight",
)  # fmt: skip


def cell(value: object) -> str:
    """A number for a figure's table; a dash where there is none."""
    return number(value) if is_number(value) else DASH


def arm_colour(arm: str | None) -> str:
    """The colour that an arm has in every figure and table."""
    return {"free": FREE, "guided": GUIDED}.get(arm or "", OTHER)


@contextmanager
def drawing() -> Iterator[None]:
    """Inside, matplotlib draws in the report's style; outside, its settings are as they were."""
    import matplotlib as mpl  # noqa: PLC0415 - heavy, and only a run that ends needs it

    with mpl.rc_context(_RC):
        yield


def new_figure(*, width: float, height: float) -> "Figure":
    """An empty figure of so many inches, bound to no window and to no global state."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - see drawing()

    return Figure(figsize=(width, height), layout="constrained")


def bare(axes: "Axes", *, grid: str) -> None:
    """Leave an axis of names without its spine and ticks, and draw grid lines along the other (`x` or `y`)."""
    axes.grid(visible=True, axis=grid)  # type: ignore[arg-type]
    axes.set_axisbelow(True)
    axes.spines["left" if grid == "x" else "bottom"].set_visible(False)
    axes.tick_params(axis="y" if grid == "x" else "x", length=0)


def times_axis(axes: "Axes", known: Sequence[float], *, which: Literal["x", "y"]) -> None:
    """An axis for times or rates: logarithmic where they differ eightfold, else plain; numbers written in full."""
    from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter  # noqa: PLC0415 - see drawing()

    above = [value for value in known if value > 0]
    ratio = max(above) / min(above) if above else 1.0
    axis: Any = axes.xaxis if which == "x" else axes.yaxis
    if ratio >= _LOGARITHMIC:
        (axes.set_xscale if which == "x" else axes.set_yscale)("log")
        axis.set_major_locator(LogLocator(subs=(1, 3) if ratio < 300 else (1,), numticks=8))
        axis.set_minor_formatter(NullFormatter())
    else:
        axis.set_major_locator(MaxNLocator(5 if which == "x" else 4))
        if which == "y":
            axes.set_ylim(bottom=0)
    axis.set_major_formatter(lambda value, _: f"{value:,.0f}" if value >= 10 else f"{value:g}")


def legend(fig: "Figure", handles: list[Any], labels: list[str], *, across: int | None = None) -> None:
    """Keys above everything, in one row or so many of them beside each other."""
    fig.legend(
        handles, labels, loc="outside upper left", ncols=across or max(1, len(labels)), fontsize=10, handlelength=1.4
    )


def _attributes(match: re.Match[str]) -> str:
    classes: list[str] = []
    attributes: list[str] = []
    for part in match[1].split(";"):
        name, _, value = (piece.strip() for piece in part.partition(":"))
        if name in ("fill", "stroke"):
            if value.lower() in _NAMES:
                classes.append(f"{name[0]}-{_NAMES[value.lower()]}")
            else:
                attributes.append(f'{name}="{escape(value)}"')
        elif name == "font-size":
            attributes.append(f'font-size="{value.removesuffix("px")}"')
        elif name in _KEPT:
            attributes.append(f'{name}="{escape(value)}"')
    if classes:
        attributes.append(f'class="{" ".join(classes)}"')
    return "".join(f" {attribute}" for attribute in attributes)


def to_svg(fig: "Figure", *, name: str = "figure", title: str = "Figure", description: str = "") -> str:
    """The figure as an SVG element for an HTML page: no style, no script, ids that begin with `name`."""
    buffer = io.StringIO()
    with drawing():
        fig.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<style[^>]*>.*?</style>", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<!--.*?-->", "", svg, flags=re.DOTALL)
    svg = _STYLE.sub(_attributes, svg)
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', svg)
    svg = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", svg)
    svg = re.sub(r'href="#([^"]+)"', rf'href="#{name}-\1"', svg)
    svg = re.sub(r"\n\s*", "\n", svg)
    box = re.search(r'viewBox="([^"]+)"', svg)
    view = box[1] if box else "0 0 720 360"
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" viewBox="{view}" '
        f'role="img" aria-labelledby="{name}-t {name}-d"><title id="{name}-t">{escape(title)}</title>'
        f'<desc id="{name}-d">{escape(description)}</desc>'
    )
    return plain(head + svg[svg.index(">") + 1 :].rstrip())


def to_png(fig: "Figure", *, dpi: int = 144) -> bytes:
    """The figure as PNG bytes, on white, in the light colours."""
    buffer = io.BytesIO()
    with drawing():
        fig.savefig(buffer, format="png", dpi=dpi, facecolor="white")
    return buffer.getvalue()
