"""Throughput against the load, with the latencies that go with it beneath, and the knee where one was looked for."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tasks.compare.points import Measured
from tasks.report.benchmark import figure, knees, load_words, points
from tasks.report.data import ReportData
from tasks.report.figures.style import BAD, MUTED, Table, arm_colour, cell, drawing, legend, new_figure, times_axis
from tasks.report.numbers import is_number, number
from tasks.report.text import plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE = "Throughput and latency against the load"
_THROUGHPUT = "output_tokens_per_s"
_LATENCIES = (("ttft_ms", "ttft, ms"), ("tpot_ms", "tpot, ms"))


class _Axis(NamedTuple):
    """One column of panels: what its loads differ in. arrivals: of open loads, which are told apart by it."""

    kind: str
    label: str
    arrivals: str = ""


def _axes_of(data: ReportData) -> dict[_Axis, list[tuple[float, Measured]]]:
    """The points with a number to put them by, from the lightest on; only kinds of load that have several."""
    found: dict[_Axis, list[tuple[float, Measured]]] = {}
    for point in points(data):
        if point.kind in ("closed", "latency") and is_number(point.concurrency):
            found.setdefault(_Axis("closed", "requests in flight"), []).append((float(point.concurrency), point))
        elif point.kind == "open" and is_number(point.rate):
            how = load_words(point).rpartition(" ")[2] if not point.name.startswith("knee-") else ""
            way = f"{how} " if how not in ("", "Poisson") else ""
            found.setdefault(_Axis("open", f"{way}requests/s that come", way), []).append((float(point.rate), point))
    several = {axis: sorted(own, key=lambda pair: pair[0]) for axis, own in found.items()}
    return {axis: own for axis, own in several.items() if len({place for place, _ in own}) > 1}


def describe(data: ReportData) -> str:
    """What the figure shows, in words."""
    parts = []
    for own in _axes_of(data).values():
        for _, point in own:
            read = [(name, figure(point, name)) for name in (_THROUGHPUT, "ttft_ms.p99")]
            known = [f"{name} {number(found.value)}" for name, found in read if found is not None and found.value]
            parts.append(f"{load_words(point)}, {point.arm}: {', '.join(known)}")
    parts += [f"knee, {knee['arm']}: {knee['words']}" for knee in knees(data)]
    return plain("; ".join(parts) + ".")


def table(data: ReportData) -> Table:
    """The lines as numbers: medians over the repeats."""
    heads = ("Load", "Arm", "Output tokens/s", "ttft p50, ms", "ttft p99, ms", "tpot p50, ms", "tpot p99, ms")
    names = (_THROUGHPUT, "ttft_ms.p50", "ttft_ms.p99", "tpot_ms.p50", "tpot_ms.p99")
    rows = []
    for own in _axes_of(data).values():
        for _, point in own:
            read = [figure(point, name) for name in names]
            rows.append((load_words(point), point.arm, *(cell(None if each is None else each.value) for each in read)))
    return heads, rows


def draw(data: ReportData) -> "Figure | None":
    """The figure; None where no two loads differ in a number alone."""
    found = _axes_of(data)
    if not found:
        return None
    with drawing():
        from matplotlib.lines import Line2D  # noqa: PLC0415 - see drawing()

        fig = new_figure(width=9.2, height=5.6)
        grid = fig.subplots(1 + len(_LATENCIES), len(found), sharex="col", squeeze=False)
        keys: dict[str, Any] = {}
        for column, (axis, own) in enumerate(found.items()):
            top, *below = grid[:, column]
            arms = list(dict.fromkeys(point.arm for _, point in own))
            for arm in arms:
                of_arm = [(place, point) for place, point in own if point.arm == arm]
                keys[plain(arm)] = _line(top, of_arm, _THROUGHPUT, arm)
                for axes, (name, _) in zip(below, _LATENCIES, strict=True):
                    _line(axes, of_arm, f"{name}.p50", arm)
                    _line(axes, of_arm, f"{name}.p99", arm, style=(0, (3, 2)), hollow=True)
            top.set_title("output tokens/s", pad=3)
            rates = [read.value for _, point in own for read in [figure(point, _THROUGHPUT)] if read is not None]
            top.set_ylim(0, 1.2 * max((rate for rate in rates if rate), default=1.0))
            for axes, (name, title) in zip(below, _LATENCIES, strict=True):
                _latency_axis(axes, data, [point for _, point in own], name)
                axes.set_title(title, pad=3)
            if axis.kind == "open":
                _knee(grid[:, column], data)
            _places(below[-1], [place for place, _ in own])
            below[-1].set_xlabel(axis.label)
        keys["p50"] = Line2D([], [], color=MUTED, marker="o", markersize=5, linewidth=1.6)
        keys["p99"] = Line2D([], [], color=MUTED, marker="o", markersize=5, linewidth=1.4, linestyle=(0, (3, 2)),
                             markerfacecolor="none")  # fmt: skip
        if any(is_number(limit) for limit in (data.benchmark.get("slo") or {}).values()):
            keys["SLO"] = Line2D([], [], color=BAD, linewidth=1.1, linestyle=(0, (1, 1.5)))
        legend(fig, list(keys.values()), list(keys))
    return fig


def _line(
    axes: "Axes", own: Sequence[tuple[float, Measured]], name: str, arm: str, *, style: Any = "-", hollow: bool = False
) -> Any:
    """Medians, joined; each with the interval of its repeats."""
    known = [(place, read) for place, point in own for read in [figure(point, name)] if read is not None]
    colour = arm_colour(arm)
    for place, read in known:
        if read.lo is not None and read.hi is not None:
            axes.plot([place, place], [read.lo, read.hi], color=colour, linewidth=1.2, alpha=0.6)
    (line,) = axes.plot(
        [place for place, _ in known], [read.value for _, read in known],  # type: ignore[arg-type]
        color=colour, marker="o", markersize=5, linewidth=1.6, linestyle=style,
        markerfacecolor="none" if hollow else colour,
    )  # fmt: skip
    return line


def _latency_axis(axes: "Axes", data: ReportData, own: Sequence[Measured], name: str) -> None:
    read = [figure(point, f"{name}.{q}") for point in own for q in ("p50", "p99")]
    known = [each.value for each in read if each is not None and each.value]
    limit = (data.benchmark.get("slo") or {}).get(name)
    times_axis(axes, known, which="y")
    if known:  # by the medians alone: the interval of two repeats may be of any width
        near = [*known, limit] if is_number(limit) and limit < 4 * max(known) else known
        axes.set_ylim(top=1.25 * max(near))
        if axes.get_yscale() == "log":
            axes.set_ylim(bottom=min(known) / 1.4)
    if is_number(limit):
        axes.axhline(limit, color=BAD, linewidth=1.1, linestyle=(0, (1, 1.5)))


def _places(axes: "Axes", places: Sequence[float]) -> None:
    """Each load has its place on the axis, on a logarithmic one where they span more than eightfold."""
    from matplotlib.ticker import NullFormatter, NullLocator  # noqa: PLC0415 - see drawing()

    shown = sorted(set(places))
    if shown[0] > 0 and shown[-1] / shown[0] >= 8:
        axes.set_xscale("log", base=2)
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_xticks(shown, [f"{place:g}" if place < 100 else f"{place:,.0f}" for place in shown])
    elif len(shown) <= 8:
        axes.set_xticks(shown, [f"{place:.3g}" for place in shown])
    for each in axes.figure.axes:
        each.grid(visible=True, axis="both")
        each.set_axisbelow(True)
        each.tick_params(axis="y", labelcolor=MUTED, labelsize=9)


def _knee(column: Any, data: ReportData) -> None:
    found = [knee for knee in knees(data) if is_number(knee["rate"])]
    for index, knee in enumerate(found):
        colour = arm_colour(knee["arm"])
        for axes in column:
            if is_number(knee["above"]):
                axes.axvspan(knee["rate"], knee["above"], color=colour, alpha=0.08, linewidth=0)
            axes.axvline(knee["rate"], color=colour, linewidth=1.1)
        column[0].annotate(
            f"knee {number(float(knee['rate']))}/s", (knee["rate"], 1.0), xycoords=("data", "axes fraction"),
            xytext=(-4, -3 - 12 * index), textcoords="offset points", ha="right", va="top", color=colour, fontsize=9,
        )  # fmt: skip
