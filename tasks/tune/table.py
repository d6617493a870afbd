"""A tuning in words, for pages and terminals."""

from schemas.tune import Tuned
from tasks.cells.expand import said, short_keys
from tasks.report.numbers import DASH
from tasks.tune.objective import THROUGHPUT

_NAMES = {"plan": "the plan", "vllm": "vLLM's defaults"}
_SIDES = {"winner": "winner", **_NAMES}


def trial_table(found: Tuned) -> list[dict[str, str]]:
    """Every trial by number: what was set, how it ended, the value, throughput and latency."""
    short = short_keys(list(dict.fromkeys(key for trial in found.trials for key in trial.settings)))
    rows = []
    for trial in found.trials:
        settings = ", ".join(f"{short[key]}={said(value)}" for key, value in trial.settings.items())
        marks = {"winner": trial.number == found.winner, "front": trial.number in found.front}
        rows.append(
            {
                "trial": str(trial.number),
                "settings": _NAMES[trial.reference] if trial.reference else settings,
                "state": trial.state if trial.why is None else f"{trial.state}: {trial.why}",
                "value": _number(trial.value),
                "first samples": _number(trial.first_value),
                "tokens/s": _number(trial.figures.get(THROUGHPUT)),
                found.latency: _number(trial.figures.get(found.latency)),
                "": ", ".join(word for word, marked in marks.items() if marked),
            }
        )
    return rows


def confirmation_table(found: Tuned) -> list[dict[str, str]]:
    """The winner, the plan and vLLM's defaults by round, and how many times as good the winner is."""
    if found.confirmation is None:
        return []
    against = {each.name: each for each in found.confirmation.against}
    rows = []
    for side in found.confirmation.sides:
        other = None if side.name == "winner" else against[side.name]
        interval = (
            DASH
            if other is None or other.ratio is None
            else f"{other.ratio:.3f}"
            + ("" if other.lo is None or other.hi is None else f" [{other.lo:.3f}, {other.hi:.3f}]")
        )
        rows.append(
            {
                "full load": _SIDES[side.name],
                **{f"round {index + 1}": _number(value) for index, value in enumerate(side.values)},
                "winner is times as good": "" if other is None else interval,
                "verdict": "" if other is None else other.verdict,
            }
        )
    return rows


def _number(value: float | None) -> str:
    return DASH if value is None else f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"
