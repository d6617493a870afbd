"""Generating: hand the requests to the engine, take the answers as they come, keep each one at once."""

import collections
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from schemas.sample import Request
from tasks.engine.client import EngineClient
from tasks.engine.protocol import Progress, WireResult
from tasks.responses import FAILED, RowContext, refused_row, response_row, wire_request

PART_ROWS = 512
PART_EVERY_S = 2.0
"""A part is written when it has so many rows, or when its first row is so old."""

HUNG_S = 900.0
"""An engine with work that says nothing for so long has hung: the longest step takes far less."""


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
        self._by_id = {request.request_id: request for request in requests}
        self._context = context
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
            self.take(response_row(self._by_id[result.request_id], result, self._context))
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

    def end(self, rest: Sequence[WireResult]) -> None:
        """Takes what had arrived last, and puts everything on disk."""
        self.arrived.extend(rest)
        self.take_arrived()
        self.flush(force=True)
        self.summary.wall_s = time.monotonic() - self._started


def generate(
    *,
    engine: EngineClient,
    requests: Sequence[Request],
    context: RowContext,
    window: int,
    write: Callable[[Sequence[dict[str, Any]]], None],
    on_update: Callable[[Update], None] | None = None,
    deadline: float | None = None,
) -> GenerateSummary:
    """Answers every request, in order, with at most `window` of them at the engine at once.

    write: takes rows of `requests` and returns once they are on disk. deadline: a monotonic time at which to stop with
    what is finished. Raises EngineError if the engine dies or hangs; whatever ends this early (that, Ctrl-C, SIGTERM),
    the rows that came are written first.
    """
    answers = _Answers(requests, context, write, on_update)
    for request in requests:
        if request.refused is not None:
            answers.take(refused_row(request, context))
    todo = [request for request in requests if request.refused is None]
    next_up, outstanding = 0, 0
    try:
        while next_up < len(todo) or outstanding:
            if deadline is not None and time.monotonic() >= deadline:
                answers.summary.stopped = "the time limit was reached"
                engine.abort_all()
                break
            # Refilled by halves: a message for each finished request would be many small ones.
            if outstanding <= window // 2 and next_up < len(todo):
                batch = todo[next_up : next_up + window - outstanding]
                engine.submit([wire_request(request, context.sampling[request.dataset]) for request in batch])
                next_up += len(batch)
                outstanding += len(batch)
            answers.arrived.extend(engine.results(on_progress=answers.report))
            outstanding -= len(answers.arrived)
            answers.take_arrived()
            answers.flush()
            answers.report()
            if engine.silent_s > HUNG_S:
                raise engine.hung()
    finally:
        answers.end(engine.drain())
    return answers.summary
