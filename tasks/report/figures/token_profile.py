"""How long the prompts are, one panel a dataset, with the engine's limits drawn in."""

from typing import TYPE_CHECKING

from tasks.report.data import ReportData
from tasks.report.figures.style import BAD, GUIDED, INK, MUTED, OTHER, Table, cell, drawing, new_figure
from tasks.report.profiles import profile_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Prompt lengths against the engine's limits"
_LIMITS = (
    ("long_prefill_token_threshold", "prefill threshold", OTHER, "--"),
    ("max_num_batched_tokens", "token budget", INK, ":"),
    ("max_model_len", "max_model_len", BAD, "-"),
)


def limits(data: ReportData) -> list[tuple[str, int, str, str]]:
    """(label, tokens, colour, line style) of each limit that the engine really had; 0 means off and is left out."""
    engine = data.engines[-1] if data.engines else {}
    found = [(label, engine.get(column), colour, style) for column, label, colour, style in _LIMITS]
    return [(label, int(value), colour, style) for label, value, colour, style in found if value]


def describe(data: ReportData) -> str:
    """What the figure shows, in words."""
    parts = [
        f"{row['dataset']}: {row['n']} prompts of {row['tokens_min']} to {row['tokens_max']} tokens"
        for row in profile_table(data)
    ]
    lines = [f"{label} {value}" for label, value, _, _ in limits(data)]
    return "; ".join(parts + lines) + "."


def table(data: ReportData) -> Table:
    """The bars as numbers."""
    return (
        ("Dataset", "Arms", "From, tokens", "below", "Prompts"),
        [
            (row["dataset"], ", ".join(map(str, row["arms"])), cell(part["lo"]), cell(part["hi"]), cell(part["n"]))
            for row in profile_table(data)
            for part in row.get("histogram") or []
            if part["n"]
        ],
    )


def draw(data: ReportData) -> "Figure | None":
    """The figure; None where nothing was profiled."""
    rows = [row for row in profile_table(data) if row.get("histogram")]
    if not rows:
        return None
    lines = limits(data)
    with drawing():
        fig = new_figure(width=9.2, height=1.2 + 1.05 * len(rows))
        panels = fig.subplots(len(rows), 1, sharex=True, squeeze=False)[:, 0]
        lowest = min(max(1, row["tokens_min"]) for row in rows)
        highest = max([row["tokens_max"] for row in rows] + [value for _, value, _, _ in lines])
        for axes, row in zip(panels, rows, strict=True):
            bins = [part for part in row["histogram"] if part["n"]]
            left = [max(1, part["lo"]) for part in bins]
            width = [max(part["hi"], start + 1) - start for part, start in zip(bins, left, strict=True)]
            axes.bar(left, [part["n"] for part in bins], width=width, align="edge", color=GUIDED, alpha=0.75)
            for _, value, colour, style in lines:
                axes.axvline(value, color=colour, linestyle=style, linewidth=1.5)
            several = sum(other["dataset"] == row["dataset"] for other in rows) > 1
            axes.set_title(f"{row['dataset']} ({', '.join(row['arms'])})" if several else row["dataset"], pad=3)
            axes.set_xscale("log", base=2)
            axes.set_xlim(lowest / 1.25, highest * 1.3)
            axes.tick_params(axis="y", labelcolor=MUTED, labelsize=9)
            axes.yaxis.get_major_locator().set_params(integer=True, nbins=3)
            axes.grid(visible=True, axis="y")
            axes.set_axisbelow(True)
        panels[-1].xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        panels[-1].set_xlabel("prompt length in tokens (logarithmic)")
        fig.supylabel("prompts", color=MUTED, fontsize=10.5)
        handles = [panels[0].plot([], [], color=colour, linestyle=style)[0] for _, _, colour, style in lines]
        if handles:
            fig.legend(
                handles, [f"{label} {value:,}" for label, value, _, _ in lines],
                loc="outside upper left", ncols=len(handles), fontsize=10,
            )  # fmt: skip
    return fig
