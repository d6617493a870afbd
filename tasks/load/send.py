"""Sending a load: each request at its time, whatever became of those before it.

An open load's requests are due at times that were known before. They are sent then, and never left out, put off or
moved up because answers are slow: who waits for an answer before asking on measures how fast the server lets itself be
asked. Where only so many may be asked at once, a request that is due waits here, and that wait is told apart from
what the sender itself was late.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from tasks.engine.protocol import WireRequest, WireResult

LOOK_S = 0.2
"""The longest wait for answers without a look at what else is to be done."""


class Server(Protocol):
    """What a load is sent to. `results` gives those that are there or come within wait_s, the first ones at once."""

    def submit(self, requests: list[WireRequest]) -> None: ...

    def results(self, *, wait_s: float) -> Iterator[WireResult]: ...


@dataclass(frozen=True, kw_only=True)
class Planned:
    """A request, and when it is due in seconds from the load's beginning; None: as soon as there is a place for it."""

    request: WireRequest
    due_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One request on its way, by the monotonic clock. planned_at: None where no time was planned. free_at: when there
    was a place for it."""

    request: WireRequest
    planned_at: float | None
    free_at: float
    submitted_at: float

    @property
    def client_queue_ms(self) -> float | None:
        """How long it was due and found no place; None where no time was planned."""
        return None if self.planned_at is None else max(0.0, self.free_at - self.planned_at) * 1000

    @property
    def late_ms(self) -> float:
        """How long it was due, had a place, and was not sent: the sender's own fault."""
        ready = self.free_at if self.planned_at is None else max(self.free_at, self.planned_at)
        return (self.submitted_at - ready) * 1000


@dataclass(kw_only=True)
class Sent:
    """What came of a load. began_at: the monotonic time that its plan counts from. left: asked, and never answered."""

    began_at: float
    answered: list[tuple[Asked, WireResult]] = field(default_factory=list)
    left: list[Asked] = field(default_factory=list)


def send(
    server: Server,
    plan: Iterable[Planned],
    *,
    at_once: int | None = None,
    ask_for_s: float | None = None,
    wait_for_s: float | None = None,
    on_answer: Callable[[Asked, WireResult], None] | None = None,
) -> Sent:
    """Sends a load and takes its answers.

    plan: in the order of the times; where a place is all that a request waits for, at_once must say how many there are.
    ask_for_s: seconds after which nothing more is sent. wait_for_s: seconds after which answers are no longer waited
    for; both None: until all are sent and answered. Raises ValueError for a plan without times or places, and whatever
    the server raises."""
    return _Sender(server, plan, at_once=at_once, on_answer=on_answer).run(ask_for_s, wait_for_s)


class _Sender:
    def __init__(
        self,
        server: Server,
        plan: Iterable[Planned],
        *,
        at_once: int | None,
        on_answer: Callable[[Asked, WireResult], None] | None,
    ) -> None:
        self._server = server
        self._plan = iter(plan)
        self._at_once = at_once
        self._on_answer = on_answer
        self._next = next(self._plan, None)
        self._ready: deque[Planned] = deque()
        self._asked: dict[str, Asked] = {}
        self._sent = Sent(began_at=time.monotonic())
        self._places = deque([self._sent.began_at] * (at_once or 0))
        """When each place that is free became so, the longest free first."""

    def run(self, ask_for_s: float | None, wait_for_s: float | None) -> Sent:
        began = self._sent.began_at
        asks_until = None if ask_for_s is None else began + ask_for_s
        waits_until = None if wait_for_s is None else began + wait_for_s
        while True:
            now = time.monotonic()
            if asks_until is not None and now >= asks_until:
                self._next = None
                self._ready.clear()
            if waits_until is not None and now >= waits_until:
                break
            self._submit_what_is_due(now)
            if self._next is None and not self._ready and not self._asked:
                break
            ends = [end for end in (asks_until, waits_until) if end is not None and end > now]
            self._take(min([self._until_due(now), *(end - now for end in ends)]))
        self._sent.left = list(self._asked.values())
        return self._sent

    def _submit_what_is_due(self, now: float) -> None:
        while (due := self._next) is not None and self._is_due(due, now):
            self._ready.append(due)
            self._next = next(self._plan, None)
        batch = []
        while self._ready and (self._at_once is None or self._places):
            planned = self._ready.popleft()
            at = None if planned.due_s is None else self._sent.began_at + planned.due_s
            free_at = self._places.popleft() if self._at_once is not None else self._sent.began_at
            self._asked[planned.request.request_id] = Asked(
                request=planned.request, planned_at=at, free_at=free_at, submitted_at=time.monotonic()
            )
            batch.append(planned.request)
        if batch:
            self._server.submit(batch)

    def _is_due(self, planned: Planned, now: float) -> bool:
        if planned.due_s is not None:
            return self._sent.began_at + planned.due_s <= now
        if self._at_once is None:
            raise ValueError("a request without a time needs a place to wait for")
        return len(self._ready) < len(self._places)

    def _until_due(self, now: float) -> float:
        if self._next is None or self._next.due_s is None:
            return LOOK_S
        return min(LOOK_S, max(0.0, self._sent.began_at + self._next.due_s - now))

    def _take(self, wait_s: float) -> None:
        for result in self._server.results(wait_s=wait_s):
            asked = self._asked.pop(result.request_id, None)
            if asked is None:
                continue
            if self._at_once is not None:
                self._places.append(time.monotonic())
            self._sent.answered.append((asked, result))
            if self._on_answer is not None:
                self._on_answer(asked, result)
