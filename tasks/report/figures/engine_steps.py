"""The engine over the time of the run: its batch and queue, the tokens of a step, the KV cache and preemptions."""

from typing import TYPE_CHECKING

from tasks.report.data import ReportData
from tasks.report.figures.style import BAD, INK, LINE, MUTED, PHASES, Table, cell, drawing, legend, new_figure
from tasks.report.numbers import share
from tasks.report.steps import Stretch, stretches
from tasks.report.timeline import REQUESTS, phases, shading

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE = "The engine's steps over the time of the run"
_ROWS = 24
_PROMPT, _DECODE = PHASES[4], PHASES[1]


def describe(data: ReportData) -> str:
    """What the figure shows, in words."""
    found = stretches(data)
    parts = [f"at most {max(each.running for each in found)} requests in a step"]
    waiting = [each.waiting for each in found if each.waiting is not None]
    parts += [f"at most {max(waiting)} waiting"] if waiting else []
    usage = [each.kv_usage for each in found if each.kv_usage is not None]
    parts += [f"at most {share(max(usage))} of the KV cache in use"] if usage else []
    preempted = [each.preempted for each in found if each.preempted is not None]
    parts += [f"{sum(preempted)} preemptions"] if preempted else []
    return "; ".join(parts) + "."


def table(data: ReportData) -> Table:
    """The panels at up to 24 moments."""
    found = stretches(data)
    step = max(1, -(-len(found) // _ROWS))
    heads = (
        "Seconds since the run began",
        "Running",
        "Waiting",
        "Prompt tokens",
        "Other tokens",
        "KV cache",
        "Preempted",
    )
    rows = [
        (
            f"{each.end:.1f}",
            cell(each.running),
            cell(each.waiting),
            cell(each.prompt_tokens),
            cell(each.decode_tokens),
            cell(each.kv_usage),
            cell(each.preempted),
        )
        for each in found[::step]
    ]
    return heads, rows


def draw(data: ReportData) -> "Figure | None":
    """The figure; None where no step was logged."""
    found = stretches(data)
    if not found:
        return None
    spans = phases(data)
    with drawing():
        fig = new_figure(width=9.2, height=4.9)
        batch, tokens, cache = fig.subplots(3, 1, sharex=True)
        keys = {"running": _line(batch, found, [each.running for each in found], INK)}
        if any(each.waiting is not None for each in found):
            keys["waiting"] = _line(batch, found, [each.waiting for each in found], MUTED, style=(0, (3, 2)))
        batch.set_title("requests in a step, and waiting", pad=3)
        keys |= _tokens(tokens, found)
        tokens.set_title("tokens of a step", pad=3)
        _line(cache, found, [None if each.kv_usage is None else 100 * each.kv_usage for each in found], INK)
        moments = [each.end for each in found if each.preempted]
        if moments:
            height = 100 * max((each.kv_usage for each in found if each.kv_usage is not None), default=1.0)
            keys["preemption"] = cache.vlines(moments, 0, height, color=BAD, linewidth=1.1, alpha=0.8)
        cache.set_title("KV cache in use, %", pad=3)
        end = max([end for _, _, end in spans] + [found[-1].end])
        for axes in (batch, tokens, cache):
            for name, begun, ended in spans:
                if name != REQUESTS:
                    axes.axvspan(begun, ended, color=LINE, alpha=0.45, linewidth=0)
            axes.set_ylim(bottom=0)
            axes.set_xlim(0, end)
            axes.tick_params(axis="y", labelcolor=MUTED, labelsize=9)
            axes.grid(visible=True, axis="y")
            axes.set_axisbelow(True)
        for axes in (batch, tokens):
            axes.yaxis.get_major_locator().set_params(integer=True, nbins=4)
        cache.yaxis.get_major_locator().set_params(nbins=4)
        cache.set_xlabel(f"seconds since the run began ({shading(data)})")
        legend(fig, list(keys.values()), list(keys))
    return fig


def _corners(found: list[Stretch], values: list[float | int | None]) -> tuple[list[float], list[float]]:
    """The corners of a line that is level during a stretch, and zero where the engine stood idle for long."""
    times: list[float] = []
    heights: list[float] = []
    for each, value in zip(found, values, strict=True):
        if value is None:
            continue
        begin = max(each.begin, times[-1]) if times else each.begin
        if times and begin - times[-1] > 0.5:
            times += [times[-1], begin]
            heights += [0.0, 0.0]
        times += [begin, max(begin, each.end)]
        heights += [value, value]
    return times, heights


def _line(
    axes: "Axes", found: list[Stretch], values: list[float | int | None], colour: str, style: object = "-"
) -> object:
    times, heights = _corners(found, values)
    return axes.plot(times, heights, color=colour, linewidth=1.5, linestyle=style)[0]  # type: ignore[arg-type]


def _tokens(axes: "Axes", found: list[Stretch]) -> dict[str, object]:
    """Prompt tokens above the others, stacked."""
    told = [each for each in found if each.prompt_tokens is not None and each.decode_tokens is not None]
    if not told:
        return {}
    times, low = _corners(told, [each.decode_tokens for each in told])
    _, high = _corners(told, [(each.decode_tokens or 0) + (each.prompt_tokens or 0) for each in told])
    return {
        "prompt tokens": axes.fill_between(times, low, high, color=_PROMPT, linewidth=0),
        "tokens past the prompts": axes.fill_between(times, 0, low, color=_DECODE, linewidth=0),
    }
