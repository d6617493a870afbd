"""The figures of a run over a corpus of schemas: what came of the schemas, and how compile and mask times lie."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from schemas.corpus import BackendFigures
from tasks.corpus.figures import share_of
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
from tasks.report.numbers import DASH
from tasks.report.text import plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

VERDICTS_TITLE = "What came of the schemas"
SPLITS_TITLE = "What a backend takes and gets right, by split"
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
_SHARES = (("takes", "accepted"), ("right", "right"))
MOST_SPLITS = 40
"""Splits that one figure can bear: the largest; the table has them all."""
_LABEL = 30
_APART = 0.18
"""How far the dots of two backends stand apart, where the next split is 1 below."""
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


def splits_numbers(found: Sequence[BackendFigures]) -> Table:
    """The dots as numbers."""
    rows = []
    for split, own in _by_split(found).items():
        for each in own:
            shares = [share_of(each, field) for _, field in _SHARES]
            told = [DASH if share is None else "{:.1%} [{:.1%}, {:.1%}]".format(*share) for share in shares]
            rows.append((split, each.backend, f"{each.schemas:,}", *told))
    return ("Split", "Backend", "Schemas", *(name for name, _ in _SHARES)), rows


def draw_splits(found: Sequence[BackendFigures]) -> "Figure | None":
    """A line a split, on it a dot a backend with its interval; None where the corpus has one split."""
    splits = _by_split(found)
    if not splits:
        return None
    backends = list(dict.fromkeys(each.backend for own in splits.values() for each in own))
    step = _APART if len(backends) <= len(_COLOURS) else _APART * len(_COLOURS) / len(backends)
    with drawing():
        fig = new_figure(width=9.2, height=1.2 + (0.2 + 0.11 * len(backends)) * len(splits))
        panels = fig.subplots(1, len(_SHARES), sharey=True)
        keys = {}
        for axes, (name, field) in zip(panels, _SHARES, strict=True):
            bare(axes, grid="x")
            for line, own in enumerate(splits.values()):
                for each in own:
                    number = backends.index(each.backend)
                    colour = _COLOURS[number % len(_COLOURS)]
                    at = line + (number - (len(backends) - 1) / 2) * step
                    share = share_of(each, field)
                    if share is None:
                        continue
                    value, lo, hi = (100 * part for part in share)
                    axes.plot([lo, hi], [at, at], color=colour, linewidth=1.4)
                    keys[each.backend] = axes.plot(value, at, "o", color=colour, markersize=4.5, markeredgewidth=0)[0]
            axes.set_title(name, fontsize=10)
            axes.set_xlim(-2, 102)
            axes.set_xlabel("%")
        panels[0].set_yticks(range(len(splits)), [_short(split) for split in splits])
        panels[0].set_ylim(len(splits) - 0.5, -0.5)
        legend(fig, list(keys.values()), list(keys))
    return fig


def _by_split(found: Sequence[BackendFigures]) -> dict[str, list[BackendFigures]]:
    """By split, in the corpus's order: of too many, the largest."""
    splits: dict[str, list[BackendFigures]] = {}
    for each in found:
        if each.split is not None:
            splits.setdefault(each.split, []).append(each)
    largest = sorted(splits, key=lambda split: -splits[split][0].schemas)[:MOST_SPLITS]
    return {split: own for split, own in splits.items() if split in largest}


def _short(text: str) -> str:
    shown = plain(text)
    return shown if len(shown) <= _LABEL else f"{shown[: _LABEL - 1]}…"


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
