"""What came of cells, as tables for terminals, Markdown and pages. What was not measured is a dash."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from pydantic import Field

from schemas.base import Config
from schemas.cell_figures import LOAD, Changed, Effect, Figure, Repeated, Slo
from schemas.sweep import CellResult, CellState
from tasks.cells import figure_words as words
from tasks.cells.figures import figures_of
from tasks.cells.spread import over_repeats
from tasks.report.numbers import DASH, seconds

KEY_FIGURES = (
    "throughput.output_tokens_per_s",
    "e2e_ms.p50",
    "ttft_ms.p50",
    "tpot_ms.p50",
    "memory.peak_bytes",
    "start_s",
    "energy.j_per_output_token",
)
"""What a choice of engine is worth: throughput, latency, memory, start-up, energy."""
_IF_THERE = ("goodput.requests_per_s", "energy.j_per_output_token")
"""Columns of a sweep that are left away where no cell has them: no SLO was asked, no GPU was there."""

OF_LOAD = ("output_tokens_per_s", "ttft_ms.p50")
"""What is shown of a measured point beside other figures: what it got done, and how long the first token took."""
_MOST_LOADS = 6
"""Figures of measured loads in one table or drawing; the list of all effects has all of them."""

Rows = list[dict[str, str]]


class CellRun(Config):
    """One run of a cell, with its figures; none where it did not finish."""

    result: CellResult
    figures: dict[str, Figure] = Field(default_factory=dict)


class Ablated(Config):
    """One setting of an ablation against the control.

    effects: over the rounds in which both finished. failed: why rounds of it did not."""

    name: str
    effects: list[Effect] = Field(default_factory=list)
    changed: Changed | None = None
    failed: list[str] = Field(default_factory=list)


class Arm(Config):
    """One of several that were run in turns, such as winner, plan and vLLM's defaults.

    figures: a mapping a round; empty where it failed."""

    name: str
    figures: list[dict[str, Figure]]


def cell_runs(home: Path, results: Sequence[CellResult], *, slo: Slo | None = None) -> list[CellRun]:
    """Cells with what their runs came to. A run that did not finish has no figures: it did not do the same work.

    Raises AssayError for tables that cannot be read."""
    return [
        CellRun(
            result=each,
            figures=figures_of(home, each.run_id, slo=slo) if each.run_id and each.state == "finished" else {},
        )
        for each in results
    ]


def sweep_rows(home: Path, results: Sequence[CellResult], *, slo: Slo | None = None) -> Rows:
    """One row a cell and repeat, read from the cells' runs. Raises AssayError for tables that cannot be read."""
    return sweep_table(cell_runs(home, results, slo=slo))


def sweep_table(runs: Sequence[CellRun]) -> Rows:
    """One row a cell and repeat, in the order of the cells: state, time, whether its engine was built or reused, its
    key figures, and why it failed."""
    shown = _columns(runs)
    ordered = sorted(runs, key=lambda run: (run.result.cell.index, run.result.repeat))
    several = any(run.result.repeat for run in runs)
    failed = any(run.result.error for run in runs)
    return [
        {
            "cell": run.result.cell.name,
            **({"repeat": str(run.result.repeat + 1)} if several else {}),
            "state": run.result.state,
            "time": DASH if run.result.seconds is None else seconds(run.result.seconds),
            "engine": _engine(run.result.built),
            **{words.title(name): words.value(run.figures.get(name)) for name in shown},
            **({"error": words.first_line(run.result.error)} if failed else {}),
        }
        for run in ordered
    ]


def cells_table(runs: Sequence[CellRun]) -> Rows:
    """One row a cell, its repeats together: means with their 95 % intervals, and how many of its runs finished."""
    shown = _columns(runs)
    rows = []
    for own in by_cell(runs).values():
        means = mean_figures(own)
        finished = sum(run.result.state == "finished" for run in own)
        rows.append(
            {
                "cell": own[0].result.cell.name,
                "finished": f"{finished} of {len(own)}",
                **{words.title(name): words.repeated(means.get(name)) for name in shown},
            }
        )
    return rows


def ablation_table(settings: Sequence[Ablated]) -> Rows:
    """One row a setting: what it does to latency, throughput, memory, start-up and energy, as a multiple of the
    control's with its 95 % interval, and how many answers are other ones."""
    rows = []
    for each in settings:
        found = words.by_figure(each.effects)
        order = ("e2e_ms.p50", "ttft_ms.p50", "tpot_ms.p50", "throughput.output_tokens_per_s", "memory.peak_bytes",
                 "start_s", "energy.j_per_output_token")  # fmt: skip
        rows.append(
            {
                "setting": each.name,
                **{words.title(name): words.effect(found.get(name)) for name in order},
                "answers changed": words.changed(each.changed),
                "rounds": str(max((effect.rounds for effect in each.effects), default=0)),
            }
        )
    if any(each.failed for each in settings):
        for row, each in zip(rows, settings, strict=True):
            row["failed"] = "; ".join(dict.fromkeys(words.first_line(error) for error in each.failed))
    return rows


def effects_table(settings: Sequence[Ablated], *, figures: Sequence[str] | None = None) -> Rows:
    """One row a setting and figure: both sides, the ratio or difference with its interval, p by Holm, and the verdict.

    figures: only these, in this order; None for all."""
    rows = []
    for each in settings:
        found = words.by_figure(each.effects)
        for name in figures if figures is not None else found:
            effect = found.get(name)
            if effect is not None:
                rows.append({"setting": each.name, **_effect_cells(effect)})
    return rows


def comparison_table(arms: Sequence[Arm], against: Mapping[str, Sequence[Effect]]) -> Rows:
    """One row a figure: each arm's mean over the rounds, then the first arm against each of the others.

    against: the first arm's effects, by the name of the arm that was the control."""
    means = {arm.name: over_repeats(arm.figures) for arm in arms}
    first = arms[0].name if arms else ""
    effects = {name: words.by_figure(found) for name, found in against.items()}
    names = [name for name in dict.fromkeys((*KEY_FIGURES, *_IF_THERE)) if any(name in each for each in means.values())]
    names += [name for found in effects.values() for name in found if name.startswith("quality.")]
    return [
        {
            "figure": words.title(name),
            **{arm: words.value(found.get(name)) for arm, found in means.items()},
            **{f"{first} / {arm}": _with_verdict(found.get(name)) for arm, found in effects.items()},
        }
        for name in dict.fromkeys(names)
    ]


def by_cell(runs: Sequence[CellRun]) -> dict[int, list[CellRun]]:
    """The runs of each cell, in the order of the cells and their repeats."""
    found: dict[int, list[CellRun]] = {}
    for run in sorted(runs, key=lambda run: (run.result.cell.index, run.result.repeat)):
        found.setdefault(run.result.cell.index, []).append(run)
    return found


def mean_figures(runs: Sequence[CellRun]) -> dict[str, Repeated]:
    """One cell's figures over those of its runs that finished."""
    return over_repeats([run.figures for run in runs if run.figures])


def counts(runs: Sequence[CellRun]) -> dict[CellState, int]:
    """How many runs are in each state that there is."""
    found: dict[CellState, int] = {}
    for run in runs:
        found[run.result.state] = found.get(run.result.state, 0) + 1
    return found


def load_figures(names: Iterable[str]) -> list[str]:
    """Of these figures those of measured loads that stand beside others, in their order."""
    ends = tuple(f".{end}" for end in OF_LOAD)
    return [name for name in names if name.startswith(LOAD) and name.endswith(ends)][:_MOST_LOADS]


def _columns(runs: Sequence[CellRun]) -> list[str]:
    """The key figures, and of measured loads what they do to throughput and to the first token. A sweep that only
    measures load has no figures of answering."""
    there = dict.fromkeys(name for run in runs for name in run.figures)
    loads = load_figures(there)
    always = () if loads else tuple(name for name in KEY_FIGURES if name not in _IF_THERE)
    return [name for name in (*KEY_FIGURES, "goodput.requests_per_s") if name in there or name in always] + loads


def _engine(built: bool | None) -> str:
    return DASH if built is None else "built" if built else "reused"


def _effect_cells(effect: Effect) -> dict[str, str]:
    return {
        "figure": words.title(effect.figure),
        "control": words.side(effect, effect.control),
        "candidate": words.side(effect, effect.candidate),
        "effect": words.effect(effect),
        "verdict": effect.verdict,
        "p, Holm": DASH if effect.p_adjusted is None else f"{effect.p_adjusted:.3f}",
        "rounds": str(effect.rounds),
    }


def _with_verdict(effect: Effect | None) -> str:
    return DASH if effect is None else f"{words.effect(effect)} {effect.verdict}"
