"""Whose turn it is: which requests an engine gets next, and which are suspected of having killed one.

An engine that dies takes everything in flight with it, and does not say what of that it died of. So what was in flight
is asked again first, apart from the rest, in groups of about the square root of its number: a second death then points
to one group. A group that an engine died with twice is asked one by one: a third death points to one request, which is
not asked again. Three restarts find it, however many requests were in flight.
"""

import math
from collections import deque
from collections.abc import Iterable, Sequence

from schemas.sample import Request

CULPRIT_DEATHS = 2


class Turns:
    """The requests of a run that still have to be answered, in order.

    window: how many may be at the engine at once; it may be changed when another engine takes over."""

    def __init__(self, requests: Iterable[Request], *, window: int) -> None:
        self.window = window
        self.in_flight: dict[str, Request] = {}
        self._waiting: deque[Request] = deque(requests)
        self._suspects: deque[Request] = deque()
        self._deaths: dict[str, int] = {}
        self._group = 1

    def __bool__(self) -> bool:
        """Whether anything is left to be answered."""
        return bool(self.in_flight or self._suspects or self._waiting)

    @property
    def waiting(self) -> list[Request]:
        """What the engine has not been given, in order."""
        return [*self._suspects, *self._waiting]

    def next(self) -> list[Request]:
        """What to hand to the engine now; empty while it has enough."""
        batch: list[Request] = []
        if self._suspects:
            if not self.in_flight:
                batch = self._suspected()
        # Refilled by halves: a message for each finished request would be many small ones. Not beside a suspect.
        elif len(self.in_flight) <= self.window // 2 and not any(key in self._deaths for key in self.in_flight):
            free = self.window - len(self.in_flight)
            batch = [self._waiting.popleft() for _ in range(min(free, len(self._waiting)))]
        self.in_flight.update((request.request_id, request) for request in batch)
        return batch

    def answered(self, request_id: str) -> Request:
        """Takes a request off the list. Raises KeyError if it is not in flight."""
        self._deaths.pop(request_id, None)
        return self.in_flight.pop(request_id)

    def put_back(self) -> None:
        """The engine is gone, for a reason that is none of the requests': what it had is asked again, as before."""
        for request in reversed(list(self.in_flight.values())):
            (self._suspects if request.request_id in self._deaths else self._waiting).appendleft(request)
        self.in_flight.clear()

    def died(self) -> Request | None:
        """The engine died. What it had is asked again, apart; the one that it must have died of is given instead."""
        flight = list(self.in_flight.values())
        self.in_flight.clear()
        for request in flight:
            self._deaths[request.request_id] = self._deaths.get(request.request_id, 0) + 1
        if len(flight) == 1 and self._deaths[flight[0].request_id] >= CULPRIT_DEATHS:
            del self._deaths[flight[0].request_id]
            return flight[0]
        if any(self._deaths[request.request_id] < CULPRIT_DEATHS for request in flight):
            self._group = max(1, math.isqrt(len(flight)))
        self._suspects.extendleft(reversed(flight))
        return None

    def _suspected(self) -> Sequence[Request]:
        batch = [self._suspects.popleft()]
        if self._deaths[batch[0].request_id] < CULPRIT_DEATHS:
            while len(batch) < self._group and self._suspects and not self._twice(self._suspects[0]):
                batch.append(self._suspects.popleft())
        return batch

    def _twice(self, request: Request) -> bool:
        return self._deaths[request.request_id] >= CULPRIT_DEATHS
