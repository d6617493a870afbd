"""A load is sent at its times, whatever becomes of the requests before."""

import heapq
import itertools
import statistics
import time
from collections.abc import Iterator

import pytest

from tasks.engine.protocol import WireRequest, WireResult, WireSampling
from tasks.load.send import Asked, Follow, Planned, Sent, send


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


def turns_of(n: int, *, think_s: float) -> Follow:
    """A conversation's next turn, `name.2` after `name` or `name.1`, until there were n."""

    def follow(asked: Asked, result: WireResult) -> tuple[WireRequest, float] | None:
        session, _, turn = asked.request.request_id.partition(".")
        number = int(turn or 1) + 1
        if number > n:
            return None
        request = WireRequest(
            request_id=f"{session}.{number}",
            prompt_token_ids=[*asked.request.prompt_token_ids, *result.token_ids, 9],
            sampling=asked.request.sampling,
        )
        return request, think_s

    return follow


def by_name(sent: Sent) -> dict[str, tuple[Asked, WireResult]]:
    return {asked.request.request_id: (asked, result) for asked, result in sent.answered}


def test_an_answer_brings_the_next_turn_a_while_after_it() -> None:
    sent = send(Answering(after_s=0.03), plan(0.0, 0.01, 0.02), follow=turns_of(3, think_s=0.1))
    found = by_name(sent)
    assert len(found) == 9 and not sent.left
    for session in ("0", "1", "2"):
        for before, after in ((session, f"{session}.2"), (f"{session}.2", f"{session}.3")):
            (_, answer), (asked, _) = found[before], found[after]
            assert asked.planned_at == pytest.approx(answer.finished_at + 0.1)
            assert asked.submitted_at >= asked.planned_at
    assert found["0.3"][0].request.prompt_token_ids == [1, 1, 9, 1, 9]
    assert late(sent) < 2


def test_who_thinks_keeps_his_place_in_a_load_of_users() -> None:
    server = Answering(after_s=0.02)
    sent = send(server, plan(None, None, None, None), at_once=2, follow=turns_of(2, think_s=0.1))
    found = by_name(sent)
    assert len(found) == 8 and server.most <= 2
    first_done = min(found["0.2"][1].finished_at, found["1.2"][1].finished_at)
    assert found["2"][0].submitted_at >= first_done and found["3"][0].submitted_at >= first_done
    assert time.monotonic() - sent.began_at == pytest.approx(2 * (0.02 + 0.1 + 0.02), abs=0.1)


def test_who_thinks_holds_no_place_where_requests_come_at_their_own_times() -> None:
    server = Answering(after_s=0.02)
    sent = send(server, plan(0.0, 0.05), at_once=1, follow=turns_of(2, think_s=0.3))
    found = by_name(sent)
    assert server.most == 1
    assert found["1"][0].client_queue_ms == pytest.approx(0, abs=1)
    assert found["1"][1].finished_at < found["0.2"][0].submitted_at


def test_a_next_turn_waits_for_a_place_as_any_request_does() -> None:
    server = Answering(after_s=0.2)
    sent = send(server, plan(0.0, 0.1), at_once=1, follow=turns_of(2, think_s=0.05))
    asked, _ = by_name(sent)["0.2"]
    assert server.most == 1
    assert asked.client_queue_ms == pytest.approx(150, abs=40)
    assert late(sent) < 2


def test_slow_answers_put_off_no_conversation_that_begins() -> None:
    server = Answering(stall=(0.1, 0.5))
    times = [number / 50 for number in range(30)]
    sent = send(server, plan(*times), follow=turns_of(2, think_s=0.05))
    found = by_name(sent)
    firsts = [found[str(number)][0] for number in range(30)]
    assert statistics.median(asked.late_ms for asked in firsts) < 2
    assert [asked.planned_at - sent.began_at for asked in firsts if asked.planned_at is not None] == pytest.approx(
        times
    )
    assert len(found) == 60 and late(sent) < 2


def test_a_next_turn_that_is_due_after_the_end_is_not_asked() -> None:
    sent = send(Answering(after_s=0.02), plan(0.0), ask_for_s=0.1, follow=turns_of(2, think_s=0.2))
    assert list(by_name(sent)) == ["0"] and not sent.left


def test_making_what_is_asked_at_the_beginning_makes_nobody_late() -> None:
    """A prompt takes a while to make; the load begins when those are made that are asked at once."""

    def slow(*due: float | None) -> Iterator[Planned]:
        for each in plan(*due):
            time.sleep(0.005)
            yield each

    users = send(Answering(after_s=0.01), slow(*[None] * 20), at_once=20)
    assert max(asked.late_ms for asked, _ in users.answered) < 50
    timed = send(Answering(after_s=0.01), slow(*[0.02 * number for number in range(10)], *[0.4] * 10))
    assert late(timed) < 2
    last = [asked.late_ms for asked, _ in timed.answered if asked.planned_at == timed.began_at + 0.4]
    assert len(last) == 10 and statistics.median(last) < 5  # made in the time before


class Stopping(Answering):
    def __init__(self) -> None:
        super().__init__(after_s=60)
        self.looked: list[int] = []

    def look(self, *, in_flight: int) -> None:
        self.looked.append(in_flight)
        if len(self.looked) == 3:
            raise RuntimeError("it has hung")


def test_a_server_that_can_tell_is_asked_whether_it_has_stopped() -> None:
    server = Stopping()
    with pytest.raises(RuntimeError, match="it has hung"):
        send(server, plan(0.0, 0.0))
    assert server.looked == [2, 2, 2]


class Failing(Answering):
    def results(self, *, wait_s: float) -> Iterator[WireResult]:
        for result in super().results(wait_s=wait_s):
            if result.request_id == "2":
                raise RuntimeError("it is gone")
            yield result


def test_what_had_come_is_there_when_the_server_dies() -> None:
    sent = Sent()
    with pytest.raises(RuntimeError, match="it is gone"):
        send(Failing(after_s=0.01), plan(0.0, 0.05, 0.1, 0.1), into=sent)
    assert [result.request_id for _, result in sent.answered] == ["0", "1"]
    assert [asked.request.request_id for asked in sent.left] == ["2", "3"]
    assert sent.began_at > 0
