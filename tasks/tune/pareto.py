"""The trials that no other one beats in both throughput and latency."""

from collections.abc import Iterable

from schemas.tune import Trial
from tasks.tune.objective import THROUGHPUT


def front(trials: Iterable[Trial], *, latency: str) -> list[int]:
    """Their numbers, by falling throughput and so by falling latency. Of equal ones the first stands for all.

    latency: the figure's name. Trials that are not feasible, or lack one of the two figures, are left out."""
    points = [
        (-trial.figures[THROUGHPUT], trial.figures[latency], trial.number)
        for trial in trials
        if trial.feasible and trial.state == "measured" and {THROUGHPUT, latency} <= trial.figures.keys()
    ]
    found: list[int] = []
    lowest = float("inf")
    for _, value, number in sorted(points):
        if value < lowest:
            found.append(number)
            lowest = value
    return found
