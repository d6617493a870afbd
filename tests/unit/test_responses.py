"""From what the engine sent back to a row: status, validity, and times that mean what they say."""

import pytest

from schemas.engine import Sampling
from schemas.sample import Grammar, Request
from tasks.engine.protocol import WireResult
from tasks.responses import RowContext, refused_row, response_row

NUMBER = Grammar(grammar_id="b" * 16, kind="regex", content="[0-9]+")
CONTEXT = RowContext(
    engine_id="e", sampling={"d": Sampling()}, keys={"r": "k"}, attempts={}, wall_offset_s=1_700_000_000.0
)


def request(**changes: object) -> Request:
    values: dict[str, object] = {
        "request_id": "r",
        "dataset": "d",
        "sample_id": "d:1",
        "arm": "guided",
        "kind": "generate",
        "prompt_token_ids": [1, 2, 3],
        "max_tokens": 5,
        "stop": [],
        "grammar": NUMBER,
        "check": NUMBER,
    }
    return Request(**(values | changes))  # type: ignore[arg-type]


def result(**changes: object) -> WireResult:
    values: dict[str, object] = {
        "request_id": "r",
        "token_ids": [4, 5, 6],
        "text": "123",
        "finish_reason": "stop",
        "stop_reason": None,
        "sent_at": 10.0,
        "finished_at": 10.5,
        "first_token_at": 10.1,
        "first_text_at": 10.2,
        "last_token_at": 10.5,
        "gaps_ms": [100.0, 300.0],
        "gap_tokens": [1, 1],
    }
    return WireResult(**(values | changes))  # type: ignore[arg-type]


def test_times_are_differences_of_arrivals() -> None:
    row = response_row(request(), result(), CONTEXT)
    assert row["ttft_ms"] == pytest.approx(100)
    assert row["ttft_text_ms"] == pytest.approx(200)
    assert row["tpot_ms"] == pytest.approx(200)  # (10.5 - 10.1) s over two tokens
    assert row["e2e_ms"] == pytest.approx(500)
    assert row["sent_at"].timestamp() == pytest.approx(1_700_000_010.0)


def test_one_token_has_no_time_per_further_token() -> None:
    row = response_row(request(), result(token_ids=[4], text="1", last_token_at=10.1, gaps_ms=[]), CONTEXT)
    assert row["tpot_ms"] is None and row["ttft_ms"] == pytest.approx(100)


@pytest.mark.parametrize(
    ("finish", "text", "status", "valid"),
    [
        ("stop", "123", "ok", True),
        ("stop", "12a", "invalid", False),
        ("length", "123", "truncated", True),
        ("length", "", "truncated", False),
    ],
)
@pytest.mark.parametrize("grammar", [NUMBER, None])
def test_status_and_validity(finish: str, text: str, status: str, valid: bool, grammar: Grammar | None) -> None:
    row = response_row(request(grammar=grammar), result(finish_reason=finish, text=text), CONTEXT)
    assert (row["status"], row["valid"]) == (status, valid)
    assert bool(row["violations"]) is not valid


def test_nothing_to_validate_is_null_and_not_false() -> None:
    row = response_row(request(grammar=None, check=None), result(), CONTEXT)
    assert row["status"] == "ok" and row.get("valid") is None


def test_a_refusal_and_an_error_are_told_apart_and_have_no_output() -> None:
    refused = response_row(request(), result(error="no such keyword", refused=True, token_ids=[], text=""), CONTEXT)
    failed = response_row(request(), result(error="it broke", token_ids=[], text=""), CONTEXT)
    assert (refused["status"], failed["status"]) == ("refused", "error")
    assert refused["error"] == "no such keyword" and "output" not in refused


def test_a_loglikelihood_is_a_sum_and_makes_no_output() -> None:
    asked = request(kind="loglikelihood", grammar=None, check=None, choice_index=1, continuation_start=2)
    row = response_row(asked, result(logprobs=[-1.0, -0.5], token_ids=[], text=""), CONTEXT)
    assert row["logprob_sum"] == -1.5 and row["logprobs"] == [-1.0, -0.5]
    assert row["output_tokens"] == 0 and row.get("output") is None


def test_a_request_that_was_never_sent_says_why() -> None:
    row = refused_row(request(grammar=None, refused="no valid schema"), CONTEXT)
    assert (row["status"], row["error"]) == ("refused", "no valid schema")
    assert "ttft_ms" not in row
