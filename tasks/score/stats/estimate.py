"""A mean with its error."""

from dataclasses import dataclass
from statistics import NormalDist


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A mean over n independent samples, its standard error and its interval; None for what n does not allow."""

    value: float | None
    n: int
    stderr: float | None
    lo: float | None
    hi: float | None
    method: str


def normal_quantile(share: float) -> float:
    """The value below which that share of the standard normal distribution lies."""
    return NormalDist().inv_cdf(share)


def normal_tail(value: float) -> float:
    """The share of the standard normal distribution above a value."""
    return NormalDist().cdf(-value)


def z_value(confidence: float) -> float:
    """The two-sided normal quantile: 1.96 for 0.95."""
    return normal_quantile(0.5 + confidence / 2)


def t_value(confidence: float, *, degrees: float) -> float:
    """The two-sided quantile of Student's t with that many degrees of freedom, which may be a fraction."""
    from scipy.special import stdtrit  # noqa: PLC0415 - scipy is slow to import, and most commands need none of it

    return float(stdtrit(degrees, 0.5 + confidence / 2))


def t_two_sided(statistic: float, *, degrees: float) -> float:
    """The two-sided p value of a t statistic."""
    from scipy.special import stdtr  # noqa: PLC0415 - as above

    return min(1.0, 2 * float(stdtr(degrees, -abs(statistic))))
