"""The steady part of a load: without the time in which it fills up, and that in which it runs dry."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tasks.load.measured import Measured

LEAST_SHARE = 0.2
"""Of the whole load: a steady part that is shorter says nothing of a steady state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Steady:
    """begin, end: seconds of the requests' clock; began: when the first request of all was sent. in_flight: the typical
    number. tokens: those that came after begin, until end; all_tokens: of the whole load."""

    began: float
    begin: float
    end: float
    in_flight: int
    tokens: int
    all_tokens: int

    @property
    def tokens_per_s(self) -> float:
        return self.tokens / (self.end - self.begin)


def steady(requests: Sequence[Measured]) -> Steady | None:
    """The part of a load from when as many requests are in flight as typically are to when there are fewer for good.

    Typical is what the requests met: the median number in flight over all their time together. Over time alone, a load
    with one answer that went on and on would be typically of one request.

    None where that is under a fifth of the whole, where nothing was answered, and where the moment of an answer's
    tokens is not known. A request that failed is not in it: when it left is not known. A load that grows to its end has
    no steady part; ask this of none."""
    answered = [request for request in requests if request.answered]
    begins = np.asarray([each.sent_at for each in answered if each.sent_at is not None], dtype=np.float64)
    ends = np.asarray([each.last_token_at for each in answered if each.last_token_at is not None], dtype=np.float64)
    if not answered or len(begins) < len(answered) or len(ends) < len(answered) or ends.max() <= begins.min():
        return None
    moments = np.unique(np.concatenate([begins, ends]))
    in_flight = np.searchsorted(np.sort(begins), moments[:-1], side="right") - np.searchsorted(
        np.sort(ends), moments[:-1], side="right"
    )
    typical = _median(in_flight, np.asarray(in_flight * np.diff(moments), dtype=np.float64))
    reached = np.flatnonzero(in_flight >= typical)
    begin, end = float(moments[reached[0]]), float(moments[reached[-1] + 1])
    if end - begin < LEAST_SHARE * (moments[-1] - moments[0]):
        return None
    arrivals = [_arrivals(request) for request in answered]
    if any(each is None for each in arrivals):
        return None
    at = np.concatenate([each[0] for each in arrivals if each is not None])
    tokens = np.concatenate([each[1] for each in arrivals if each is not None])
    return Steady(
        began=float(moments[0]),
        begin=begin,
        end=end,
        in_flight=typical,
        tokens=int(tokens[(at > begin) & (at <= end)].sum()),
        all_tokens=int(tokens.sum()),
    )


def _median(values: NDArray[np.int64], weights: NDArray[np.float64]) -> int:
    order = np.argsort(values, kind="stable")
    upto = np.cumsum(weights[order])
    return int(values[order][np.searchsorted(upto, upto[-1] / 2)])


def _arrivals(request: Measured) -> tuple[NDArray[np.float64], NDArray[np.int64]] | None:
    """When its tokens came, and how many each time; None where that is not known."""
    count, first, last = request.output_tokens, request.first_token_at, request.last_token_at
    if count is None or first is None or last is None or len(request.gaps_ms) != len(request.gap_tokens):
        return None
    if not len(request.gaps_ms) and count > 1 and last > first:
        return None
    later = np.asarray(request.gap_tokens, dtype=np.int64)
    at = first + np.concatenate([[0.0], np.cumsum(np.asarray(request.gaps_ms, dtype=np.float64)) / 1000])
    return np.minimum(at, last), np.concatenate([[count - later.sum()], later])
