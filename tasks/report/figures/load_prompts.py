"""How long prompts of each length wait for their first token, at the lightest load and at the heaviest."""

from typing import TYPE_CHECKING, Any

from tasks.report.benchmark import Part, bucket_words, load_words, parts, points
from tasks.report.benchmark_time import load_height
from tasks.report.data import ReportData, arm_order
from tasks.report.figures.style import MUTED, Table, arm_colour, cell, drawing, legend, new_figure, times_axis
from tasks.report.text import plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "First token by length of the prompt"
_P50, _P99 = "ttft_ms.p50", "ttft_ms.p99"


def _shown(data: ReportData) -> list[Part]:
    """The buckets of the lightest and of the heaviest load that have several."""
    found = [part for part in parts(data).get("bucket", []) if {_P50, _P99} <= part.figures.keys()]
    height = {point.name: 0.0 for point in points(data)}
    for part in found:
        height[part.point.name] = max(height[part.point.name], load_height(data, part.point))
    names = sorted({part.point.name for part in found}, key=lambda name: height[name])
    kept = {*names[:1], *names[-1:]}
    return [part for part in found if part.point.name in kept]


def _groups(data: ReportData) -> list[tuple[str, str]]:
    """(load, arm) of what stands side by side in each bucket: the lightest load first."""
    height = {part.point.name: load_height(data, part.point) for part in _shown(data)}
    found = {(part.point.name, part.point.arm) for part in _shown(data)}
    return sorted(found, key=lambda pair: (height[pair[0]], arm_order(pair[1])))


def describe(data: ReportData) -> str:
    """What the figure shows, in words."""
    said = [
        f"{bucket_words(part.name)} tokens, {load_words(part.point)}, {part.point.arm}: "
        f"median {part.figures[_P50].value:.1f} ms, 99 % within {part.figures[_P99].value:.1f} ms"
        for part in _shown(data)
    ]
    return plain("; ".join(said) + ".")


def table(data: ReportData) -> Table:
    """The bars as numbers."""
    rows = [
        (
            bucket_words(part.name),
            load_words(part.point),
            part.point.arm,
            *(cell(part.figures[name].value) for name in (_P50, _P99)),
        )
        for part in _shown(data)
    ]
    return ("Prompt, tokens", "Load", "Arm", "ttft p50, ms", "ttft p99, ms"), rows


def draw(data: ReportData) -> "Figure | None":
    """The figure; None where all prompts are of one bucket."""
    shown = _shown(data)
    if not shown:
        return None
    groups = _groups(data)
    names = list(dict.fromkeys(part.name for part in shown))
    loads = list(dict.fromkeys(load for load, _ in groups))
    with drawing():
        fig = new_figure(width=9.2, height=3.3)
        axes = fig.subplots()
        keys: dict[str, Any] = {}
        ends: list[float] = []
        for part in shown:
            group = (part.point.name, part.point.arm)
            place = names.index(part.name) + 0.62 * ((groups.index(group) + 0.5) / len(groups) - 0.5)
            low, high = part.figures[_P50].value or 0.0, part.figures[_P99].value or 0.0
            ends += [end for end in (low, high) if end > 0]
            light = len(loads) > 1 and part.point.name == loads[0]
            colour = arm_colour(part.point.arm)
            axes.plot([place, place], [low, high], color=colour, linewidth=3 if not light else 1.2, alpha=0.85)
            axes.plot([place], [high], "_", color=colour, markersize=9, markeredgewidth=1.8)
            (dot,) = axes.plot(
                [place], [low], "o", color=colour, markersize=7, markerfacecolor="none" if light else colour,
                markeredgewidth=1.5,
            )  # fmt: skip
            keys.setdefault(plain(f"{load_words(part.point)}, {part.point.arm}"), dot)
        times_axis(axes, ends, which="y")
        axes.set_xticks(range(len(names)), [plain(bucket_words(name)) for name in names])
        axes.set_xlim(-0.6, len(names) - 0.4)
        axes.set_xlabel("tokens of the prompt")
        axes.set_ylabel("ttft, ms: p50 (dot) to p99 (end)")
        axes.tick_params(axis="y", labelcolor=MUTED, labelsize=9)
        axes.grid(visible=True, axis="y")
        axes.set_axisbelow(True)
        legend(fig, list(keys.values()), list(keys), across=min(4, len(keys)))
    return fig
