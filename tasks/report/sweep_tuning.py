"""The figures and rows of a tuning: throughput against latency, what mattered, how the search went."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from schemas.tune import Trial, Tuned
from tasks.cells import figure_words as words
from tasks.report.figures.style import (
    BAD,
    FREE,
    GOOD,
    GUIDED,
    INK,
    LINE,
    MUTED,
    Table,
    bare,
    cell,
    drawing,
    legend,
    new_figure,
)
from tasks.report.numbers import DASH, number, seconds, share
from tasks.report.text import plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PARETO_TITLE = "Throughput against latency"
IMPORTANCES_TITLE = "Which keys mattered"
HISTORY_TITLE = "How the search went"
THROUGHPUT = "throughput.output_tokens_per_s"
_REFERENCES = {"plan": "the plan", "vllm": "vLLM's defaults"}
_LABEL = 44
_COLOURS = {"measured": GUIDED, "pruned": MUTED, "infeasible": BAD, "repeated": GUIDED}


def trial_rows(tuned: Tuned) -> list[dict[str, Any]]:
    """The trials as rows of text, the best first where there is a value, then the others by number."""
    sign = -1 if tuned.direction == "higher" else 1
    ordered = sorted(
        tuned.trials, key=lambda each: (not each.feasible, sign * (each.value or 0.0) if each.feasible else each.number)
    )
    return [
        {
            "number": each.number,
            "winner": each.number == tuned.winner,
            "front": each.number in tuned.front,
            "settings": trial_name(each),
            "state": each.state,
            "value": DASH if each.value is None else number(each.value),
            "first": DASH if each.first_value is None else number(each.first_value),
            "throughput": _figure(each, THROUGHPUT),
            "latency": _figure(each, tuned.latency),
            "seconds": DASH if each.seconds is None else seconds(each.seconds),
            "reason": each.reason or each.why or "",
            "run_ids": each.run_ids,
        }
        for each in ordered
    ]


def trial_name(trial: Trial) -> str:
    """What a trial set; the two that every tuning measures first by their names."""
    return _REFERENCES[trial.reference] if trial.reference else words.settings(trial.settings)


def pareto_table(tuned: Tuned) -> Table:
    """The points as numbers, those on the front first."""
    rows: list[tuple[str, ...]] = [
        (
            str(each.number),
            trial_name(each),
            _figure(each, THROUGHPUT),
            _figure(each, tuned.latency),
            "yes" if each.number in tuned.front else "no",
        )
        for each in sorted(_points(tuned), key=lambda each: each.number not in tuned.front)
    ]
    return ("Trial", "Settings", words.title(THROUGHPUT), words.title(tuned.latency), "On the front"), rows


def draw_pareto(tuned: Tuned) -> "Figure | None":
    """Each measured trial, the front as a line; None where fewer than two have both figures."""
    points = _points(tuned)
    if len(points) < 2:
        return None
    with drawing():
        fig = new_figure(width=9.2, height=4.0)
        axes = fig.subplots()
        axes.grid(visible=True)
        axes.set_axisbelow(True)
        keys: dict[str, Any] = {}
        for each in points:
            place = (each.figures[tuned.latency], each.figures[THROUGHPUT])
            kind, colour = ("within the limits", GUIDED) if each.feasible else ("misses the limits", BAD)
            face = colour if each.feasible else "none"
            keys[kind] = axes.plot(*place, "o", color=colour, markerfacecolor=face, markersize=7, markeredgewidth=1.4)[
                0
            ]
        front = [each for number_ in tuned.front for each in points if each.number == number_]
        if front:
            line = [[each.figures[name] for each in front] for name in (tuned.latency, THROUGHPUT)]
            keys["beaten by none"] = axes.plot(*line, color=GOOD, linewidth=1.6, zorder=1)[0]
        _name_points(axes, tuned, points)
        axes.set_xlabel(f"{words.title(tuned.latency)}, ms (left is better)")
        axes.set_ylabel(f"{words.title(THROUGHPUT)} (up is better)")
        axes.margins(x=0.12, y=0.14)
        legend(fig, list(keys.values()), list(keys))
    return fig


def importances_table(tuned: Tuned) -> Table:
    """The bars as numbers."""
    return ("Key", "Share"), [(key, share(value)) for key, value in _ranked(tuned)]


def draw_importances(tuned: Tuned) -> "Figure | None":
    """One bar a key; None where there were too few trials to tell."""
    ranked = _ranked(tuned)
    if not ranked:
        return None
    with drawing():
        fig = new_figure(width=9.2, height=0.8 + 0.34 * len(ranked))
        axes = fig.subplots()
        bare(axes, grid="x")
        axes.barh(range(len(ranked)), [value for _, value in ranked], height=0.6, color=GUIDED)
        for line, (_, value) in enumerate(ranked):
            axes.annotate(
                share(value), (value, line), xytext=(5, 0), textcoords="offset points", va="center", fontsize=9.5
            )
        axes.set_yticks(range(len(ranked)), [_short(key) for key, _ in ranked])
        axes.set_ylim(len(ranked) - 0.5, -0.5)
        axes.set_xlim(0, 1.12 * max(value for _, value in ranked) or 1.0)
        axes.set_xlabel("share of what tells good settings from bad ones")
    return fig


def history_table(tuned: Tuned) -> Table:
    """The points as numbers."""
    return (
        ("Trial", "State", "Value", "After the first samples"),
        [(str(each.number), each.state, cell(each.value), cell(each.first_value)) for each in tuned.trials],
    )


def draw_history(tuned: Tuned) -> "Figure | None":
    """The value of each trial in turn, and the best so far; None where no trial has a value."""
    values = [each for each in tuned.trials if each.feasible]
    if not values:
        return None
    with drawing():
        from matplotlib.ticker import MaxNLocator  # noqa: PLC0415 - see drawing()

        fig = new_figure(width=9.2, height=3.2)
        axes = fig.subplots()
        axes.grid(visible=True, axis="y")
        axes.set_axisbelow(True)
        keys: dict[str, Any] = {}
        for each in tuned.trials:
            value = each.value if each.feasible else each.first_value
            colour = _COLOURS.get(each.state, LINE)
            if value is None:
                keys["no value"] = axes.plot(
                    each.number, 0.03, "x", color=colour, markersize=7, transform=axes.get_xaxis_transform()
                )[0]
                continue
            face = colour if each.feasible else "none"
            drawn = axes.plot(each.number, value, "o", color=colour, markerfacecolor=face, markersize=6.5)[0]
            keys["measured" if each.feasible else f"{each.state}, after the first samples"] = drawn
        best = _best_so_far(values, higher=tuned.direction == "higher")
        numbers = [each.number for each in values] + [max(each.number for each in tuned.trials)]
        keys["best so far"] = axes.step(numbers, [*best, best[-1]], where="post", color=GOOD, linewidth=1.6)[0]
        axes.xaxis.set_major_locator(MaxNLocator(10, integer=True))
        axes.set_xlabel("trial")
        axes.set_ylabel(_short(tuned.objective))
        legend(fig, list(keys.values()), list(keys))
    return fig


def _best_so_far(values: Sequence[Trial], *, higher: bool) -> list[float]:
    best: list[float] = []
    for each in values:
        value = each.value if each.value is not None else 0.0
        best.append(value if not best else max(best[-1], value) if higher else min(best[-1], value))
    return best


def _points(tuned: Tuned) -> list[Trial]:
    """Trials that ran as a whole and have both figures: what a few samples say of throughput is another load's."""
    wanted = {THROUGHPUT, tuned.latency}
    return [each for each in tuned.trials if wanted <= each.figures.keys() and each.state in ("measured", "infeasible")]


def _name_points(axes: "Axes", tuned: Tuned, points: Sequence[Trial]) -> None:
    for each in points:
        names = [_REFERENCES[each.reference]] if each.reference else []
        if each.number == tuned.winner:
            names.append("winner")
        if names:
            place = (each.figures[tuned.latency], each.figures[THROUGHPUT])
            colour = FREE if each.number == tuned.winner else INK
            axes.annotate(
                " and ".join(names), place, xytext=(8, 6), textcoords="offset points", color=colour, fontsize=9.5
            )


def _ranked(tuned: Tuned) -> list[tuple[str, float]]:
    return sorted(tuned.importances.items(), key=lambda item: -item[1])


def _figure(trial: Trial, name: str) -> str:
    if name not in trial.figures:
        return DASH
    return words.plain_value(trial.figures[name], "ms" if "_ms." in name else "")


def _short(text: str) -> str:
    shown = plain(text)
    return shown if len(shown) <= _LABEL else f"{shown[: _LABEL - 1]}…"
