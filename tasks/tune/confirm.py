"""The winner of a search under the full load, in turns with the plan and vLLM's defaults, and whether it is better."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy import stats

from schemas.tune import Against, Confirmation, Side, SideName, Trial
from tasks.tune.objective import Figures, Objective
from tasks.tune.outcome import Infeasible, Outcome, Reference, RunSide
from tasks.tune.study import Search

_LEVEL = 0.95


def confirm(
    search: Search,
    winner: Trial,
    run_side: RunSide,
    *,
    references: Sequence[Reference],
    on_side: Callable[[SideName, int, Outcome], None] = lambda name, index, outcome: None,
) -> Confirmation:
    """Runs each side once a round. The order changes by one place from round to round, so that what drifts in the
    machine weighs on all of them alike.

    A side that fails is not run again; a winner that fails ends it. What ran is kept, and not run again by another
    call. The winner may be a reference itself: then it is held against the other one."""
    sides: dict[SideName, dict[str, Any]] = {"winner": dict(winner.settings)}
    sides |= {each.name: dict(each.settings) for each in references if each.name != winner.reference}
    found: dict[SideName, list[Mapping[str, Any]]] = {name: [] for name in sides}
    names = list(sides)
    for index in range(search.tune.confirm.rounds):
        at = index % len(names)
        for name in [*names[at:], *names[:at]]:
            key = f"confirm {winner.number} {index} {name}"
            kept = search.note(key)
            if kept is None and found[name] and found[name][-1]["figures"] is None:
                kept = {"figures": None, "reason": "it had failed before", "run_id": None}
            if kept is None:
                outcome = run_side(sides[name], name, index)
                kept = _kept(outcome, search.objective)
                search.keep(key, kept)
                on_side(name, index, outcome)
            found[name].append(kept)
            if name == "winner" and kept["figures"] is None:
                return _confirmation(winner, found, search.objective)
    return _confirmation(winner, found, search.objective)


def _kept(outcome: Outcome, objective: Objective) -> dict[str, Any]:
    """What is kept of it. A side that misses the SLO has failed."""
    if isinstance(outcome, Infeasible):
        return {"figures": None, "reason": outcome.message, "run_id": outcome.run_id}
    missing = objective.missing(outcome.figures)
    if missing:
        return {"figures": None, "reason": f"the run has no {' and no '.join(missing)}", "run_id": outcome.run_id}
    if any(over > 0 for over in objective.violations(outcome.figures).values()):
        return {"figures": None, "reason": objective.missed(outcome.figures), "run_id": outcome.run_id}
    return {"figures": dict(outcome.figures), "reason": None, "run_id": outcome.run_id}


def _confirmation(
    winner: Trial, found: Mapping[SideName, Sequence[Mapping[str, Any]]], objective: Objective
) -> Confirmation:
    by_round = [each["figures"] for each in found.get("plan", [])]
    sides = [
        Side(
            name=name,
            values=[
                None if each["figures"] is None else _value(each["figures"], by_round[index : index + 1], objective)
                for index, each in enumerate(rounds)
            ],
            figures=[each["figures"] or {} for each in rounds],
            run_ids=[each["run_id"] for each in rounds],
            reasons=[each["reason"] for each in rounds],
        )
        for name, rounds in found.items()
    ]
    mine = [each["figures"] for each in found["winner"]]
    against = [
        _against(name, mine, [each["figures"] for each in rounds], objective)
        for name, rounds in found.items()
        if name != "winner"
    ]
    return Confirmation(trial=winner.number, rounds=len(mine), sides=sides, against=against)


def _value(
    figures: Mapping[str, float], plan: Sequence[Mapping[str, float] | None], objective: Objective
) -> float | None:
    """The value; of weighted goals against the plan in the same round, and none where that has no figures."""
    base = plan[0] if plan else None
    return None if base is None and len(objective.goals) > 1 else objective.value(figures, base)


def _against(
    name: Any,
    mine: Sequence[Figures | None],
    other: Sequence[Figures | None],
    objective: Objective,
) -> Against:
    logs = [objective.log_ratio(a, b) for a, b in zip(mine, other, strict=False) if a is not None and b is not None]
    if not logs:
        return Against(name=name, rounds=0, ratio=None, lo=None, hi=None, verdict="undecided")
    mean = float(np.mean(logs))
    if len(logs) < 2:
        return Against(name=name, rounds=1, ratio=float(np.exp(mean)), lo=None, hi=None, verdict="undecided")
    half = float(stats.t.ppf((1 + _LEVEL) / 2, len(logs) - 1) * np.std(logs, ddof=1) / np.sqrt(len(logs)))
    lo, hi = mean - half, mean + half
    verdict = "better" if lo > 0 else "worse" if hi < 0 else "undecided"
    ratio, low, high = (float(np.exp(each)) for each in (mean, lo, hi))
    return Against(name=name, rounds=len(logs), ratio=ratio, lo=low, hi=high, verdict=verdict)
