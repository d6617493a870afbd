"""The report's figures, one a module; the same ones go into the page as SVG and to a tracking server as PNG."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from tasks.report.data import ReportData
from tasks.report.figures import (
    engine_start,
    engine_steps,
    free_vs_guided,
    gates,
    latency,
    load_latency,
    load_pareto,
    load_prompts,
    load_throughput,
    load_timeline,
    quality,
    timeline,
    token_profile,
    usage,
)
from tasks.report.figures.style import Table, to_png, to_svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Kind(NamedTuple):
    """One figure: its heading, how it is drawn, what it shows in words, and its numbers as (heads, rows of cells)."""

    title: str
    draw: "Callable[[ReportData], Figure | None]"
    describe: Callable[[ReportData], str]
    table: Callable[[ReportData], Table]


KINDS: dict[str, Kind] = {
    name: Kind(title=module.TITLE, draw=module.draw, describe=module.describe, table=module.table)
    for name, module in (
        ("gates", gates),
        ("quality", quality),
        ("free_vs_guided", free_vs_guided),
        ("load_throughput", load_throughput),
        ("load_latency", load_latency),
        ("load_prompts", load_prompts),
        ("load_timeline", load_timeline),
        ("load_pareto", load_pareto),
        ("token_profile", token_profile),
        ("latency", latency),
        ("engine_start", engine_start),
        ("timeline", timeline),
        ("engine_steps", engine_steps),
        ("usage", usage),
    )
}


def figures(data: ReportData) -> "dict[str, Figure]":
    """Every figure that this run has something to show for, by name. Pass one to `to_png` or `to_svg`."""
    drawn = {name: kind.draw(data) for name, kind in KINDS.items()}
    return {name: figure for name, figure in drawn.items() if figure is not None}


def svgs(data: ReportData, *, drawn: "Mapping[str, Figure] | None" = None) -> dict[str, str]:
    """The same as SVG elements, with title and description.

    `drawn` is what `figures` gave, where it was called already; without it, one figure at a time is held in memory.
    """
    found = {}
    for name, kind in KINDS.items():
        figure = kind.draw(data) if drawn is None else drawn.get(name)
        if figure is not None:
            found[name] = to_svg(figure, name=name, title=kind.title, description=kind.describe(data))
    return found


__all__ = ["KINDS", "Kind", "Table", "figures", "svgs", "to_png", "to_svg"]
