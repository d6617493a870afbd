"""The null engine's own process, asked as a load asks: what its script says is what is measured."""

import statistics
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from schemas.errors import EngineError
from tasks.engine.client import EngineClient
from tasks.engine.protocol import WireRequest, WireResult, WireSampling
from tasks.engine.settings import ProcessSettings
from tasks.load.arrivals import Stretch, due, gaps
from tasks.load.send import Asked, Planned, send


@pytest.fixture
def null(tmp_path: Path) -> Iterator[EngineClient]:
    with EngineClient(log_path=tmp_path / "null.log", settings=ProcessSettings(cores=(), program="null")) as client:
        yield client


def request(name: str, *, max_tokens: int = 5) -> WireRequest:
    sampling = WireSampling(temperature=0.0, max_tokens=max_tokens)
    return WireRequest(request_id=name, prompt_token_ids=[1], sampling=sampling)


def answered(
    client: EngineClient, script: dict[str, Any], *, rate: float, seconds: float
) -> list[tuple[Asked, WireResult]]:
    client.build(model="null", options=script)
    times = due([Stretch(start=rate, end=rate, seconds=seconds)], gaps("poisson", random=Random(5)))
    sent = send(client, [Planned(request=request(str(n)), due_s=at) for n, at in enumerate(times)], wait_for_s=30)
    assert not sent.left
    return sent.answered


def test_times_are_those_of_the_script_and_requests_are_on_time(null: EngineClient) -> None:
    found = answered(null, {"ttft_ms": 80.0, "tpot_ms": 20.0}, rate=200, seconds=2)
    assert len(found) > 300
    ttft = statistics.median(
        (result.first_token_at - asked.planned_at) * 1000
        for asked, result in found
        if result.first_token_at is not None and asked.planned_at is not None
    )
    assert ttft == pytest.approx(80, rel=0.1)
    gap = statistics.median(gap for _, result in found for gap in result.gaps_ms)
    assert gap == pytest.approx(20, rel=0.1)
    assert statistics.median(asked.late_ms for asked, _ in found) < 5
    assert all(len(result.token_ids) == 5 and result.gap_tokens == [1] * 4 for _, result in found)


def test_errors_and_lengths_come_as_often_as_the_script_says(null: EngineClient) -> None:
    found = answered(null, {"error_share": 0.25, "tokens": [2, 6]}, rate=2000, seconds=1)
    failed = sum(result.error is not None for _, result in found)
    assert failed / len(found) == pytest.approx(0.25, abs=0.04)
    lengths = [len(result.token_ids) for _, result in found if result.error is None]
    assert set(lengths) == {2, 3, 4, 5, 6}
    assert statistics.fmean(lengths) == pytest.approx(4, abs=0.15)


def test_a_stall_is_seen_by_all_who_were_due_meanwhile(null: EngineClient) -> None:
    found = answered(null, {"ttft_ms": 1.0, "stalls": [[0.2, 0.5]]}, rate=100, seconds=1)
    waits = [
        (asked.planned_at, (result.first_token_at - asked.planned_at) * 1000)
        for asked, result in found
        if result.first_token_at is not None and asked.planned_at is not None
    ]
    long = [wait for _, wait in waits if wait > 100]
    assert 25 < len(long) < 60
    assert max(long) == pytest.approx(500, abs=60)


def test_it_takes_no_command_that_needs_a_model(null: EngineClient) -> None:
    null.build(model="null", options={})
    null.reset_prefix_cache()
    assert null.stats() == {}
    with pytest.raises(EngineError, match="there is no engine behind"):
        null.make_masks(by="vllm")
