"""timing.*: percentiles, throughput, and what is NULL."""

import datetime

import pytest

from tasks.record.timing import telemetry_metrics, timing_metrics

START = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)


def answer(at_s: float, *, arm: str = "free", status: str = "ok", ttft: float | None = 100.0, tokens: int = 10) -> dict:
    answered = status == "ok"
    return {
        "kind": "generate",
        "arm": arm,
        "status": status,
        "sent_at": START + datetime.timedelta(seconds=at_s),
        "ttft_ms": ttft if answered else None,
        "tpot_ms": 5.0 if answered else None,
        "e2e_ms": 1000.0 if answered else None,
        "queued_ms": 1.0,
        "prefill_ms": 2.0,
        "decode_ms": 3.0,
        "output_tokens": tokens if answered else None,
        "prompt_tokens": 30,
    }


def values(metrics) -> dict:
    return {(m.name, m.arm): m for m in metrics}


def test_percentiles_interpolate_and_leave_failures_out() -> None:
    rows = [answer(0, ttft=t) for t in (10.0, 20.0, 30.0, 40.0)] + [answer(0, status="error")]
    found = values(timing_metrics(rows))
    assert found["timing.ttft_ms.p50", "free"].value == 25.0
    assert found["timing.ttft_ms.p95", "free"].value == pytest.approx(38.5)
    assert (found["timing.ttft_ms.p50", "free"].n, found["timing.ttft_ms.p50", "free"].n_failed) == (4, 1)


def test_throughput_is_over_the_time_from_first_sent_to_last_answer() -> None:
    found = values(timing_metrics([answer(0), answer(3)]))  # from 0 s to 4 s
    assert found["timing.output_tokens_per_s", None].value == pytest.approx(20 / 4)
    assert found["timing.prompt_tokens_per_s", None].value == pytest.approx(60 / 4)
    assert found["timing.requests_per_s", None].value == pytest.approx(2 / 4)


def test_an_interrupted_run_has_no_throughput() -> None:
    found = values(timing_metrics([answer(0), answer(3)], resumed=True))
    assert found["timing.output_tokens_per_s", None].value is None
    assert found["timing.ttft_ms.p50", "free"].value == 100.0


def test_nothing_answered_is_null() -> None:
    found = values(timing_metrics([answer(0, status="refused")]))
    assert found["timing.ttft_ms.p50", "free"].value is None
    assert not any(name.endswith("per_s") for name, _ in found)


def reading(second: float, device: str, **changes: object) -> dict:
    empty = dict.fromkeys(("power_w", "energy_j", "process_rss_bytes", "process_cpu"))
    empty["revision"] = 0
    return {"ts": START + datetime.timedelta(seconds=second), "device": device, **empty, **changes}


def test_energy_by_counter_and_by_integral() -> None:
    rows = [reading(t, "gpu", power_w=100.0, energy_j=5000.0 + 100 * t) for t in (0, 1, 2, 4)]
    found = values(telemetry_metrics(rows))
    assert found["timing.energy_counter", None].value == pytest.approx(400)
    assert found["timing.energy_integral", None].value == pytest.approx(400)


def test_the_pause_before_a_resumed_session_costs_no_energy() -> None:
    first = [reading(t, "gpu", power_w=100.0, energy_j=100.0 * t) for t in (0, 1, 2)]
    second = [reading(3600 + t, "gpu", power_w=100.0, energy_j=9e6 + 100.0 * t, revision=2) for t in (0, 1, 2)]
    found = values(telemetry_metrics(first + second))
    assert found["timing.energy_counter", None].value == pytest.approx(400)
    assert found["timing.energy_integral", None].value == pytest.approx(400)


def test_without_a_gpu_there_is_no_energy_and_not_zero() -> None:
    found = values(telemetry_metrics([reading(0, "cpu", process_rss_bytes=7, process_cpu=None)]))
    assert found["timing.engine_rss_peak", None].value == 7
    assert set(found) == {("timing.engine_rss_peak", None)}
