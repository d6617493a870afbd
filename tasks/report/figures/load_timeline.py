"""One measured cell over its time: first tokens and gaps above, what the engine did at that moment beneath."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tasks.report.benchmark_time import (
    Shown,
    Stall,
    Step,
    all_gaps,
    failed_at,
    first_tokens,
    powers,
    shown_cell,
    stalls,
    steps_of,
    stretched,
    thinned,
)
from tasks.report.data import ReportData
from tasks.report.figures.style import (
    BAD,
    INK,
    MUTED,
    PHASES,
    Table,
    arm_colour,
    cell,
    drawing,
    legend,
    new_figure,
    times_axis,
)
from tasks.report.numbers import is_number, number
from tasks.report.text import plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE = "The highest load over its time, and what the engine did meanwhile"
_MOST = 400
"""Dots of a panel, and steps of a line."""
_ROWS = 24
_PROMPT, _HITS = PHASES[4], PHASES[6]
_FEW = 150
"""So few dots are drawn larger."""

_Panel = tuple[str, "Callable[[Axes], dict[str, Any]]"]
"""A heading, and what draws the panel and gives its keys."""


def describe(data: ReportData) -> str:
    """What the figure shows, in words."""
    shown = shown_cell(data)
    if shown is None:
        return ""
    said = [f"{shown.words}: {shown.seconds:.1f} s, {len(first_tokens(data, shown)):,} first tokens"]
    said += [
        f"at {each.begin:.2f} s {each.answers} answers stood still for up to {number(each.ms)} ms: {each.why}"
        for each in stalls(data)
    ]
    return plain("; ".join(said) + ".")


def table(data: ReportData) -> Table:
    """The engine's panels and the longest gap at up to 24 stretches of time."""
    shown = shown_cell(data)
    heads = (
        "Seconds since the load began", "First tokens", "ttft, longest, ms", "Gap, longest, ms", "Running", "Waiting",
        "Prompt tokens, most in a step", "Step, longest, ms", "KV cache, most", "Preempted", "Prefix tokens found",
    )  # fmt: skip
    if shown is None:
        return heads, []
    width = shown.seconds / _ROWS
    firsts, gaps, steps = first_tokens(data, shown), all_gaps(data, shown), steps_of(data, shown)
    rows = []
    for index in range(_ROWS):
        begin, end = index * width, (index + 1) * width
        own = [each for each in steps if begin <= each.end < end]
        ttfts = [ttft for at, ttft in firsts if begin <= at + ttft / 1000 < end]
        longest = max((gap.ms for gap in gaps if begin <= gap.end < end), default=None)
        together = stretched(own, most=1)[0] if own else None
        told = [None if together is None else getattr(together, name) for name in (
            "running", "waiting", "prompt_tokens", "step_ms", "kv_usage", "preempted", "prefix_hits")]  # fmt: skip
        if own or ttfts or longest is not None:
            rows.append(
                (f"{begin:.1f}", f"{len(ttfts):,}", cell(max(ttfts, default=None)), cell(longest), *map(cell, told))
            )
    return heads, rows


def draw(data: ReportData) -> "Figure | None":
    """The figure; None where nothing was measured under load."""
    shown = shown_cell(data)
    if shown is None or not first_tokens(data, shown):
        return None
    panels = [*_of_requests(data, shown), *_of_engine(data, shown), *_of_power(data, shown)]
    with drawing():
        fig = new_figure(width=9.2, height=0.75 + 1.05 * len(panels))
        axes = fig.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
        keys: dict[str, Any] = {}
        for each, (title, fill) in zip(axes, panels, strict=True):
            keys |= fill(each)
            each.set_title(title, pad=3)
            each.tick_params(axis="y", labelcolor=MUTED, labelsize=9)
            each.grid(visible=True, axis="y")
            each.set_axisbelow(True)
            for stall in stalls(data):
                each.axvspan(stall.begin, stall.end, color=BAD, alpha=0.1, linewidth=0)
        axes[-1].set_xlim(0, max([shown.seconds, *(at + ttft / 1000 for at, ttft in first_tokens(data, shown))]))
        axes[-1].set_xlabel(f"seconds since the load began: {plain(shown.words)}")
        legend(fig, list(keys.values()), list(keys))
    return fig


def _of_requests(data: ReportData, shown: Shown) -> list[_Panel]:
    found: list[_Panel] = [("ttft, ms, when the token came", lambda axes: _ttfts(axes, data, shown))]
    gaps = all_gaps(data, shown)
    if gaps:
        found.append(("gap to the token before, ms", lambda axes: _gaps(axes, data, shown)))
    return found


def _ttfts(axes: "Axes", data: ReportData, shown: Shown) -> dict[str, Any]:
    firsts = first_tokens(data, shown)
    step = max(1, -(-len(firsts) // _MOST))
    kept = firsts[::step]
    colour = arm_colour(shown.point.arm)
    axes.plot([at + ttft / 1000 for at, ttft in kept], [ttft for _, ttft in kept], ".", color=colour,
              markersize=_size(kept), alpha=0.7, markeredgewidth=0)  # fmt: skip
    _scale(axes, [ttft for _, ttft in firsts])
    failed = failed_at(data, shown)[:_MOST]
    if not failed:
        return {}
    (marks,) = axes.plot(
        failed, [0.94] * len(failed), "x", color=BAD, markersize=5, transform=axes.get_xaxis_transform()
    )
    return {"failed request": marks}


def _gaps(axes: "Axes", data: ReportData, shown: Shown) -> dict[str, Any]:
    gaps = all_gaps(data, shown)
    kept = thinned(gaps, most=_MOST)
    axes.plot([gap.end for gap in kept], [gap.ms for gap in kept], ".", color=arm_colour(shown.point.arm),
              markersize=_size(kept), alpha=0.6, markeredgewidth=0)  # fmt: skip
    _scale(axes, [gap.ms for gap in gaps])
    _number(axes, stalls(data), seconds=shown.seconds)
    return {}


def _size(dots: Sequence[object]) -> float:
    return 8.0 if len(dots) <= _FEW else 4.5


def _number(axes: "Axes", found: Sequence[Stall], *, seconds: float) -> None:
    """The stalls' numbers in the table, one below the other where two are close."""
    last, height = -1.0, 0
    for index, stall in enumerate(found, start=1):
        middle = (stall.begin + stall.end) / 2
        height = height + 1 if last >= 0 and middle - last < 0.02 * seconds else 0
        axes.annotate(
            str(index), (middle, 1.0), xycoords=("data", "axes fraction"), xytext=(0, -2 - 9 * height),
            textcoords="offset points", ha="center", va="top", color=BAD, fontsize=9, fontweight="bold",
        )  # fmt: skip
        last = middle


def _scale(axes: "Axes", heights: Sequence[float]) -> None:
    known = [height for height in heights if height > 0]
    times_axis(axes, known, which="y")
    if known:
        axes.set_ylim(top=1.25 * max(known))
        if axes.get_yscale() == "log":
            axes.set_ylim(bottom=min(known) / 1.4)


def _of_engine(data: ReportData, shown: Shown) -> list[_Panel]:
    steps = stretched(steps_of(data, shown), most=_MOST)
    if not steps:
        return []
    found: list[_Panel] = [("requests in a step, and waiting", lambda axes: _queue(axes, steps))]
    if any(step.step_ms is not None for step in steps):
        found.append(("time of a step, ms", lambda axes: _step_times(axes, steps)))
    if any(step.prompt_tokens is not None for step in steps):
        found.append(("prompt tokens of a step", lambda axes: _prompts(axes, steps)))
    if any(step.kv_usage is not None for step in steps):
        found.append(("KV cache in use, %", lambda axes: _cache(axes, steps)))
    return found


def _queue(axes: "Axes", steps: Sequence[Step]) -> dict[str, Any]:
    keys = {"running": _line(axes, steps, "running", INK)}
    if any(step.waiting for step in steps):
        keys["waiting"] = _line(axes, steps, "waiting", MUTED, style=(0, (3, 2)))
    axes.set_ylim(bottom=0)
    axes.yaxis.get_major_locator().set_params(integer=True, nbins=4)
    return keys


def _step_times(axes: "Axes", steps: Sequence[Step]) -> dict[str, Any]:
    known = [step for step in steps if step.step_ms is not None]
    axes.vlines([step.end for step in known], 0, [step.step_ms or 0.0 for step in known], color=INK, linewidth=0.9)
    axes.set_ylim(bottom=0)
    axes.yaxis.get_major_locator().set_params(nbins=4)
    return {}


def _prompts(axes: "Axes", steps: Sequence[Step]) -> dict[str, Any]:
    reading = [step for step in steps if step.prompt_tokens]
    keys: dict[str, Any] = {
        "prompt tokens": axes.vlines(
            [step.end for step in reading],
            0,
            [step.prompt_tokens or 0.0 for step in reading],
            color=_PROMPT,
            linewidth=1.3,
        )
    }
    hits = [step for step in steps if step.prefix_hits]
    if hits:
        (keys["found in the prefix cache"],) = axes.plot(
            [step.end for step in hits], [step.prefix_hits for step in hits],  # type: ignore[arg-type]
            ".", color=_HITS, markersize=5, markeredgewidth=0,
        )  # fmt: skip
    axes.set_ylim(bottom=0)
    axes.yaxis.get_major_locator().set_params(integer=True, nbins=4)
    return keys


def _cache(axes: "Axes", steps: Sequence[Step]) -> dict[str, Any]:
    known = [step._replace(kv_usage=100 * step.kv_usage) for step in steps if step.kv_usage is not None]
    _line(axes, known, "kv_usage", INK)
    axes.set_ylim(0, 105)
    axes.set_yticks([0, 50, 100])
    moments = [step.end for step in steps if step.preempted]
    return {"preemption": axes.vlines(moments, 0, 105, color=BAD, linewidth=1.1)} if moments else {}


def _line(axes: "Axes", steps: Sequence[Step], name: str, colour: str, *, style: Any = "-") -> Any:
    known = [(step.end, getattr(step, name)) for step in steps if is_number(getattr(step, name))]
    times, heights = [end for end, _ in known], [height for _, height in known]
    return axes.step(times, heights, where="pre", color=colour, linewidth=1.4, linestyle=style)[0]


def _of_power(data: ReportData, shown: Shown) -> list[_Panel]:
    read = powers(data, shown)
    if not read:
        return []

    def fill(axes: "Axes") -> dict[str, Any]:
        for device, own in read:
            kept = own[:: max(1, -(-len(own) // _MOST))]
            axes.plot([at for at, _ in kept], [watts for _, watts in kept], color=MUTED, linewidth=1.3)
            if len(read) > 1:
                axes.annotate(
                    plain(device[-6:]), kept[-1], xytext=(3, 0), textcoords="offset points", color=MUTED, fontsize=8,
                    va="center",
                )  # fmt: skip
        axes.set_ylim(bottom=0)
        axes.yaxis.get_major_locator().set_params(nbins=4)
        return {}

    return [("power, W", fill)]
