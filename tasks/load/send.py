"""Sending a load: each request at its time, whatever became of those before it.

An open load's requests are due at times that were known before. They are sent then, and never left out, put off or
moved up because answers are slow: who waits for an answer before asking on measures how fast the server lets itself be
asked. Where only so many may be asked at once, a request that is due waits here, and that wait is told apart from
what the sender itself was late.

An answer may bring a further request, as the next turn of a conversation. It is due a while after the answer. Where
there are places, whoever thinks that long keeps his: the places are users.
"""

import heapq
import itertools
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


Follow = Callable[[Asked, WireResult], "tuple[WireRequest, float] | None"]


def send(
    server: Server,
    plan: Iterable[Planned],
    *,
    at_once: int | None = None,
    ask_for_s: float | None = None,
    wait_for_s: float | None = None,
    quiet_for_s: float | None = None,
    on_answer: Callable[[Asked, WireResult], None] | None = None,
    follow: Follow | None = None,
) -> Sent:
    """Sends a load and takes its answers.

    plan: in the order of the times; where a place is all that a request waits for, at_once must say how many there are.
    ask_for_s: seconds after which nothing more is sent. wait_for_s: seconds after which answers are no longer waited
    for; quiet_for_s: the same, counted from when the last request was sent. All None: until all are sent and answered.
    follow: what an answer brings, and how many seconds after it that is due; None: nothing. Raises ValueError for a plan
    without times or places, and whatever the server raises."""
    sender = _Sender(server, plan, at_once=at_once, on_answer=on_answer, follow=follow)
    return sender.run(ask_for_s, wait_for_s, quiet_for_s)


class _Sender:
    def __init__(
        self,
        server: Server,
        plan: Iterable[Planned],
        *,
        at_once: int | None,
        on_answer: Callable[[Asked, WireResult], None] | None,
        follow: Follow | None,
    ) -> None:
        self._follow = follow
        self._order = itertools.count()
        self._later: list[tuple[float, int, WireRequest]] = []
        """What answers brought: the monotonic time at which it is due, and the request."""
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

    def run(self, ask_for_s: float | None, wait_for_s: float | None, quiet_for_s: float | None) -> Sent:
        began = self._sent.began_at
        asks_until = None if ask_for_s is None else began + ask_for_s
        waits_until = None if wait_for_s is None else began + wait_for_s
        sent_at: float | None = None
        while True:
            now = time.monotonic()
            if asks_until is not None and now >= asks_until:
                self._next = None
                self._ready.clear()
                self._later.clear()
            if waits_until is not None and now >= waits_until:
                break
            self._submit_what_is_due(now)
            if self._next is None and not self._ready and not self._later:
                sent_at = now if sent_at is None else sent_at
                if not self._asked or (quiet_for_s is not None and now - sent_at >= quiet_for_s):
                    break
            else:
                sent_at = None
            ends = [end for end in (asks_until, waits_until) if end is not None and end > now]
            self._take(min([self._until_due(now), *(end - now for end in ends)]))
        self._sent.left = list(self._asked.values())
        return self._sent

    def _submit_what_is_due(self, now: float) -> None:
        while (due := self._next) is not None and self._is_due(due, now):
            self._ready.append(due)
            self._next = next(self._plan, None)
        batch = self._followers(now)
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

    def _followers(self, now: float) -> list[WireRequest]:
        """Those that answers brought and that are due. Their places were kept."""
        batch = []
        while self._later and self._later[0][0] <= now:
            due_at, _, request = heapq.heappop(self._later)
            self._asked[request.request_id] = Asked(
                request=request, planned_at=due_at, free_at=due_at, submitted_at=time.monotonic()
            )
            batch.append(request)
        return batch

    def _is_due(self, planned: Planned, now: float) -> bool:
        if planned.due_s is not None:
            return self._sent.began_at + planned.due_s <= now
        if self._at_once is None:
            raise ValueError("a request without a time needs a place to wait for")
        return len(self._ready) < len(self._places)

    def _until_due(self, now: float) -> float:
        ahead = [] if self._next is None or self._next.due_s is None else [self._sent.began_at + self._next.due_s]
        ahead += [self._later[0][0]] if self._later else []
        return min([LOOK_S, *(max(0.0, due_at - now) for due_at in ahead)])

    def _take(self, wait_s: float) -> None:
        for result in self._server.results(wait_s=wait_s):
            asked = self._asked.pop(result.request_id, None)
            if asked is None:
                continue
            now = time.monotonic()
            further = None if self._follow is None else self._follow(asked, result)
            if further is not None:
                heapq.heappush(self._later, (now + further[1], next(self._order), further[0]))
            elif self._at_once is not None:
                self._places.append(now)
            self._sent.answered.append((asked, result))
            if self._on_answer is not None:
                self._on_answer(asked, result)
