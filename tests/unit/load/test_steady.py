"""The steady part of a load, told from how it fills up and runs dry."""

import pytest

from schemas.cell_figures import Slo
from tasks.load.measured import Measured
from tasks.load.metrics import steady_output_tokens_per_s as metric
from tasks.load.steady import steady


def answer(sent: float, *, seconds: float = 10.0, tokens: int = 11) -> Measured:
    """A token a second after the first second, say: the first token comes with the first gap's length."""
    each = seconds / tokens
    return Measured(
        answered=True,
        sent_at=sent,
        first_token_at=sent + each,
        last_token_at=sent + seconds,
        gaps_ms=[each * 1000] * (tokens - 1),
        gap_tokens=[1] * (tokens - 1),
        output_tokens=tokens,
    )


def users(count: int, *, apart_s: float, answers: int) -> list[Measured]:
    """Users who come one after the other, each of whom asks again as soon as it is answered."""
    return [answer(user * apart_s + 10.0 * n) for user in range(count) for n in range(answers)]


def test_a_closed_load_without_its_ramp_up_and_its_end() -> None:
    load = users(8, apart_s=2.0, answers=6)  # 8 in flight from 14 s to 60 s; the last answer is there at 74 s
    found = steady(load)
    assert found is not None
    assert (found.began, found.begin, found.end, found.in_flight) == (0.0, 14.0, 60.0, 8)
    assert found.tokens_per_s == pytest.approx(8 * 1.1, rel=0.02)
    whole = sum(each.output_tokens or 0 for each in load) / 74
    assert whole < 0.85 * found.tokens_per_s, "the edges pull the whole load's number down"
    told = metric.details(load)
    assert told["begin_s"] == 14.0 and told["end_s"] == 60.0
    assert told["share_of_tokens"] == pytest.approx(found.tokens / (8 * 6 * 11))


def test_it_is_the_same_of_a_short_and_of_a_long_load() -> None:
    short, long = (metric.METRIC.of(users(4, apart_s=2.0, answers=n), Slo()) for n in (4, 40))
    assert short == pytest.approx(long, rel=0.03)
    assert short == pytest.approx(4.4, rel=0.03)


def test_times_need_not_begin_at_0() -> None:
    later = [answer(1_000.0 + each.sent_at) for each in users(8, apart_s=2.0, answers=6) if each.sent_at is not None]
    told = metric.details(later)
    assert told["begin_s"] == pytest.approx(14.0) and told["end_s"] == pytest.approx(60.0)


def test_one_answer_that_goes_on_and_on_is_no_steady_state() -> None:
    load = [*(answer(0.0, seconds=9.0) for _ in range(20)), answer(0.0, seconds=100.0)]
    assert steady(load) is None and metric.METRIC.of(load, Slo()) is None and metric.details(load) == {}
    shorter = [*(answer(0.0, seconds=9.0) for _ in range(20)), answer(0.0, seconds=40.0)]
    found = steady(shorter)
    assert found is not None and (found.begin, found.end, found.in_flight) == (0.0, 9.0, 21)


def test_a_load_with_pauses_is_as_steady_as_it_comes() -> None:
    found = steady([answer(0.0), answer(100.0), answer(200.0)])
    assert found is not None
    assert (found.begin, found.end, found.in_flight) == (0.0, 210.0, 1)
    assert found.tokens_per_s == pytest.approx(33 / 210)


def test_an_offline_load_without_its_tail() -> None:
    load = [answer(0.0, seconds=float(n + 1), tokens=10 * (n + 1)) for n in range(10)]
    found = steady(load)
    assert found is not None
    assert (found.begin, found.end, found.in_flight) == (0.0, 4.0, 7)
    assert found.tokens == pytest.approx(10 * (1 + 2 + 3 + 4) + 6 * 40, abs=6)
