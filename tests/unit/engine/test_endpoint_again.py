"""When a request is sent again, and when nothing is sent any more."""

import email.utils

import pytest

from schemas.endpoint import Breaker, Retries
from tasks.engine.endpoint.again import Circuit, again, asked_wait_s, backoff_s

NOW = 1_800_000_000.0


def test_only_what_may_help_is_done_again() -> None:
    assert all(again(status) for status in (408, 425, 429, 500, 502, 503, 504, 529))
    assert not any(again(status) for status in (400, 401, 403, 404, 413, 422))


def test_waits_are_drawn_over_all_of_a_bound_that_doubles() -> None:
    retries = Retries(first_wait_s=1.0, longest_wait_s=10.0)
    for tries, bound in ((1, 1.0), (2, 2.0), (3, 4.0), (5, 10.0), (400, 10.0)):
        drawn = [backoff_s(retries, tries) for _ in range(2000)]
        assert 0 <= min(drawn) < 0.05 * bound and 0.95 * bound < max(drawn) <= bound
        assert sum(drawn) / len(drawn) == pytest.approx(bound / 2, rel=0.1)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"Retry-After": "7"}, 7.0),
        ({"Retry-After": "0.25"}, 0.25),
        ({"Retry-After": email.utils.formatdate(NOW + 90, usegmt=True)}, 90.0),
        ({"Retry-After": email.utils.formatdate(NOW - 90, usegmt=True)}, 0.0),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "-4"}, None),
        ({"Retry-After": "nan"}, None),
        ({"x-ratelimit-reset": "12"}, 12.0),
        ({"x-ratelimit-reset": str(NOW + 5)}, 5.0),
        ({"x-ratelimit-reset": str(int((NOW + 5) * 1000))}, 5.0),
        ({"x-ratelimit-reset-requests": "1m30s"}, 90.0),
        ({"x-ratelimit-reset-requests": "20ms", "x-ratelimit-reset-tokens": "6m0s"}, 360.0),
        (
            {
                "x-ratelimit-remaining-requests": "0",
                "x-ratelimit-reset-requests": "2s",
                "x-ratelimit-remaining-tokens": "5000",
                "x-ratelimit-reset-tokens": "6m0s",
            },
            2.0,
        ),
        ({"Retry-After": "3", "x-ratelimit-reset": "12"}, 3.0),
    ],
)
def test_the_time_that_a_server_names(headers: dict[str, str], seconds: float | None) -> None:
    assert asked_wait_s(headers, now=NOW) == (None if seconds is None else pytest.approx(seconds))


def test_the_circuit_opens_after_failures_in_a_row_and_is_tried_again() -> None:
    circuit = Circuit(Breaker(failures=3))
    assert not circuit.failed("a") and not circuit.failed("b")
    circuit.succeeded()
    assert not circuit.failed("a") and not circuit.failed("b") and circuit.failed("HTTP 500: c")
    assert circuit.reason == "not sent: the server failed 3 times in a row, the last time so: HTTP 500: c"
    assert not circuit.failed("late"), "it is open already"
    circuit.back()
    assert not circuit.open
    assert circuit.failed("d"), "on trial, one failure is enough"
    circuit.back()
    circuit.succeeded()
    assert not circuit.failed("e")


def test_a_circuit_of_no_failures_never_opens() -> None:
    circuit = Circuit(Breaker(failures=0))
    assert not any(circuit.failed("a") for _ in range(1000))
    assert not circuit.open
