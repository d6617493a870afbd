"""Energy, power and memory of a cell, against curves whose area is known."""

import math
from typing import Any

import pytest

from schemas.metric import Aggregate
from tasks.load.energy import cell_energy, energy_metrics, energy_shares
from tasks.load.readings import Readings
from tests.unit.load.cell_rows import Row, cell, grid, reading, readings, request

EXACT = 1e-6
FINE = grid(0.0, 60.0, 0.1)


def metrics(rows: list[Row], own: Row, requests: list[Row] | None = None, **more: Any) -> dict[str, Aggregate]:
    found = energy_metrics(own, readings=Readings(rows), requests=requests or [], **more)
    assert all(each.cell_id == "c" and each.arm == "free" and each.scope == "run" for each in found)
    return {each.name.removeprefix("perf."): each for each in found}


def close(value: float | None, wanted: float) -> bool:
    return value == pytest.approx(wanted, abs=EXACT)


def test_constant_power_by_both_sources_with_edges_between_readings() -> None:
    rows = readings(FINE, power_instant_w=lambda t: 400.0, power_w=lambda t: 1.0, energy_j=lambda t: 5_000 + 400.0 * t)
    found = metrics(rows, cell(10.03, 50.48))
    assert close(found["energy_counter_j"].value, 400 * 40.45)
    assert close(found["energy_integral_j"].value, 400 * 40.45), "the moment's power, not the mean's"
    assert close(found["energy_ratio"].value, 1.0)
    assert close(found["power_w"].value, 400.0) and close(found["power_max_w"].value, 400.0)
    assert found["energy_integral_j"].method.startswith("instantaneous power")
    assert close(found["energy_counter_j"].details["seconds"], 40.45)
    assert "short_window" not in found["energy_counter_j"].details


def test_a_ramp_is_a_triangle() -> None:
    def until(t: float) -> float:
        return 100.0 * t + 5.0 * t**2

    rows = readings(FINE, power_w=lambda t: 100.0 + 10.0 * t, energy_j=until)
    found = metrics(rows, cell(12.345, 48.761))
    wanted = until(48.761) - until(12.345)
    assert close(found["energy_integral_j"].value, wanted), "trapezoids with cut edges are the ramp's own area"
    # The counter's line between two readings is no parabola: 0.1 s of a ramp of 10 W/s hides 0.0125 J at most.
    assert found["energy_counter_j"].value == pytest.approx(wanted, abs=0.0126)
    assert close(found["power_w"].value, wanted / 36.416)
    assert close(found["power_max_w"].value, 100 + 487.0), "the last reading within"
    on_grid = metrics(rows, cell(12.0, 48.0))
    assert close(on_grid["energy_counter_j"].value, until(48.0) - until(12.0))


def test_a_counter_that_is_read_less_often_than_power() -> None:
    rows = [reading(t, power_w=250.0, energy_j=250.0 * t if n % 5 == 0 else None) for n, t in enumerate(FINE)]
    found = metrics(rows, cell(10.23, 41.79))
    assert close(found["energy_counter_j"].value, 250 * 31.56)
    assert found["energy_counter_j"].n < found["energy_integral_j"].n


def test_two_gpus_are_one_and_idle_ones_are_none() -> None:
    one = readings(FINE, "GPU-1", power_w=lambda t: 100.0, energy_j=lambda t: 100.0 * t, memory_bytes=round)
    two = readings(
        grid(0.05, 60.05, 0.1), "GPU-2", power_w=lambda t: 50.0, energy_j=lambda t: 50.0 * t, memory_bytes=lambda t: 7
    )
    found = metrics([*two, *one], cell(10.0, 40.0))
    assert close(found["energy_counter_j"].value, 4500) and close(found["energy_integral_j"].value, 4500)
    assert found["energy_counter_j"].details["devices"] == 2
    named = metrics([*two, *one], cell(10.0, 40.0), devices=["GPU-2"])
    assert close(named["energy_counter_j"].value, 1500)
    seen = [*two, *one, reading(5.0, "GPU-1", engine_processes=1), reading(5.01, "GPU-2", engine_processes=0)]
    assert close(metrics(seen, cell(10.0, 40.0))["energy_counter_j"].value, 3000), "the engine works on one of them"


def test_highest_power_and_memory_are_of_all_devices_at_one_moment() -> None:
    one = readings(FINE, "GPU-1", power_w=lambda t: 300.0 if t < 30 else 100.0, memory_bytes=lambda t: int(t * 10))
    two = readings(FINE, "GPU-2", power_w=lambda t: 100.0 if t < 30 else 250.0, memory_bytes=lambda t: 5)
    found = metrics([*one, *two], cell(10.0, 50.0))
    assert close(found["power_max_w"].value, 400.0)
    assert found["gpu_memory_peak_bytes"].value == 505


def test_a_gap_is_bridged_by_a_counter_and_not_by_power() -> None:
    times = [t for t in FINE if not 20.05 < t < 29.95]
    rows = readings(times, power_w=lambda t: 300.0, energy_j=lambda t: 300.0 * t)
    found = metrics(rows, cell(10.0, 50.0))
    assert close(found["energy_counter_j"].value, 12_000)
    assert "energy_integral_j" not in found and "energy_ratio" not in found
    assert close(found["power_w"].value, 300.0), "by the counter"
    short = readings([t for t in FINE if not 20.05 < t < 20.95], power_w=lambda t: 300.0)
    assert close(metrics(short, cell(10.0, 50.0))["energy_integral_j"].value, 12_000)


def test_a_counter_that_falls_was_reset_and_says_nothing() -> None:
    rows = readings(FINE, power_w=lambda t: 300.0, energy_j=lambda t: 300.0 * t if t < 20 else 300.0 * (t - 20))
    found = metrics(rows, cell(10.0, 50.0))
    assert "energy_counter_j" not in found and "energy_ratio" not in found
    assert close(found["energy_integral_j"].value, 12_000)
    assert close(metrics(rows, cell(25.0, 50.0))["energy_counter_j"].value, 7_500), "after it, it counts"


def test_nothing_reaches_over_the_pause_between_two_sessions() -> None:
    first = readings(grid(0.0, 20.0, 0.1), power_w=lambda t: 100.0, energy_j=lambda t: 100.0 * t)
    second = [
        row | {"revision": 2}
        for row in readings(
            grid(3600.0, 3640.0, 0.1), power_w=lambda t: 200.0, energy_j=lambda t: 9e6 + 200.0 * (t - 3600)
        )
    ]
    both = [*second, *first]
    assert close(metrics(both, cell(2.0, 18.0))["energy_counter_j"].value, 1600)
    # Half a second before the second session's first reading: its own line goes on, not one to the first session.
    found = metrics(both, cell(3599.5, 3635.0))
    assert close(found["energy_counter_j"].value, 200 * 35.5) and close(found["energy_integral_j"].value, 200 * 35.5)
    for begin, end in ((10.0, 3630.0), (15.0, 25.0), (3590.0, 3630.0), (100.0, 200.0)):
        assert not metrics(both, cell(begin, end)).keys() & {"energy_counter_j", "energy_integral_j", "power_w"}


def test_a_second_telemetry_of_one_session_is_no_jump_in_power() -> None:
    """The quality phase's ends before the benchmark's begins: no reading lies between."""
    quality = readings(grid(0.0, 20.0, 0.5), power_w=lambda t: 100.0)
    benchmark = readings(grid(25.0, 60.0, 0.1), power_w=lambda t: 500.0)
    assert close(metrics([*quality, *benchmark], cell(25.0, 60.0))["energy_integral_j"].value, 17_500)


def test_processors_alone_have_power_of_their_counter() -> None:
    rows = readings(
        FINE,
        "cpu",
        energy_j=lambda t: 80.0 * t if t < 30 else 2400 + 120.0 * (t - 30),
        process_cpu=lambda t: 1.5,
        process_rss_bytes=lambda t: 1000 + round(t),
    )
    found = metrics(rows, cell(10.0, 50.0), [request("a", 10.0, 50.0)])
    assert close(found["energy_counter_j"].value, 80 * 20 + 120 * 20)
    assert "energy_integral_j" not in found and "energy_ratio" not in found
    assert close(found["power_w"].value, 100.0) and close(found["power_max_w"].value, 120.0)
    assert close(found["joules_per_output_token"].value, 80.0)
    assert close(found["engine_cpu_cores"].value, 1.5) and found["engine_rss_peak_bytes"].value == 1050
    assert "gpu_utilization" not in found


def test_energy_of_the_processors_is_told_beside_that_of_a_gpu() -> None:
    gpu = readings(FINE, power_w=lambda t: 300.0, energy_j=lambda t: 300.0 * t)
    found = metrics([*gpu, *readings(FINE, "cpu", energy_j=lambda t: 90.0 * t)], cell(10.0, 50.0))
    assert close(found["energy_counter_j"].value, 12_000)
    assert close(found["energy_counter_j"].details["cpu_j"], 3_600)


def test_without_a_source_there_is_no_energy_but_the_rest() -> None:
    rows = readings(FINE, "cpu", process_cpu=lambda t: 2.0, process_rss_bytes=lambda t: 5)
    assert set(metrics(rows, cell(10.0, 50.0), [request("a", 10.0, 50.0)])) == {
        "engine_cpu_cores",
        "engine_rss_peak_bytes",
    }
    assert metrics([], cell(10.0, 50.0)) == {}
    assert metrics(rows, cell(10.0, 50.0, started_at=None)) == {}
    one_of_two = [*readings(FINE, "GPU-1", energy_j=lambda t: t), *readings(FINE, "GPU-2", utilization=lambda t: 0.5)]
    assert "energy_counter_j" not in metrics(one_of_two, cell(10.0, 50.0)), "half of the GPUs is not the cell's energy"


def test_a_short_window_is_told() -> None:
    rows = readings(FINE, energy_j=lambda t: 10.0 * t)
    assert metrics(rows, cell(10.0, 39.9))["energy_counter_j"].details["short_window"] is True
    assert "short_window" not in metrics(rows, cell(10.0, 40.0))["energy_counter_j"].details


def test_use_and_lowered_clocks() -> None:
    rows = readings(
        FINE,
        power_w=lambda t: 1.0,
        utilization=lambda t: t / 100,
        throttle=lambda t: ["power_cap"] if t > 29.95 else [],
    )
    found = metrics(rows, cell(20.0, 40.0))
    assert close(found["gpu_utilization"].value, 0.3) and found["gpu_utilization"].direction == "higher"
    assert found["power_w"].details["throttled"] == {"power_cap": pytest.approx(101 / 201)}


STEADY = readings(FINE, power_w=lambda t: 100.0, energy_j=lambda t: 100.0 * t)


def test_energy_for_a_token_a_request_and_a_right_answer() -> None:
    requests = [
        request("a", 10.0, 20.0, output_tokens=30),
        request("b", 12.0, 30.0, output_tokens=70, status="truncated"),
        request("c", 12.0, None, status="error", output_tokens=None),
        request("other cell", 12.0, 20.0, cell_id="d"),
    ]
    scores = {("d", "a", "free"): 1.0, ("d", "b", "free"): 0.25, ("d", "a", "guided"): 9.0}
    found = metrics(STEADY, cell(10.0, 50.0), requests, scores=scores)
    assert close(found["joules_per_output_token"].value, 4000 / 100)
    assert close(found["joules_per_request"].value, 4000 / 2)
    assert close(found["joules_per_correct"].value, 4000 / 1.25)
    assert (found["joules_per_request"].n, found["joules_per_request"].n_failed) == (2, 1)
    assert found["joules_per_output_token"].method == "energy counter / output tokens"


def test_what_has_no_divisor_is_not_there() -> None:
    unknown = [request("a", 10.0, 20.0, output_tokens=None)]
    found = metrics(STEADY, cell(10.0, 50.0), unknown, scores={("d", "a", "free"): 0.0})
    assert "joules_per_request" in found and not found.keys() & {"joules_per_output_token", "joules_per_correct"}
    drawn = [request("a", 10.0, 20.0, dataset=None, sample_id=None)]
    assert "joules_per_correct" not in metrics(STEADY, cell(10.0, 50.0), drawn, scores={("d", "a", "free"): 1.0})
    failed = metrics(STEADY, cell(10.0, 50.0), [request("a", 10.0, None, status="error")])
    assert "energy_counter_j" in failed and "joules_per_request" not in failed


def test_an_answer_without_a_score_takes_its_share_with_it() -> None:
    requests = [request("a", 10.0, 50.0), request("b", 30.0, 50.0)]
    found = metrics(STEADY, cell(10.0, 50.0), requests, scores={("d", "a", "free"): 0.5})
    assert close(found["joules_per_correct"].value, (4000 - 1000) / 0.5)
    assert found["joules_per_correct"].details["unscored"] == 1


def test_cooldown_takes_its_share_with_it() -> None:
    requests = [request("a", 10.0, 50.0, output_tokens=100), request("after", 40.0, 70.0, phase="cooldown")]
    found = metrics(STEADY, cell(10.0, 50.0), requests)
    assert close(found["energy_counter_j"].value, 4000)
    assert close(found["joules_per_output_token"].value, (4000 - 500) / 100)
    assert close(found["joules_per_output_token"].details["others_j"], 500)


def test_shares_are_equal_at_each_moment_and_sum_to_the_whole() -> None:
    """100 W: alone from 10 s, two from 20 s, three from 30 s to 40 s, nobody from 45 s."""
    requests = [
        request("a", 10.0, 40.0),
        request("b", 20.0, 45.0),
        request("c", 25.0, 40.0, queued_ms=5000.0),
        request("before", 5.0, 9.0, phase="warmup"),
        request("lost", 10.0, None, status="error"),
        request("never sent", 10.0, 20.0, sent_at=None),
    ]
    shares = energy_shares(cell(10.0, 50.0), readings=Readings(STEADY), requests=requests)
    assert shares is not None
    assert set(shares.by_request) == {"a", "b", "c"}
    assert close(shares.by_request["a"], 1000 + 500 + 1000 / 3)
    assert close(shares.by_request["b"], 500 + 1000 / 3 + 500)
    assert close(shares.by_request["c"], 1000 / 3)
    assert close(shares.idle, 500)
    assert close(sum(shares.by_request.values()) + shares.idle, 4000)


def test_shares_of_many_requests_sum_to_the_whole_of_any_curve() -> None:
    rows = readings(FINE, power_instant_w=lambda t: 300 + 200 * math.sin(t), memory_bytes=lambda t: 1)
    requests = [
        request(f"r{n}", 9.0 + n * 0.0377, 9.0 + n * 0.0377 + 0.5 + n % 17, queued_ms=n % 7) for n in range(900)
    ]
    own = cell(10.0, 50.0)
    shares = energy_shares(own, readings=Readings(rows), requests=requests)
    energy = cell_energy(own, readings=Readings(rows))
    assert shares is not None and energy is not None
    assert close(sum(shares.by_request.values()) + shares.idle, energy.joules)
    assert all(share > 0 for share in shares.by_request.values())


def test_an_open_load_counts_its_end_from_the_time_planned() -> None:
    planned = request("a", 20.0, 30.0)
    planned |= {"planned_at": planned["sent_at"].replace(second=planned["sent_at"].second - 5), "e2e_ms": 15_000.0}
    shares = energy_shares(cell(10.0, 50.0), readings=Readings(STEADY), requests=[planned])
    assert shares is not None and close(shares.by_request["a"], 1000) and close(shares.idle, 3000)


def test_no_energy_is_shared_where_none_was_measured() -> None:
    rows = Readings(readings(FINE, "cpu", process_cpu=lambda t: 1.0))
    assert energy_shares(cell(10.0, 50.0), readings=rows, requests=[request("a", 10.0, 20.0)]) is None
