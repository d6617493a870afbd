"""Holm's step-down adjustment of several p values (Holm 1979): it holds the chance of any false alarm at alpha."""

from collections.abc import Sequence


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """The adjusted p values in the given order. A None is no test: it stays None and is not counted."""
    tests = sorted((p, index) for index, p in enumerate(p_values) if p is not None)
    adjusted: list[float | None] = [None] * len(p_values)
    highest = 0.0
    for rank, (p, index) in enumerate(tests):
        highest = max(highest, min(1.0, (len(tests) - rank) * p))
        adjusted[index] = highest
    return adjusted
