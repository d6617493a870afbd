"""What disturbed a cell, and what is how a busy machine works."""

from typing import Any

import pytest

from tasks.load.disturbed import disturbed
from tasks.load.readings import Readings
from tests.unit.load.cell_rows import Row, cell, grid, reading, readings

TIMES = grid(0.0, 60.0, 0.1)
OWN = cell(10.0, 50.0)


def words(rows: list[Row], *, cores: int = 16, own: Row = OWN, **more: Any) -> list[str]:
    return disturbed(own, readings=Readings(rows), cores=cores, **more)


def machine(**columns: Any) -> list[Row]:
    usual: dict[str, Any] = {
        "memory_bytes": lambda t: 1,
        "utilization": lambda t: 5.5 / 16,
        "process_cpu": lambda t: 4.0,
        "client_cpu": lambda t: 1.0,
        "cpu_throttled_s": lambda t: 7.0,
    }
    return readings(TIMES, "cpu", **(usual | columns))


def gpu(**columns: Any) -> list[Row]:
    usual: dict[str, Any] = {"throttle": lambda t: ["power_cap"], "other_processes": lambda t: 0}
    return readings(TIMES, **(usual | columns))


def test_a_machine_that_works_for_the_engine_alone_is_quiet() -> None:
    assert words([*machine(), *gpu()]) == []
    assert words([]) == []
    assert words([*machine(), *gpu()], own=cell(10.0, 50.0, ended_at=None)) == []


def test_time_held_back_by_a_quota_within_the_cell_alone() -> None:
    rows = machine(cpu_throttled_s=lambda t: 5.0 if t < 20 else 5.0 + min(t - 20, 10) * 0.12)
    assert words(rows) == ["cpu_throttled 1.2 s"]
    assert words(rows, own=cell(31.0, 50.0)) == [] == words(rows, own=cell(2.0, 19.0))
    assert words(rows, own=cell(20.0, 25.0)) == ["cpu_throttled 0.6 s"]
    assert words(machine(cpu_throttled_s=lambda t: 5.0 if t < 20 else 5.39)) == [], "under 1 % of 40 s"
    restarted = machine(cpu_throttled_s=lambda t: 5.0 if t < 20 else 0.0)
    assert words(restarted) == [], "another telemetry begins at 0"


def test_heat_disturbs_and_a_power_cap_does_not() -> None:
    hot = gpu(throttle=lambda t: ["power_cap", "sw_thermal"] if t > 29.95 else [])
    assert words([*machine(), *hot]) == ["gpu_thermal sw_thermal 50%"]
    braked = gpu(throttle=lambda t: ["hw_slowdown", "hw_power_brake"])
    assert words([*machine(), *braked]) == ["gpu_slowdown hw_slowdown 100%", "gpu_slowdown hw_power_brake 100%"]
    once = gpu(throttle=lambda t: ["hw_thermal"] if abs(t - 30) < 0.05 else [])
    assert words([*machine(), *once]) == []
    assert words([*machine(), *hot], devices=["GPU-7"]) == []


def test_another_process_on_the_gpu_for_half_a_second() -> None:
    seen = [reading(t, throttle=[], other_processes=2 if n == 200 else 0 if n % 5 == 0 else None)
            for n, t in enumerate(TIMES)]  # fmt: skip
    assert words([*machine(), *seen]) == ["other_process_on_gpu 2"]
    assert words([*machine(), *gpu(other_processes=lambda t: None)]) == []


@pytest.mark.parametrize(
    ("cores", "others", "wanted"),
    [
        (16, 1.5, []),
        (16, 3.2, ["host_busy 3.2 of 16 cores"]),
        (2, 0.4, []),
        (2, 0.6, ["host_busy 0.6 of 2 cores"]),
        (192, 15.0, []),
    ],
)
def test_work_of_others_on_the_machine(cores: int, others: float, wanted: list[str]) -> None:
    own = 1.0 if cores == 2 else 5.0
    rows = machine(
        utilization=lambda t: (own + others) / cores, process_cpu=lambda t: own - 0.5, client_cpu=lambda t: 0.5
    )
    assert words(rows, cores=cores) == wanted


def test_work_of_others_is_not_told_where_the_clients_own_is_not_known() -> None:
    assert words(machine(utilization=lambda t: 1.0, client_cpu=lambda t: None)) == []


def test_a_machine_that_stood_still() -> None:
    rows = [row for row in machine() if not 20.05 < (row["ts"] - OWN["started_at"]).total_seconds() + 10 < 22.35]
    assert words(rows) == ["stalled 2.4 s"]
    assert words(rows, own=cell(30.0, 50.0)) == []
