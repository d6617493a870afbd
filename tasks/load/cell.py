"""One cell: warm-up, the load itself, and what became of each of its requests."""

import dataclasses
import hashlib
import itertools
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Literal

from schemas.engine import Sampling
from schemas.points import Point
from schemas.sample import Request
from tasks.engine.protocol import WireRequest, WireResult
from tasks.load.asks import Ask
from tasks.load.course import Course, course, warming
from tasks.load.measured import Measured
from tasks.load.send import Asked, Planned, Sent, Server, send
from tasks.responses import Words, output_tokens, wire_request

Phase = Literal["warmup", "measure", "cooldown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """One request of a cell. asked: None where it was due and never sent; result: None where no answer came."""

    ask: Ask
    request: Request
    phase: Phase
    asked: Asked | None = None
    result: WireResult | None = None

    @property
    def sent_at(self) -> float | None:
        """When it was sent: of several clients, by the one that sent it. None where it never was."""
        if self.asked is None:
            return None
        handed_ms = None if self.result is None else self.result.handed_ms
        return self.asked.submitted_at if handed_ms is None else self.asked.submitted_at + handed_ms / 1000

    @property
    def measured(self) -> Measured:
        """As the metrics take it."""
        asked, result = self.asked, self.result
        if asked is None:
            return Measured(answered=False, prompt_tokens=len(self.request.prompt_token_ids))
        known = {
            "sent_at": self.sent_at,
            "clock_error_ms": None if result is None else result.clock_error_ms,
            "planned_at": asked.planned_at,
            "free_at": asked.free_at,
            "prompt_tokens": len(self.request.prompt_token_ids),
        }
        if result is None or result.error is not None:
            return Measured(answered=False, **known)
        return Measured(
            answered=True,
            first_token_at=result.first_token_at,
            first_text_at=result.first_text_at,
            last_token_at=result.last_token_at,
            gaps_ms=result.gaps_ms,
            gap_tokens=result.gap_tokens,
            output_tokens=output_tokens(result),
            **known,
        )

    @property
    def has_right_length(self) -> bool:
        """Whether an answer of an exact length has it; one whose length is not known passes."""
        if self.result is None or self.result.error is not None or not self.request.exactly:
            return True
        return output_tokens(self.result) in (None, self.request.max_tokens)


@dataclass(kw_only=True)
class CellRun:
    """What came of a cell. Times are monotonic. began_at and ended_at: of what is measured, from the load's beginning
    to the last answer, or to the end of its time where that is later. order_index: its place among all cells."""

    point: Point
    cell_id: str
    engine_id: str
    repeat: int
    order_index: int
    warmup_began_at: float = 0.0
    began_at: float = 0.0
    ended_at: float = 0.0
    taken: list[Taken] = field(default_factory=list)
    disturbed: list[str] = field(default_factory=list)

    @property
    def measured(self) -> list[Taken]:
        return [taken for taken in self.taken if taken.phase == "measure"]


@dataclass(frozen=True, kw_only=True)
class Asking:
    """What a cell asks, and how. asks: its requests, without an end or as many as a trace has; warmup_asks: other ones,
    for the warm-up. sampling: by dataset; a drawn prompt's is under "".
    lengths: whether an answer can be made to go on to its length. forget: has the engine forget its cached prefixes.
    next_turn: what a conversation goes on with once a turn is answered; None where it is over."""

    asks: Iterator[Ask]
    warmup_asks: Iterator[Ask]
    sampling: Mapping[str, Sampling]
    adapter: str | None = None
    exact: bool = False
    lengths: bool = True
    forget: Callable[[], None] | None = None
    words: Words | None = None
    trace_s: Sequence[float] = ()
    next_turn: Callable[[Ask, WireResult], Ask | None] | None = None


def run_cell(  # noqa: PLR0913 - what it asks, what it tells
    run: CellRun,
    server: Server,
    asking: Asking,
    *,
    warmup: int,
    cooldown: int,
    wait_s: float,
    seed: int,
    on_warm: Callable[[], None] | None = None,
    on_answer: Callable[[int], None] | None = None,
) -> None:
    """Runs the cell and fills `run`, also where the server dies on the way: what had been answered is then there.

    Warm-up is answered before the load begins, and the prefixes that it left are forgotten. Arrivals are drawn by the
    seed and the repeat alone, so that every arm gets the same ones. on_warm: called when the warm-up is over;
    on_answer: with the number of answers so far. Raises whatever the server raises."""
    load = run.point.load
    _Sending(run, server, asking, wait_s, on_answer).all(
        warming(load, warmup=warmup, random=Random(f"{seed} {run.repeat} warmup")),  # noqa: S311 - a load
        course(load, cooldown=cooldown, random=Random(f"{seed} {run.repeat}"), trace_s=asking.trace_s),  # noqa: S311
        on_warm=on_warm,
    )


@dataclass(kw_only=True)
class _Asks:
    """What one load asked. known: by request. begun: each ask's place in the load's own order; further turns of a
    conversation have that of its first."""

    known: dict[str, tuple[Ask, Request]] = field(default_factory=dict)
    begun: dict[str, int] = field(default_factory=dict)

    def begin(self, ask: Ask) -> None:
        self.begun[_beginning(ask)] = len(self.begun)

    def number(self, ask: Ask) -> int:
        return self.begun[_beginning(ask)]


def _beginning(ask: Ask) -> str:
    return ask.name if ask.session is None or ask.turns == 1 else ask.session


class _Sending:
    def __init__(
        self, run: CellRun, server: Server, asking: Asking, wait_s: float, on_answer: Callable[[int], None] | None
    ) -> None:
        self._run = run
        self._server = server
        self._asking = asking
        self._wait_s = wait_s
        self._on_answer = on_answer
        self._answers = 0

    def all(self, before: Course, load: Course, *, on_warm: Callable[[], None] | None) -> None:
        run, asking = self._run, self._asking
        self._forget()
        run.warmup_began_at = time.monotonic()
        sent, asked = Sent(), _Asks()
        try:
            self._send(before, asking.warmup_asks, asked, phase="warmup", into=sent)
        finally:
            run.taken += [dataclasses.replace(each, phase="warmup") for each in _taken(sent, asked.known)]
        self._forget()
        if on_warm is not None:
            on_warm()
        sent, asked = Sent(), _Asks()
        try:
            self._send(load, asking.asks, asked, phase="measure", into=sent)
        finally:
            self._take(load, sent, asked)

    def _take(self, load: Course, sent: Sent, asked: "_Asks") -> None:
        run = self._run
        run.began_at = sent.began_at
        for each in _taken(sent, asked.known):
            measured = load.is_measured(asked.number(each.ask), _at_s(each, sent.began_at))
            run.taken.append(each if measured else dataclasses.replace(each, phase="cooldown"))
        run.ended_at = max(
            [
                sent.began_at + (load.ask_for_s or 0.0),
                *(each.result.finished_at for each in run.measured if each.result is not None),
            ]
        )

    def _forget(self) -> None:
        if self._asking.forget is not None:
            self._asking.forget()

    def _send(self, way: Course, asks: Iterator[Ask], asked: "_Asks", *, phase: str, into: Sent) -> None:
        known = asked.known

        def planned() -> Iterator[Planned]:
            for due_s, ask in zip(way.times, asks, strict=False):
                asked.begin(ask)
                yield self._planned(ask, due_s, known, phase)

        def follow(asked: Asked, result: WireResult) -> tuple[WireRequest, float] | None:
            before, next_turn = known[asked.request.request_id][0], self._asking.next_turn
            ask = None if next_turn is None or result.error is not None else next_turn(before, result)
            return None if ask is None else (self._planned(ask, None, known, phase).request, ask.think_s)

        send(
            self._server,
            planned(),
            at_once=way.at_once,
            ask_for_s=way.ask_for_s,
            quiet_for_s=self._wait_s,
            on_answer=self._answered,
            follow=follow if self._asking.next_turn is not None else None,
            into=into,
        )

    def _planned(self, ask: Ask, due_s: float | None, known: dict[str, tuple[Ask, Request]], phase: str) -> Planned:
        request = as_request(ask, cell_id=f"{self._run.cell_id} {phase}", arm=self._run.point.arm, asking=self._asking)
        known[request.request_id] = (ask, request)
        return Planned(
            request=wire_request(request, self._asking.sampling[request.dataset], words=self._asking.words), due_s=due_s
        )

    def _answered(self, asked: Asked, result: WireResult) -> None:
        self._answers += 1
        if self._on_answer is not None:
            self._on_answer(self._answers)


def as_request(ask: Ask, *, cell_id: str, arm: str, asking: Asking) -> Request:
    """What is asked, as a request of this cell. One of the experiment's own keeps its stops, its grammar and what its
    answer is held against; with `exact` it keeps none of that, and goes on to its length."""
    name = hashlib.sha256(json.dumps([cell_id, _beginning(ask)]).encode()).hexdigest()[:20]
    if ask.turns > 1:  # which client gets it goes by what stands before the point
        name = f"{name}.{ask.turn}"
    if ask.request is None:
        return Request(
            request_id=name,
            dataset="",
            sample_id="",
            arm=arm,
            kind="generate",
            prompt_token_ids=ask.prompt_token_ids,
            max_tokens=ask.max_tokens,
            stop=[],
            adapter=asking.adapter,
            exactly=ask.exactly and asking.lengths,
        )
    own = dataclasses.replace(ask.request, request_id=name, repeat=0)
    if not asking.exact:
        return own
    return dataclasses.replace(own, stop=[], check=None, reasoning_parser=None, reasoning_begun=False, exactly=True)


def _taken(sent: Sent, known: Mapping[str, tuple[Ask, Request]]) -> Iterator[Taken]:
    for asked, result in itertools.chain(sent.answered, ((asked, None) for asked in sent.left)):
        ask, request = known[asked.request.request_id]
        yield Taken(ask=ask, request=request, phase="measure", asked=asked, result=result)


def _at_s(taken: Taken, began_at: float) -> float:
    asked = taken.asked
    if asked is None:
        return 0.0
    return (asked.submitted_at if asked.planned_at is None else asked.planned_at) - began_at
