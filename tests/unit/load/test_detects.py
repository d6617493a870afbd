"""A whole cell against an engine whose times, errors and lengths are known: what is measured is what was put in."""

import statistics
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from schemas.benchmark import Load
from schemas.cell_figures import Slo
from schemas.engine import Sampling
from schemas.points import Point
from tasks.engine.client import EngineClient
from tasks.engine.null.script import Script
from tasks.engine.settings import ProcessSettings
from tasks.load.asks import Ask
from tasks.load.cell import Asking, CellRun, run_cell
from tasks.load.rows import cell_metrics
from tasks.responses import output_tokens

WITHIN = 0.02


@pytest.fixture
def null(tmp_path: Path) -> Iterator[EngineClient]:
    with EngineClient(log_path=tmp_path / "null.log", settings=ProcessSettings(cores=(), program="null")) as client:
        yield client


def asks(prefix: str, *, tokens: int) -> Iterator[Ask]:
    number = 0
    while True:
        yield Ask(name=f"{prefix} {number}", prompt_token_ids=[1, 2, 3], max_tokens=tokens)
        number += 1


def measured(client: EngineClient, load: Mapping[str, Any], script: Mapping[str, Any], *, tokens: int = 12) -> CellRun:
    client.build(model="null", options=dict(script))
    point = Point(arm="free", name="of-a-test", load=TypeAdapter(Load).validate_python(load))
    run = CellRun(point=point, cell_id="a-cell", engine_id="e", repeat=0, order_index=0)
    run_cell(
        run,
        client,
        Asking(
            asks=asks("ask", tokens=tokens),
            warmup_asks=asks("warm", tokens=2),
            sampling={"": Sampling()},
            forget=client.reset_prefix_cache,
        ),
        warmup=3,
        cooldown=5,
        wait_s=30.0,
        seed=1,
    )
    return run


def figures(run: CellRun, slo: Slo | None = None) -> dict[str, float | None]:
    return {metric.name: metric.value for metric in cell_metrics(run, slo=slo or Slo())}


def test_delays_are_measured(null: EngineClient) -> None:
    load = {"kind": "open", "rate": [40], "seconds": 3}
    found = figures(measured(null, load, {"ttft_ms": 150.0, "tpot_ms": 40.0}))
    assert found["perf.ttft_ms.p50"] == pytest.approx(150, rel=WITHIN)
    assert found["perf.tpot_ms.p50"] == pytest.approx(40, rel=WITHIN)
    assert found["perf.e2e_ms.p50"] == pytest.approx(150 + 11 * 40, rel=WITHIN)


def test_a_stall_shows_in_the_gaps(null: EngineClient) -> None:
    """What was due in it comes at its end: a gap as long as the stall, which the average over an answer hides."""
    script = {"ttft_ms": 20.0, "tpot_ms": 10.0, "stalls": [(1.0, 1.5)]}
    run = measured(null, {"kind": "closed", "concurrency": [8], "requests": 120}, script, tokens=20)
    gaps = [gap for taken in run.measured for gap in taken.measured.gaps_ms]
    assert max(gaps) == pytest.approx(1500, rel=WITHIN)
    assert statistics.median(gaps) == pytest.approx(10, rel=0.1)
    assert 1 <= sum(gap > 1000 for gap in gaps) <= 8


def test_errors_are_counted_and_are_in_no_latency(null: EngineClient) -> None:
    script = {"ttft_ms": 5.0, "tpot_ms": 1.0, "error_share": 0.3}
    run = measured(null, {"kind": "open", "rate": [300], "requests": 600}, script)
    drawn = Script(**script)
    expected = sum(drawn.answer(taken.request.request_id, max_tokens=12).error for taken in run.measured) / 600
    found = figures(run, Slo(ttft_ms=10_000))
    assert expected == pytest.approx(0.3, abs=0.06)
    assert found["perf.failed_share"] == pytest.approx(expected, abs=1e-9)
    assert found["perf.goodput_share"] == pytest.approx(1 - expected, abs=1e-9)


def test_lengths_are_the_engines_own(null: EngineClient) -> None:
    script = {"ttft_ms": 1.0, "tpot_ms": 1.0, "tokens": (4, 24)}
    run = measured(null, {"kind": "offline", "requests": 400}, script)
    drawn = Script(**script)
    expected = [drawn.answer(taken.request.request_id, max_tokens=12).tokens for taken in run.measured]
    lengths = [output_tokens(taken.result) for taken in run.measured if taken.result is not None]
    assert lengths == expected
    assert statistics.mean(expected) == pytest.approx(14, rel=0.05)
    assert sum(not taken.has_right_length for taken in run.measured) == sum(length != 12 for length in expected)


def test_a_throughput_is_what_delays_allow(null: EngineClient) -> None:
    run = measured(null, {"kind": "closed", "concurrency": [4], "requests": 40}, {"ttft_ms": 50.0, "tpot_ms": 15.0})
    each_s = (50 + 11 * 15) / 1000
    found = figures(run)
    assert found["perf.requests_per_s"] == pytest.approx(4 / each_s, rel=WITHIN)
    assert found["perf.output_tokens_per_s"] == pytest.approx(4 * 12 / each_s, rel=WITHIN)


def test_phases_are_told_apart(null: EngineClient) -> None:
    run = measured(null, {"kind": "closed", "concurrency": [4], "requests": 20}, {"ttft_ms": 5.0})
    phases = [taken.phase for taken in run.taken]
    assert (phases.count("warmup"), phases.count("measure"), phases.count("cooldown")) == (3, 20, 5)
    assert run.warmup_began_at < run.began_at < run.ended_at
    warm = [taken.asked.submitted_at for taken in run.taken if taken.phase == "warmup" and taken.asked is not None]
    assert max(warm) < run.began_at
