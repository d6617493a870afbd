"""Where the engine's start-up time went: one stacked bar an engine build."""

from typing import TYPE_CHECKING, Any

from tasks.report.data import ReportData
from tasks.report.engine import PHASE_NAMES, start_phases
from tasks.report.figures.style import INK, PHASES, Table, bare, drawing, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Engine start, by phase"


def describe(data: ReportData) -> str:
    """What the figure shows, in words."""
    bars = [start_phases(engine) for engine in data.engines]
    return "; ".join(", ".join(f"{name} {length:.2f} s" for name, length in bar) for bar in bars if bar) + "."


def table(data: ReportData) -> Table:
    """The bars as numbers."""
    return (
        ("Build", "Phase", "Seconds"),
        [
            (str(index + 1), name, f"{length:.2f}")
            for index, engine in enumerate(data.engines)
            for name, length in start_phases(engine)
        ],
    )


def draw(data: ReportData) -> "Figure | None":
    """The figure; None where no phase was timed."""
    bars = [bar for bar in map(start_phases, data.engines) if bar]
    if not bars:
        return None
    colours = dict(zip(PHASE_NAMES, PHASES, strict=False))
    with drawing():
        fig = new_figure(width=9.2, height=1.6 + 0.5 * len(bars))
        axes = fig.subplots()
        bare(axes, grid="x")
        keys = {}
        longest = max(sum(length for _, length in bar) for bar in bars)
        for line, bar in enumerate(bars):
            start = 0.0
            for name, length in bar:
                keys[name] = axes.barh(line, length, left=start, height=0.62, color=colours[name])
                start += length
            axes.annotate(
                f"{start:.1f} s", (start, line), xytext=(5, 0), textcoords="offset points", va="center", color=INK
            )
        axes.set_yticks(
            range(len(bars)), [f"build {index + 1}" for index in range(len(bars))] if len(bars) > 1 else [""]
        )
        axes.set_ylim(len(bars) - 0.5, -0.5)
        axes.set_xlim(0, longest * 1.09)
        axes.set_xlabel("seconds")
        shown = [name for name in PHASE_NAMES if name in keys]
        handles: list[Any] = [keys[name] for name in shown]
        fig.legend(
            handles, shown,
            loc="outside upper left", ncols=min(5, len(shown)), fontsize=9, handlelength=1, columnspacing=1.2,
        )  # fmt: skip
    return fig
