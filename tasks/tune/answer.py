"""What a tuning says in the end: use the winner, or keep the plan, and why."""

from typing import Literal

from schemas.tune import Confirmation, Trial, Tuned
from tasks.tune.importance import importances
from tasks.tune.pareto import front
from tasks.tune.study import Ended, Search


def tuned(search: Search, *, run_id: str, name: str, ended: Ended, confirmation: Confirmation | None) -> Tuned:
    """All that was found. confirmation: None where there was no winner but the plan to confirm."""
    trials, winner = search.trials, search.winner
    verdict, answer = answered(trials, winner, confirmation)
    shares, note = importances(trials, space=search.space, higher=search.objective.direction == "higher")
    return Tuned(
        run_id=run_id,
        name=name,
        goals=search.objective.goals,
        objective=search.objective.in_words(),
        direction=search.objective.direction,
        latency=search.objective.latency,
        trials=trials,
        front=front(trials, latency=search.objective.latency),
        importances=shares,
        importances_note=note,
        winner=None if winner is None else winner.number,
        confirmation=confirmation,
        verdict=verdict,
        answer=answer,
        ended=ended,
        engine=dict(winner.settings) if winner is not None and verdict == "use" else {},
    )


def answered(  # noqa: PLR0911 - one for each reason
    trials: list[Trial], winner: Trial | None, confirmation: Confirmation | None
) -> tuple[Literal["use", "keep"], str]:
    """The verdict, and the sentence that says it with its reason."""
    if winner is None:
        return "keep", f"keep the plan: none of {len(trials)} trials ran as a whole within the limits"
    if winner.reference == "plan":
        return "keep", f"keep the plan: none of {len(trials)} trials was better than the plan's own engine"
    called = "vLLM's own defaults" if winner.reference == "vllm" else f"trial {winner.number}"
    if confirmation is None:
        return "keep", f"keep the plan: {called} was the best, and is not confirmed"
    by_name = {side.name: side for side in confirmation.sides}
    failed = next((reason for reason in by_name["winner"].reasons if reason is not None), None)
    if failed is not None:
        return "keep", f"keep the plan: {called} was the best, and failed under the full load: {failed}"
    plan = next(each for each in confirmation.against if each.name == "plan")
    if plan.ratio is None:
        why = next((reason for reason in by_name["plan"].reasons if reason is not None), "it was not run")
        return "use", f"use {called}: the plan's own engine failed under the full load ({why}), and it did not"
    interval = "" if plan.lo is None or plan.hi is None else f" [{plan.lo:.3f}, {plan.hi:.3f}]"
    found = f"{plan.ratio:.3f}{interval} times as good as the plan under the full load, over {plan.rounds} rounds"
    if plan.verdict == "better":
        return "use", f"use {called}: {found}"
    doubt = "no better" if plan.verdict == "worse" else "within the noise"
    return "keep", f"keep the plan: {called} was the best of the search, and {found}, which is {doubt}"
