"""The figures of a run over a corpus of schemas: what came of the schemas, and how compile and mask times lie."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from schemas.corpus import BackendFigures
from tasks.report.figures.style import (
    BAD,
    FREE,
    GOOD,
    GUIDED,
    INK,
    LINE,
    MUTED,
    OTHER,
    Table,
    bare,
    cell,
    drawing,
    legend,
    new_figure,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

VERDICTS_TITLE = "What came of the schemas"
COMPILE_TITLE = "Time to compile a schema"
MASKS_TITLE = "Time of a token's mask"
_KINDS = (
    ("right", GOOD),
    ("over or under", BAD),
    ("untested", LINE),
    ("refused", MUTED),
    ("timeout or crash", OTHER),
)
_COLOURS = (GUIDED, FREE, OTHER, INK)
_QUANTILES = np.linspace(0, 1, 201)
_SHOWN = (50, 90, 95, 99, 100)
_LEAST = 1e-3
"""Under a logarithm no time is 0."""


def verdict_counts(found: Sequence[BackendFigures]) -> dict[str, list[int]]:
    """By backend: schemas of each kind that the bars have, in their order."""
    return {
        each.backend: [
            each.right,
            each.accepted - each.right - each.untested,
            each.untested,
            each.refused,
            each.timeout + each.crashed + each.error,
        ]
        for each in found
        if each.split is None
    }


def verdicts_table(found: Sequence[BackendFigures]) -> Table:
    """The bars as numbers."""
    heads = ("Backend", *(name for name, _ in _KINDS))
    return heads, [(name, *(f"{count:,}" for count in counts)) for name, counts in verdict_counts(found).items()]


def draw_verdicts(found: Sequence[BackendFigures]) -> "Figure":
    """A bar a backend: of how many schemas it is right, wrong, or makes nothing."""
    counts = verdict_counts(found)
    with drawing():
        fig = new_figure(width=9.2, height=1.0 + 0.5 * len(counts))
        axes = fig.subplots()
        bare(axes, grid="x")
        keys = []
        left = np.zeros(len(counts))
        for number, (_, colour) in enumerate(_KINDS):
            widths = np.array([each[number] for each in counts.values()], dtype=float)
            keys.append(axes.barh(range(len(counts)), widths, left=left, color=colour, height=0.62))
            left += widths
        axes.set_yticks(range(len(counts)), list(counts))
        axes.set_ylim(len(counts) - 0.5, -0.5)
        axes.set_xlabel("schemas")
        legend(fig, keys, [name for name, _ in _KINDS])
    return fig


def draw_times(times: Mapping[str, "np.ndarray[Any, Any]"], *, unit: str) -> "Figure | None":
    """A line a backend: which share of the times lies below. None where there are none."""
    there = {name: values for name, values in times.items() if len(values)}
    if not there:
        return None
    with drawing():
        fig = new_figure(width=9.2, height=3.4)
        axes = fig.subplots()
        keys = []
        for number, values in enumerate(there.values()):
            at = np.maximum(np.quantile(values, _QUANTILES), _LEAST)
            keys += axes.plot(at, _QUANTILES * 100, color=_COLOURS[number % len(_COLOURS)], linewidth=1.8)
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.grid(visible=True)
        axes.set_ylim(0, 101)
        axes.set_xlabel(unit)
        axes.set_ylabel("share below, %")
        legend(fig, keys, list(there))
    return fig


def times_table(times: Mapping[str, "np.ndarray[Any, Any]"], *, unit: str) -> Table:
    """The lines as numbers."""
    heads = ("Backend", "times", f"mean {unit}", *("longest" if at == 100 else f"p{at}" for at in _SHOWN))
    rows = [
        (
            name,
            f"{len(values):,}",
            cell(float(values.mean())),
            *(cell(float(np.percentile(values, at))) for at in _SHOWN),
        )
        for name, values in times.items()
        if len(values)
    ]
    return heads, rows
