"""Generating: hand the requests to the engine, take the answers as they come, keep each one at once."""

import collections
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from schemas.sample import Request
from tasks.engine.client import EngineClient
from tasks.engine.failure import EngineDied
from tasks.engine.protocol import Progress, Steps, WireResult
from tasks.engine.pulse import Pulse
from tasks.engine.turns import Turns
from tasks.responses import FAILED, RowContext, killer_row, refused_row, response_row, wire_request

PART_ROWS = 512
PART_EVERY_S = 2.0
"""A part is written when it has so many rows, or when its first row is so old."""

HANG_S = 900.0
"""An engine with work that says nothing for so long has hung: the longest step takes far less."""
OUT_OF_TIME = "the time limit was reached"


@dataclass(frozen=True, kw_only=True)
class Update:
    """How far it is: requests done of all, and the output tokens that the engine has made."""

    done: int
    total: int
    output_tokens: int
    elapsed_s: float


@dataclass(kw_only=True)
class GenerateSummary:
    """What came of a generating step. stopped: why it ended before all was done, None if it did not."""

    total: int
    done: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    output_tokens: int = 0
    prompt_tokens: int = 0
    wall_s: float = 0.0
    stopped: str | None = None

    @property
    def failed(self) -> int:
        return sum(self.statuses[status] for status in FAILED)


@dataclass(frozen=True, kw_only=True)
class Replacement:
    """The engine that goes on where another one ended. suspected: whether a request may be what that one died of."""

    engine: EngineClient
    context: RowContext
    window: int
    suspected: bool


Replace = Callable[[EngineDied, Turns], Replacement | None]


class _Answers:
    """Makes rows of results, counts them, keeps them in durable parts. `arrived`: what is still to be made a row."""

    def __init__(
        self,
        requests: Sequence[Request],
        context: RowContext,
        write: Callable[[Sequence[dict[str, Any]]], None],
        on_update: Callable[[Update], None] | None,
    ) -> None:
        self.summary = GenerateSummary(total=len(requests))
        self.arrived: collections.deque[WireResult] = collections.deque()
        self.context = context
        self._by_id = {request.request_id: request for request in requests}
        self._write = write
        self._on_update = on_update
        self._rows: list[dict[str, Any]] = []
        self._since = 0.0
        self._started = time.monotonic()
        self._tokens_seen = 0

    def take_arrived(self) -> None:
        """One is taken off only when its row is kept, so that an interrupt in between loses none."""
        while self.arrived:
            result = self.arrived[0]
            self.take(response_row(self._by_id[result.request_id], result, self.context))
            self.arrived.popleft()

    def take(self, row: dict[str, Any]) -> None:
        if not self._rows:
            self._since = time.monotonic()
        self._rows.append(row)
        summary = self.summary
        summary.done += 1
        summary.statuses[row["status"]] += 1
        summary.prompt_tokens += row["prompt_tokens"]
        if row.get("output_tokens") is not None:
            summary.output_tokens += row["output_tokens"]

    def flush(self, *, force: bool = False) -> None:
        """Writes a part, if it is due."""
        due = len(self._rows) >= PART_ROWS or (self._rows and time.monotonic() - self._since >= PART_EVERY_S)
        if self._rows and (force or due):
            self._write(self._rows)
            self._rows = []

    def report(self, progress: Progress | None = None) -> None:
        """Tells how far it is. The engine knows of tokens whose requests are not finished."""
        known = self.summary.output_tokens if progress is None else progress.output_tokens
        self._tokens_seen = max(self._tokens_seen, known)
        if self._on_update is not None:
            self._on_update(
                Update(
                    done=self.summary.done,
                    total=self.summary.total,
                    output_tokens=self._tokens_seen,
                    elapsed_s=time.monotonic() - self._started,
                )
            )

    def last_words(self, turns: Turns, rest: Sequence[WireResult]) -> None:
        """Takes what an engine had answered when it died."""
        for result in rest:
            self.arrived.append(result)
            turns.answered(result.request_id)
        self.take_arrived()
        self.flush(force=True)

    def end(self, rest: Sequence[WireResult]) -> None:
        """Takes what had arrived last, and puts everything on disk."""
        self.arrived.extend(rest)
        self.take_arrived()
        self.flush(force=True)
        self.summary.wall_s = time.monotonic() - self._started


def generate(  # noqa: PLR0913 - what it asks, what it tells
    *,
    engine: EngineClient,
    requests: Sequence[Request],
    context: RowContext,
    window: int,
    write: Callable[[Sequence[dict[str, Any]]], None],
    on_update: Callable[[Update], None] | None = None,
    on_steps: Callable[[list[Steps], str], None] | None = None,
    deadline: float | None = None,
    hang_s: float = HANG_S,
    replace: Replace | None = None,
) -> GenerateSummary:
    """Answers every request, in order, with at most `window` of them at the engine at once.

    write: takes rows of `requests` and returns once they are on disk. on_steps: takes what the engine of this id told
    of its steps. deadline: a monotonic time at which to stop with what is finished. hang_s: seconds without a word
    after which the engine has hung. replace: gives another engine for one that died or hung, and None where the time
    ran out; it raises EngineError where there shall be no further one. Without it the death is the end.

    Raises EngineError if the engine dies or hangs for good; whatever ends this early (that, Ctrl-C, SIGTERM), the rows
    that came are written first.
    """
    answers = _Answers(requests, context, write, on_update)
    for request in requests:
        if request.refused is not None:
            answers.take(refused_row(request, context))
    turns = Turns((request for request in requests if request.refused is None), window=window)
    alive: EngineClient | None = engine
    pulse = Pulse(pid=engine.pid, hang_s=hang_s)
    try:
        while turns and answers.summary.stopped is None:
            if deadline is not None and time.monotonic() >= deadline:
                answers.summary.stopped = OUT_OF_TIME
                engine.abort_all()
                break
            try:
                _ask_and_take(engine, turns, answers, pulse)
            except EngineDied as died:
                answers.last_words(turns, engine.drain())
                _tell_steps(engine, answers, on_steps)
                if replace is None:
                    raise
                alive = None
                next_one = replace(died, turns) if deadline is None or time.monotonic() < deadline else None
                if next_one is None:
                    answers.summary.stopped = OUT_OF_TIME
                    break
                _lay_blame(died, turns, answers, suspected=next_one.suspected)
                answers.context, turns.window = next_one.context, next_one.window
                alive = engine = next_one.engine
                pulse = Pulse(pid=engine.pid, hang_s=hang_s)
            answers.flush()
            _tell_steps(engine, answers, on_steps)
    finally:
        answers.end([] if alive is None else alive.drain())
    return answers.summary


def _ask_and_take(engine: EngineClient, turns: Turns, answers: _Answers, pulse: Pulse) -> None:
    """One round: hands over what is due, takes what comes within a second. Raises EngineDied."""
    sampling, words = answers.context.sampling, answers.context.words
    batch = turns.next()
    if batch:
        engine.submit([wire_request(request, sampling[request.dataset], words=words) for request in batch])
    for result in engine.results(on_progress=answers.report):
        answers.arrived.append(result)
        turns.answered(result.request_id)
    answers.take_arrived()
    answers.report()
    why = pulse.stopped(engine.silent_s)
    if why is not None:
        raise engine.hung(why)


def _lay_blame(died: EngineDied, turns: Turns, answers: _Answers, *, suspected: bool) -> None:
    if not suspected:
        turns.put_back()
        return
    killer = turns.died()
    if killer is not None:
        answers.take(killer_row(killer, answers.context, words=died.last_words))


def _tell_steps(engine: EngineClient, answers: _Answers, on_steps: Callable[[list[Steps], str], None] | None) -> None:
    if on_steps is not None and (steps := engine.take_steps()):
        on_steps(steps, answers.context.engine_id)
