"""Means over repeats and rounds: geometric for times, rates and sizes, whose noise is a share; else arithmetic."""

import math
from collections.abc import Mapping, Sequence

from schemas.cell_figures import Figure, Repeated
from tasks.score.stats.estimate import Estimate, t_two_sided
from tasks.score.stats.mean_stderr import mean_stderr

_ROUNDING = 1e-12
"""A standard error below that is one of rounding."""
_SHARES = ("share", "yes or no", "requests")
"""Units of figures that may be 0, and of which a difference says more than a ratio."""


def by_ratio(figure: Figure, values: Sequence[float]) -> bool:
    """Whether these values of a figure are told apart by their ratio: quality, shares and counts are not, nor is
    anything with a 0."""
    return not figure.name.startswith("quality.") and figure.unit not in _SHARES and all(each > 0 for each in values)


def geometric(values: Sequence[float]) -> Estimate:
    """The geometric mean of numbers above 0, with the t interval of their logarithms; no interval of fewer than two.
    stderr is that of the mean logarithm."""
    found = mean_stderr([math.log(value) for value in values])

    def back(value: float | None) -> float | None:
        return None if value is None else math.exp(value)

    return Estimate(
        value=back(found.value),
        n=found.n,
        stderr=found.stderr,
        lo=back(found.lo),
        hi=back(found.hi),
        method="none" if found.method == "none" else "log_t",
    )


def t_test(mean: float, stderr: float | None, *, n: int) -> float | None:
    """The two-sided p value of a mean against 0; None where there is no spread to test it with."""
    if stderr is None or stderr < _ROUNDING:
        return None
    return t_two_sided(mean / stderr, degrees=n - 1)


def over_repeats(runs: Sequence[Mapping[str, Figure]]) -> dict[str, Repeated]:
    """Every figure of a cell's repeats, by name, over those that have it."""
    found = {}
    for name in dict.fromkeys(name for run in runs for name in run):
        figures = [run[name] for run in runs if name in run]
        values = [figure.value for figure in figures]
        first = figures[0]
        mean = geometric(values) if by_ratio(first, values) else mean_stderr(values)
        if mean.value is None:
            continue
        found[name] = Repeated(
            name=name,
            unit=first.unit,
            direction=first.direction,
            value=mean.value,
            lo=mean.lo,
            hi=mean.hi,
            n=len(values),
        )
    return found
