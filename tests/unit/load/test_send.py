"""A load is sent at its times, whatever becomes of the requests before."""

import heapq
import itertools
import statistics
import time
from collections.abc import Iterator

import pytest

from tasks.engine.protocol import WireRequest, WireResult, WireSampling
from tasks.load.send import Planned, Sent, send


class Answering:
    """Answers each request after a while. In `stalls` (seconds from its beginning) it does nothing at all."""

    def __init__(self, *, after_s: float = 0.0, stall: tuple[float, float] = (0.0, 0.0)) -> None:
        self.began = time.monotonic()
        self.most = 0
        self._after_s = after_s
        self._stall = stall
        self._works: list[tuple[float, str, float]] = []

    def submit(self, requests: list[WireRequest]) -> None:
        now = time.monotonic()
        for request in requests:
            done = now + self._after_s
            start, end = (self.began + each for each in self._stall)
            if start <= done < end:
                done = end
            heapq.heappush(self._works, (done, request.request_id, now))
        self.most = max(self.most, len(self._works))

    def results(self, *, wait_s: float) -> Iterator[WireResult]:
        end = time.monotonic() + wait_s
        due = min(end, self._works[0][0]) if self._works else end
        time.sleep(max(0.0, due - time.monotonic()))
        while self._works and self._works[0][0] <= time.monotonic():
            done, name, sent_at = heapq.heappop(self._works)
            yield WireResult(
                request_id=name,
                token_ids=[1],
                text="",
                finish_reason="stop",
                stop_reason=None,
                sent_at=sent_at,
                finished_at=done,
            )


def plan(*due: float | None) -> list[Planned]:
    sampling = WireSampling(temperature=0.0, max_tokens=1)
    return [
        Planned(request=WireRequest(request_id=str(number), prompt_token_ids=[1], sampling=sampling), due_s=each)
        for number, each in enumerate(due)
    ]


def late(sent: Sent) -> float:
    """The median: a test machine that stops for a moment is late once."""
    return statistics.median(asked.late_ms for asked, _ in sent.answered)


def test_an_open_load_is_sent_on_time() -> None:
    times = [number / 200 for number in range(200)]
    sent = send(Answering(after_s=0.05), plan(*times))
    assert len(sent.answered) == 200 and not sent.left
    assert late(sent) < 2
    planned = sorted(asked.planned_at - sent.began_at for asked, _ in sent.answered if asked.planned_at is not None)
    assert planned == pytest.approx(times)


def test_a_server_that_stalls_puts_nothing_off() -> None:
    times = [number / 100 for number in range(60)]
    server = Answering(stall=(0.1, 0.5))
    sent = send(server, plan(*times))
    assert late(sent) < 2
    assert server.most > 30  # all that was due meanwhile was asked
    waited = {asked.request.request_id: result.finished_at - asked.submitted_at for asked, result in sent.answered}
    assert waited["12"] == pytest.approx(0.38, abs=0.05)
    assert waited["45"] == pytest.approx(0.05, abs=0.05)


def test_with_few_places_what_is_due_waits_and_the_wait_is_told_apart() -> None:
    server = Answering(after_s=0.1)
    sent = send(server, plan(0.0, 0.0, 0.0, 0.0), at_once=2)
    assert server.most == 2
    queued = sorted(asked.client_queue_ms for asked, _ in sent.answered if asked.client_queue_ms is not None)
    assert queued[:2] == pytest.approx([0, 0], abs=1)
    assert queued[2:] == pytest.approx([100, 100], abs=30)
    assert late(sent) < 2


def test_a_closed_load_keeps_its_places_full() -> None:
    server = Answering(after_s=0.05)
    sent = send(server, plan(*[None] * 12), at_once=3)
    assert server.most == 3 and len(sent.answered) == 12
    assert all(asked.planned_at is None and asked.client_queue_ms is None for asked, _ in sent.answered)
    assert time.monotonic() - sent.began_at == pytest.approx(4 * 0.05, abs=0.1)


def test_an_endless_plan_ends_with_its_time() -> None:
    endless = (each for number in itertools.count() for each in plan(None))
    named = (
        Planned(request=WireRequest(request_id=str(number), prompt_token_ids=[1], sampling=each.request.sampling))
        for number, each in enumerate(endless)
    )
    sent = send(Answering(after_s=0.02), named, at_once=2, ask_for_s=0.3)
    assert 20 <= len(sent.answered) <= 30 and not sent.left
    assert max(asked.submitted_at for asked, _ in sent.answered) - sent.began_at < 0.3


def test_answers_that_do_not_come_are_told() -> None:
    sent = send(Answering(after_s=60), plan(0.0, 0.05), wait_for_s=0.2)
    assert [asked.request.request_id for asked in sent.left] == ["0", "1"]
    assert not sent.answered


def test_a_request_without_time_needs_a_place() -> None:
    with pytest.raises(ValueError, match="needs a place"):
        send(Answering(), plan(None))
