"""The knee of a server: the highest rate at which it still keeps its promise.

The promise is a share of requests that meet the SLO (0.99 of them within 500 ms is a p99 of 500 ms). A probe asks at
one rate and counts. Rates are doubled or halved until the knee lies between two of them, then halved between on the
scale of ratios. Since a faster load is never easier, the shares are smoothed to fall with the rate before they are read
(isotonic regression), so that one lucky probe does not lead astray; and where an end of the bracket is not decided by
its interval, it is asked once more before the search is over.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tasks.score.stats.wilson import wilson


@dataclass(frozen=True, kw_only=True)
class Probe:
    """Requests asked at a rate (a second), and those of them that met every SLO. All that were sent count."""

    rate: float
    met: int
    asked: int


@dataclass(frozen=True, kw_only=True)
class Knee:
    """rate: the highest that keeps the promise, None if none does; above: the lowest that breaks it, None if none did.
    decided: whether the intervals of both say so, and they are as close to each other as was asked."""

    rate: float | None
    above: float | None
    decided: bool
    probes: int


class Search:
    """Which rate to probe next. start: a guess, such as the rate of an offline load. share: the promise. tolerance: how
    far apart the bracket's ends may be, 0.05 for 5 %. most: probes at most."""

    def __init__(self, *, start: float, share: float = 0.99, tolerance: float = 0.05, most: int = 10) -> None:
        if not (start > 0 and 0 < share < 1 and tolerance > 0 and most > 0):
            raise ValueError("start, tolerance and most are above 0, and the share is between 0 and 1")
        self._start = start
        self._share = share
        self._tolerance = tolerance
        self._most = most
        self._taken: dict[float, Probe] = {}
        self._times: Counter[float] = Counter()
        self._probes = 0

    def took(self, probe: Probe) -> None:
        """What came of a probe; the counts of two at one rate are put together. Raises ValueError for one without
        requests."""
        if probe.asked < 1 or not 0 <= probe.met <= probe.asked:
            raise ValueError("a probe has requests, of which some, all or none met the SLO")
        known = self._taken.get(probe.rate)
        if known is not None:
            probe = Probe(rate=probe.rate, met=known.met + probe.met, asked=known.asked + probe.asked)
        self._taken[probe.rate] = probe
        self._times[probe.rate] += 1
        self._probes += 1

    def next(self) -> float | None:
        """The rate to probe now; None when the search is over."""
        if self._probes >= self._most:
            return None
        keeps, breaks = self._ends()
        if keeps is not None and breaks is not None:
            return self._between(keeps, breaks)
        if keeps is not None:
            return keeps.rate * self._stride(keeps)
        return self._start if breaks is None else breaks.rate / self._stride(breaks)

    def _between(self, keeps: Probe, breaks: Probe) -> float | None:
        if breaks.rate / keeps.rate > 1 + self._tolerance:
            return math.sqrt(keeps.rate * breaks.rate)
        # Once more only: where the knee itself was hit, no number of requests would decide.
        unsure = [end for end in (keeps, breaks) if self._times[end.rate] == 1 and not self._is_decided(end)]
        return unsure[0].rate if unsure else None

    @property
    def knee(self) -> Knee:
        """What is known so far."""
        keeps, breaks = self._ends()
        close = keeps is not None and breaks is not None and breaks.rate / keeps.rate <= 1 + self._tolerance
        return Knee(
            rate=None if keeps is None else keeps.rate,
            above=None if breaks is None else breaks.rate,
            decided=close and all(self._is_decided(end) for end in (keeps, breaks) if end is not None),
            probes=self._probes,
        )

    def _ends(self) -> tuple[Probe | None, Probe | None]:
        probes = sorted(self._taken.values(), key=lambda probe: probe.rate)
        fitted = falling([probe.met / probe.asked for probe in probes], weights=[probe.asked for probe in probes])
        keep = [probe for probe, share in zip(probes, fitted, strict=True) if share >= self._share]
        broken = [probe for probe, share in zip(probes, fitted, strict=True) if share < self._share]
        return keep[-1] if keep else None, broken[0] if broken else None

    def _stride(self, end: Probe) -> float:
        """How far to go from an end whose other one is not known: not far from one that is not decided itself."""
        return 2.0 if self._is_decided(end) else (1 + self._tolerance) ** 2

    def _is_decided(self, probe: Probe) -> bool:
        low, high = wilson(rate=probe.met / probe.asked, n=probe.asked)
        return low >= self._share or high < self._share


def falling(values: Sequence[float], *, weights: Sequence[float]) -> list[float]:
    """The values that fall, or stay, and are nearest to these (weighted least squares): neighbours that rise become
    their mean."""
    if not values:
        return []
    from scipy.optimize import isotonic_regression  # noqa: PLC0415 - costs a third of a second

    return [float(value) for value in isotonic_regression(values, weights=weights, increasing=False).x]
