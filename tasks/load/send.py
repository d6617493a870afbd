"""Sending a load: each request at its time, whatever became of those before it.

An open load's requests are due at times that were known before. They are sent then, and never left out, put off or
moved up because answers are slow: who waits for an answer before asking on measures how fast the server lets itself be
asked. Where only so many may be asked at once, a request that is due waits here, and that wait is told apart from
what the sender itself was late.

An answer may bring a further request, as the next turn of a conversation, which is due a while after it. In a load of
users, whose requests have no times of their own, whoever thinks that long keeps his place: as many as there are places
are at work or thinking. Where requests come at their own times, places are requests in flight: one is free with the
answer, and the next turn waits for one as any request does.
"""

import heapq
import itertools
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from tasks.engine.protocol import WireRequest, WireResult

LOOK_S = 0.2
"""The longest wait for answers without a look at what else is to be done."""
_AHEAD = 32
"""Requests with times that are made before they are due: making a long prompt takes a while itself."""
_PLACES_AHEAD = 1024
"""The same of requests that wait for a place, at most one for each place."""
_IDLE_S = 0.002
"""Nothing is made ahead in what is left before something is due, if it is less than this."""


class Server(Protocol):
    """What a load is sent to. `results` gives those that are there or come within wait_s, the first ones at once."""

    def submit(self, requests: list[WireRequest]) -> None: ...

    def results(self, *, wait_s: float) -> Iterator[WireResult]: ...


@runtime_checkable
class Watched(Protocol):
    """A server that can tell that it has stopped. It is asked before each wait for answers."""

    def look(self, *, in_flight: int) -> None: ...


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

    began_at: float = 0.0
    answered: list[tuple[Asked, WireResult]] = field(default_factory=list)
    left: list[Asked] = field(default_factory=list)


Follow = Callable[[Asked, WireResult], "tuple[WireRequest, float] | None"]


def send(  # noqa: PLR0913 - what it asks, when it ends, what it tells
    server: Server,
    plan: Iterable[Planned],
    *,
    at_once: int | None = None,
    ask_for_s: float | None = None,
    wait_for_s: float | None = None,
    quiet_for_s: float | None = None,
    on_answer: Callable[[Asked, WireResult], None] | None = None,
    follow: Follow | None = None,
    into: Sent | None = None,
) -> Sent:
    """Sends a load and takes its answers.

    plan: in the order of the times; where a place is all that a request waits for, at_once must say how many there are.
    ask_for_s: seconds after which nothing more is sent. wait_for_s: seconds after which answers are no longer waited
    for; quiet_for_s: the same, counted from when the last request was sent. All None: until all are sent and answered.
    follow: what an answer brings, and how many seconds after the answer that is due; None: nothing. into: what is given
    back; where an error ends it, what had come by then is in it. Raises ValueError for a plan without times or places,
    and whatever the server raises."""
    sent = Sent() if into is None else into
    sender = _Sender(server, plan, at_once=at_once, on_answer=on_answer, follow=follow, sent=sent)
    return sender.run(ask_for_s, wait_for_s, quiet_for_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Waiting:
    """at: the monotonic time at which it is due. keeps: it has its place already, a user's own."""

    request: WireRequest
    at: float | None
    keeps: bool = False


class _Sender:
    def __init__(
        self,
        server: Server,
        plan: Iterable[Planned],
        *,
        at_once: int | None,
        on_answer: Callable[[Asked, WireResult], None] | None,
        follow: Follow | None,
        sent: Sent,
    ) -> None:
        self._follow = follow
        self._order = itertools.count()
        self._later: list[tuple[float, int, _Waiting]] = []
        """What answers brought, by when it is due."""
        self._server = server
        self._plan = iter(plan)
        self._at_once = at_once
        self._on_answer = on_answer
        self._made: deque[Planned] = deque()
        """The next ones of the plan."""
        self._make(at_once or 1)
        self._ready: deque[_Waiting] = deque()
        self._asked: dict[str, Asked] = {}
        self._users: set[str] = set()
        """Those asked whose place is a user's."""
        self._sent = sent
        self._sent.began_at = time.monotonic()
        self._places = deque([self._sent.began_at] * (at_once or 0))
        """When each place that is free became so, the longest free first."""

    def run(self, ask_for_s: float | None, wait_for_s: float | None, quiet_for_s: float | None) -> Sent:
        try:
            self._run(ask_for_s, wait_for_s, quiet_for_s)
        finally:
            self._sent.left = list(self._asked.values())
        return self._sent

    def _run(self, ask_for_s: float | None, wait_for_s: float | None, quiet_for_s: float | None) -> None:
        began = self._sent.began_at
        asks_until = None if ask_for_s is None else began + ask_for_s
        waits_until = None if wait_for_s is None else began + wait_for_s
        sent_at: float | None = None
        while True:
            now = time.monotonic()
            if asks_until is not None and now >= asks_until:
                self._plan = iter(())
                for left in (self._made, self._ready, self._later):
                    left.clear()
            if waits_until is not None and now >= waits_until:
                break
            self._submit_what_is_due(now)
            if not self._made and not self._ready and not self._later:
                sent_at = now if sent_at is None else sent_at
                if not self._asked or (quiet_for_s is not None and now - sent_at >= quiet_for_s):
                    break
            else:
                sent_at = None
            hurry = self._make_ahead()
            if isinstance(self._server, Watched):
                self._server.look(in_flight=len(self._asked))
            ends = [end for end in (asks_until, waits_until) if end is not None and end > now]
            now = time.monotonic()
            self._take(min([self._until_due(now), *(max(0.0, end - now) for end in ends), *hurry]))

    def _make(self, n: int) -> None:
        """Takes the plan's next ones, so that n are made if it has them."""
        while len(self._made) < n and (planned := next(self._plan, None)) is not None:
            self._made.append(planned)

    def _make_ahead(self) -> list[float]:
        """One more of the plan, where there is time for it: prompts are made while nothing is to be done, and not when
        all places become free at once. Gives the longest wait until the next one, where more are wanted."""
        made = len(self._made)
        if made and self._made[-1].due_s is not None:
            wanted = made < _AHEAD and self._until_due(time.monotonic()) > _IDLE_S
        else:
            wanted = made < min(self._at_once or 0, _PLACES_AHEAD)
        if wanted:
            self._make(made + 1)
        return [_IDLE_S] if len(self._made) > made else []

    def _submit_what_is_due(self, now: float) -> None:
        due = self._further(now)
        batch = [self._as_asked(each, free_at=each.at or now) for each in due if each.keeps]
        due = [each for each in due if not each.keeps]
        while self._made and self._is_due(self._made[0], now, waiting=len(due)):
            planned = self._made.popleft()
            at = None if planned.due_s is None else self._sent.began_at + planned.due_s
            due.append(_Waiting(request=planned.request, at=at))
            self._make(1)
        self._ready.extend(sorted(due, key=lambda each: each.at or 0.0))
        while self._ready and (self._at_once is None or self._places):
            free_at = self._places.popleft() if self._at_once is not None else self._sent.began_at
            batch.append(self._as_asked(self._ready.popleft(), free_at=free_at))
        if batch:
            self._server.submit(batch)

    def _further(self, now: float) -> list[_Waiting]:
        """What answers brought and is due."""
        found = []
        while self._later and self._later[0][0] <= now:
            found.append(heapq.heappop(self._later)[-1])
        return found

    def _as_asked(self, waiting: _Waiting, *, free_at: float) -> WireRequest:
        request = waiting.request
        self._asked[request.request_id] = Asked(
            request=request, planned_at=waiting.at, free_at=free_at, submitted_at=time.monotonic()
        )
        if self._at_once is not None and (waiting.keeps or waiting.at is None):
            self._users.add(request.request_id)
        return request

    def _is_due(self, planned: Planned, now: float, *, waiting: int) -> bool:
        if planned.due_s is not None:
            return self._sent.began_at + planned.due_s <= now
        if self._at_once is None:
            raise ValueError("a request without a time needs a place to wait for")
        return len(self._ready) + waiting < len(self._places)

    def _until_due(self, now: float) -> float:
        ahead = [self._later[0][0]] if self._later else []
        if self._made and self._made[0].due_s is not None:
            ahead.append(self._sent.began_at + self._made[0].due_s)
        return min([LOOK_S, *(max(0.0, due_at - now) for due_at in ahead)])

    def _take(self, wait_s: float) -> None:
        for result in self._server.results(wait_s=wait_s):
            asked = self._asked.pop(result.request_id, None)
            if asked is None:
                continue
            now = time.monotonic()
            is_user = result.request_id in self._users
            self._users.discard(result.request_id)
            further = None if self._follow is None else self._follow(asked, result)
            if further is not None:
                request, after_s = further
                # From when it was answered, not from when that was seen here: seeing it late is the sender's fault.
                answered_at = min(now, max(asked.submitted_at, result.finished_at))
                waiting = _Waiting(request=request, at=answered_at + after_s, keeps=is_user)
                heapq.heappush(self._later, (answered_at + after_s, next(self._order), waiting))
            if self._at_once is not None and not (is_user and further is not None):
                self._places.append(now)
            self._sent.answered.append((asked, result))
            if self._on_answer is not None:
                self._on_answer(asked, result)
