"""In which order a run's requests are asked, where some hang on the answers to others.

With `free_matched` the guided answers are asked apart from all others, and so are the free ones of their lengths: what
is in a batch together shares the price of its masks. They take turns, block by block, so that a machine that slows down
meets both alike and says how far its own times can be trusted. Every block is spread over all datasets. Both find the
prompts in the prefix cache as the other arms left them; where these did not read them, or they do not all fit in, it is
emptied before each turn.

The retries of `repair` come last, one round of them after the other.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from schemas.sample import ANSWERED, Request
from tasks.session import Session

Rows = Mapping[str, Mapping[str, Any]]
"""What is known of the requests so far, by request_id: rows of `requests`, with request_key, status, valid, error and
output_tokens."""


FEWEST, MOST = 4, 8
"""Blocks: of fewer than four, nothing could be said of the machine's own ups and downs."""


@dataclass(frozen=True, kw_only=True)
class Wave:
    """Requests that are asked together. unmatched: those that cannot be asked, each with the reason. forget: whether
    the engine is to empty its prefix cache before. ahead: requests that are sure to come after."""

    requests: list[Request]
    unmatched: list[tuple[Request, str]] = field(default_factory=list)
    forget: bool = False
    ahead: int = 0


class Waves:
    """The waves of one run. What turns out on the way (lengths, retries that are due) goes into session.requests.

    at_once: how many requests the engine works on together. room: the tokens that its cache holds; None: not known."""

    def __init__(self, session: Session, *, at_once: int, room: int | None = None) -> None:
        self._session = session
        self._at_once = at_once
        self._room = room
        self._left = self._waves()
        self._rows: Rows = {}

    def next(self, rows: Rows) -> Wave | None:
        """The next one, None after the last. rows: what is known now."""
        keys = self._session.request_keys
        self._rows = {each: row for each, row in rows.items() if row["request_key"] == keys.get(each)}
        return next(self._left, None)

    def _waves(self) -> Iterator[Wave]:
        requests = self._session.requests
        wanted = {request.matches for request in requests if request.matches is not None}
        own = [request for request in requests if not request.follows]
        apart = [request for request in own if request.request_id in wanted]
        others = [request for request in own if request.request_id not in wanted]
        matched = [request for request in requests if request.matches is not None]
        if others:
            yield Wave(requests=others, ahead=len(apart) + len(matched))
        forget = not self._stays(others)
        count = blocks(len(apart), at_once=self._at_once)
        ahead = len(apart) + len(matched)
        for start in range(count):
            guided = apart[start::count]
            names = {request.request_id for request in guided}
            ahead -= len(guided)
            yield Wave(requests=guided, ahead=ahead, forget=forget)
            ours = [request for request in matched if request.matches in names]
            ahead -= len(ours)
            yield self._matched(ours, forget=forget, ahead=ahead)
        retries = self._session.retries
        for number in sorted({request.repair_try or 0 for request in retries}):
            due = [each for each in retries if each.repair_try == number and self._is_due(each)]
            self._session.requests = [*self._session.requests, *due]
            if due:
                yield Wave(requests=due)

    def _stays(self, requests: Sequence[Request]) -> bool:
        """Whether the prompts of these requests are all in the prefix cache afterwards. Where some are not, the guided
        answers would bring them back for those that take turns with them."""
        read = [request for request in requests if request.kind == "generate"]
        tokens = sum(len(request.prompt_token_ids) + request.max_tokens for request in read)
        return bool(read) and (self._room is None or tokens <= self._room)

    def _matched(self, requests: Sequence[Request], *, forget: bool, ahead: int) -> Wave:
        found, without = matched(requests, self._rows)
        known = {request.request_id: request for request in found}
        self._session.requests = [known.get(each.request_id, each) for each in self._session.requests]
        return Wave(requests=found, unmatched=without, forget=forget, ahead=ahead)

    def _is_due(self, retry: Request) -> bool:
        row = self._rows.get(str(retry.instead_of))
        return row is not None and is_due(row)


def blocks(requests: int, *, at_once: int) -> int:
    """In how many blocks two arms take turns: such that each fills the engine, but FEWEST at least and MOST at most."""
    return min(max(FEWEST, min(MOST, requests // max(1, at_once))), max(1, requests // 2)) if requests else 0


def matched(requests: Sequence[Request], rows: Rows) -> tuple[list[Request], list[tuple[Request, str]]]:
    """The requests, each of exactly the length of its guided answer; and those without one, with the reason."""
    found: list[Request] = []
    without: list[tuple[Request, str]] = []
    for request in requests:
        row = rows.get(str(request.matches))
        length = None if row is None or row["status"] not in ANSWERED else row["output_tokens"]
        if length:
            found.append(replace(request, max_tokens=length, exactly=True))
        else:
            why = "has no token" if length == 0 else "is not there" if row is None else f"came to `{row['status']}`"
            without.append((request, f"its guided answer {why}, so there is no length to match"))
    return found, without


def is_due(row: Mapping[str, Any]) -> bool:
    """Whether an answer is to be replaced: it is there, and was not found valid."""
    return row["status"] in ANSWERED and row["valid"] is not True
