"""Generating: hand the requests to the engine, take the answers as they come, keep each one at once."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from schemas.sample import Request
from tasks.engine.client import EngineClient
from tasks.engine.protocol import Progress
from tasks.responses import FAILED, RowContext, refused_row, response_row, wire_request

PART_ROWS = 512
PART_EVERY_S = 2.0
"""A part is written when it has so many rows, or when its first row is so old."""


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


class _Parts:
    """Collects rows and writes them in durable parts."""

    def __init__(self, write: Callable[[Sequence[dict[str, Any]]], None]) -> None:
        self._write = write
        self._rows: list[dict[str, Any]] = []
        self._since = 0.0

    def add(self, row: dict[str, Any]) -> None:
        if not self._rows:
            self._since = time.monotonic()
        self._rows.append(row)

    def flush(self, *, force: bool = False) -> None:
        due = len(self._rows) >= PART_ROWS or (self._rows and time.monotonic() - self._since >= PART_EVERY_S)
        if self._rows and (force or due):
            self._write(self._rows)
            self._rows = []


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
    what is finished. Raises EngineError if the engine dies; whatever ends this early (that, Ctrl-C, SIGTERM), the rows
    that came are written first.
    """
    by_id = {request.request_id: request for request in requests}
    summary = GenerateSummary(total=len(requests))
    parts = _Parts(write)
    started = time.monotonic()
    tokens_seen = 0

    def take(row: dict[str, Any]) -> None:
        parts.add(row)
        summary.done += 1
        summary.statuses[row["status"]] += 1
        if row.get("output_tokens") is not None:
            summary.output_tokens += row["output_tokens"]
        summary.prompt_tokens += row["prompt_tokens"]

    def report(progress: Progress | None = None) -> None:
        nonlocal tokens_seen
        tokens_seen = max(tokens_seen, summary.output_tokens if progress is None else progress.output_tokens)
        if on_update is not None:
            on_update(
                Update(
                    done=summary.done,
                    total=summary.total,
                    output_tokens=tokens_seen,
                    elapsed_s=time.monotonic() - started,
                )
            )

    todo = [request for request in requests if request.refused is None]
    for request in requests:
        if request.refused is not None:
            take(refused_row(request, context))
    next_up, outstanding = 0, 0
    try:
        while next_up < len(todo) or outstanding:
            if deadline is not None and time.monotonic() >= deadline:
                summary.stopped = "the time limit was reached"
                engine.abort_all()
                break
            # Refilled by halves: a message for each finished request would be many small ones.
            if outstanding <= window // 2 and next_up < len(todo):
                batch = todo[next_up : next_up + window - outstanding]
                engine.submit([wire_request(request, context.sampling[request.dataset]) for request in batch])
                next_up += len(batch)
                outstanding += len(batch)
            for result in engine.results(on_progress=report):
                outstanding -= 1
                take(response_row(by_id[result.request_id], result, context))
            parts.flush()
            report()
    finally:
        parts.flush(force=True)
        summary.wall_s = time.monotonic() - started
    return summary
