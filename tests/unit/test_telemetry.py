"""The machine is read on a grid: by a driver's library and kernel's files made for it, and by real processes."""

import itertools
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tasks.telemetry import COUNTERS_S, Telemetry
from tasks.telemetry.cgroup import Throttling
from tasks.telemetry.gpus import Gpus
from tasks.telemetry.processes import Processes
from tasks.telemetry.rapl import package_energy
from warehouse.schema.engine import TELEMETRY

BURN = "import time\nend = time.monotonic() + 60\nwhile time.monotonic() < end: pass"
PARENT = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {BURN!r}])"


class Nvml:
    """A driver's library with two cards, of which the second one offers next to nothing."""

    NVML_SUCCESS, NVML_TEMPERATURE_GPU, NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_FI_DEV_POWER_INSTANT = 0, 0, 1, 2, 186

    class NVMLError(Exception):
        pass

    def __init__(self, *, pids: list[int] | None = None, takes_s: float = 0.0, driver: bool = True) -> None:
        self.pids = pids or []
        self.counted = 0
        self.takes_s = takes_s
        self.driver = driver
        self.open = False

    def nvmlInit(self) -> None:
        if not self.driver:
            raise self.NVMLError("no driver here")
        self.open = True

    def nvmlShutdown(self) -> None:
        self.open = False

    def nvmlDeviceGetCount(self) -> int:
        return 2

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index

    def nvmlDeviceGetUUID(self, handle: int) -> str:
        return f"GPU-{handle}"

    def _of_first(self, handle: int, value: Any) -> Any:
        if handle == 1:
            raise self.NVMLError("not supported")
        return value

    def nvmlDeviceGetPowerUsage(self, handle: int) -> int:
        time.sleep(self.takes_s)
        return 300_500

    def nvmlDeviceGetFieldValues(self, handle: int, fields: list[int]) -> list[Any]:
        assert fields == [186]
        return [SimpleNamespace(nvmlReturn=3 * handle, value=SimpleNamespace(uiVal=412_250))]

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: int) -> int:
        self.counted += 1
        return int(self._of_first(handle, 1_000_000 + self.counted))

    def nvmlDeviceGetUtilizationRates(self, handle: int) -> Any:
        return self._of_first(handle, SimpleNamespace(gpu=75, memory=50))

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> Any:
        return self._of_first(handle, SimpleNamespace(used=123))

    def nvmlDeviceGetTemperature(self, handle: int, sensor: int) -> int:
        return int(self._of_first(handle, 61))

    def nvmlDeviceGetClockInfo(self, handle: int, clock: int) -> int:
        return int(self._of_first(handle, {1: 1980, 2: 3201}[clock]))

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: int) -> int:
        return int(self._of_first(handle, 0x1 | 0x4 | 0x20))

    def nvmlDeviceGetComputeRunningProcesses(self, handle: int) -> list[Any]:
        return list(self._of_first(handle, [SimpleNamespace(pid=pid) for pid in self.pids]))


@pytest.fixture
def started() -> Iterator[Callable[[str], int]]:
    """Starts a program in Python; gives its process's number."""
    running: list[subprocess.Popen[bytes]] = []

    def start(program: str) -> int:
        running.append(subprocess.Popen([sys.executable, "-c", program], start_new_session=True))
        return running[-1].pid

    yield start
    for process in running:
        os.killpg(process.pid, 9)
        process.wait()


def read_for(seconds: float, telemetry: Telemetry) -> None:
    telemetry.start()
    time.sleep(seconds)
    telemetry.stop()


def of(rows: list[dict[str, Any]], device: str) -> list[dict[str, Any]]:
    return [row for row in rows if row["device"] == device]


def seconds(rows: list[dict[str, Any]]) -> list[float]:
    return [row["ts"].timestamp() for row in rows]


def powercap(root: Path, domains: dict[str, tuple[str, int]]) -> Path:
    for folder, (name, energy) in domains.items():
        (root / folder).mkdir(parents=True)
        (root / folder / "name").write_text(f"{name}\n")
        (root / folder / "energy_uj").write_text(f"{energy}\n")
        (root / folder / "max_energy_range_uj").write_text("262143328850\n")
    return root


def test_readings_stay_on_the_grid_however_long_each_takes() -> None:
    rows: list[dict[str, Any]] = []
    read_for(2.05, Telemetry(pid=os.getpid(), write=rows.extend, interval_s=0.1, nvml=Nvml(takes_s=0.02)))
    times = seconds(of(rows, "cpu"))[:-1]  # the last one is that of `stop`
    off = [(at - times[0]) % 0.1 for at in times]
    steps = [round((at - times[0]) / 0.1) for at in times]
    assert len(set(steps)) == len(steps) >= 12, "one a place of the grid, no bursts after a late one"
    # With 40 ms for each reading a thread that slept 0.1 s between them would be off by anything.
    assert statistics.median(min(each, 0.1 - each) for each in off) < 0.01


def test_a_card_tells_what_it_offers_and_the_rest_is_missing() -> None:
    rows: list[dict[str, Any]] = []
    nvml = Nvml()
    read_for(0.05, Telemetry(pid=os.getpid(), write=rows.extend, nvml=nvml))
    first, second = of(rows, "GPU-0")[0], of(rows, "GPU-1")[0]
    first.pop("ts")
    assert first.pop("energy_j") == pytest.approx(1000, abs=0.1)
    assert first == {
        "device": "GPU-0",
        "power_w": 300.5,
        "power_instant_w": 412.25,
        "utilization": 0.75,
        "memory_utilization": 0.5,
        "memory_bytes": 123,
        "temperature_c": 61,
        "sm_clock_mhz": 1980,
        "memory_clock_mhz": 3201,
        "throttle": ["power_cap", "sw_thermal"],
        "engine_processes": 0,
        "other_processes": 0,
    }
    assert {name for name, value in second.items() if value is not None} == {"ts", "device", "power_w"}
    assert set().union(*rows) <= set(TELEMETRY.names)
    assert not nvml.open, "the library is given back"


def test_counters_are_read_once_a_second_and_at_every_edge() -> None:
    rows: list[dict[str, Any]] = []
    telemetry = Telemetry(pid=os.getpid(), write=rows.extend, interval_s=0.05, nvml=Nvml())
    telemetry.start()
    time.sleep(2.6)
    telemetry.mark()
    marked = time.time()
    time.sleep(0.1)
    telemetry.stop()
    gpu = of(rows, "GPU-0")
    counted = [row for row in gpu if row.get("energy_j") is not None]
    assert len(gpu) >= 40 and 4 <= len(counted) <= 6
    gaps = [later - sooner for sooner, later in itertools.pairwise(seconds(counted)[:3])]
    assert all(abs(gap - COUNTERS_S) < 0.06 for gap in gaps), gaps
    assert min(abs(at - marked) for at in seconds(counted)) < 0.04
    assert counted[-1] is gpu[-1], "the last reading has all"


def test_another_interval_for_a_while() -> None:
    rows: list[dict[str, Any]] = []
    telemetry = Telemetry(pid=os.getpid(), write=rows.extend)
    telemetry.start()
    time.sleep(0.2)
    with telemetry.every(0.05):
        begin = time.time()
        time.sleep(0.5)
        end = time.time()
    time.sleep(0.6)
    telemetry.stop()
    at = seconds(rows)
    assert 9 <= sum(begin - 0.02 <= each <= end + 0.02 for each in at) <= 13
    assert 2 <= sum(each > end + 0.02 for each in at) <= 3
    with pytest.raises(ValueError, match="above 0"):
        telemetry.every(0)


def test_an_interval_that_was_asked_for_before_the_start() -> None:
    rows: list[dict[str, Any]] = []
    telemetry = Telemetry(pid=os.getpid(), write=rows.extend)
    telemetry.every(0.05)
    read_for(0.5, telemetry)
    assert 8 <= len(rows) <= 13


def test_one_that_never_started_is_closed() -> None:
    nvml = Nvml()
    Telemetry(pid=os.getpid(), write=lambda _: pytest.fail("there is nothing"), nvml=nvml).stop()
    assert not nvml.open


def test_no_driver_is_told_once_and_nothing_is_0() -> None:
    rows: list[dict[str, Any]] = []
    telemetry = Telemetry(pid=os.getpid(), write=rows.extend, nvml=Nvml(driver=False))
    read_for(0.05, telemetry)
    assert telemetry.warning == "no GPU power or energy was measured: no driver here"
    assert {row["device"] for row in rows} == {"cpu"}


def test_a_failure_to_write_is_told_and_ends_nothing() -> None:
    nvml = Nvml()
    nvml.nvmlDeviceGetMemoryInfo = lambda handle: 1 / 0  # type: ignore[method-assign]
    telemetry = Telemetry(pid=os.getpid(), write=lambda _: None, nvml=nvml)
    read_for(0.05, telemetry)
    assert telemetry.warning == "telemetry stopped early: division by zero"


def test_the_engine_is_a_tree_of_processes_and_the_client_is_not(started: Callable[[str], int]) -> None:
    root = started(PARENT)
    time.sleep(0.5)
    processes = Processes(engine=root, own=os.getpid())
    begin = time.monotonic()
    engine, client = processes.read(begin)
    assert engine.cores is None and client.cores is None, "the first reading has nothing before it"
    time.sleep(0.8)
    engine, client = processes.read(time.monotonic())
    assert engine.cores is not None and 0.2 < engine.cores < 1.1, "the child burns; two processes share a busy machine"
    assert client.cores is not None and client.cores < 0.2, "the engine is this process's child and not counted twice"
    assert engine.rss_bytes is not None and engine.rss_bytes > 10e6
    assert processes.read(time.monotonic())[0].cores is None, "ticks of 10 ms say nothing of a moment"


def test_another_engine_is_another_tree(started: Callable[[str], int]) -> None:
    idle, busy = started("import time; time.sleep(60)"), started(BURN)
    processes = Processes(engine=idle, own=os.getpid())
    processes.read(time.monotonic())
    processes.watch(busy)
    assert processes.read(time.monotonic())[0].cores is None
    time.sleep(0.5)
    cores = processes.read(time.monotonic())[0].cores
    assert cores is not None and cores > 0.2


def test_an_engine_that_died_has_no_use_and_not_0() -> None:
    with subprocess.Popen([sys.executable, "-c", "pass"]) as ended:
        pass
    processes = Processes(engine=ended.pid, own=os.getpid())
    processes.read(0.0)
    engine, _ = processes.read(1.0)
    assert engine.cores is None and engine.rss_bytes is None


def test_processes_on_a_gpu_are_the_engines_or_others(started: Callable[[str], int]) -> None:
    engine, other = started("import time; time.sleep(60)"), started("import time; time.sleep(60)")
    processes = Processes(engine=engine, own=engine)
    processes.read(0.0)

    def on(*pids: int) -> tuple[int | None, int | None]:
        (_, found), _ = Gpus(Nvml(pids=list(pids))).read(dear=True, processes=processes)
        return found["engine_processes"], found["other_processes"]

    assert on() == (0, 0)
    assert on(engine) == (1, 0)
    assert on(engine, other) == (1, 1)
    assert on(4_000_000) == (None, None), "a number of another container's: it may be the engine"
    assert on(engine, 4_000_000) == (1, None)


def test_a_worker_that_came_later_is_not_another(started: Callable[[str], int]) -> None:
    root = started(f"import subprocess, sys, time; time.sleep(0.7); subprocess.run([sys.executable, '-c', {BURN!r}])")
    processes = Processes(engine=root, own=root)
    processes.read(0.0)
    time.sleep(1.5)
    child = int(Path(f"/proc/{root}/task/{root}/children").read_text())
    assert processes.on_gpu({child}) == (1, 0)


def test_energy_of_packages_goes_on_when_a_counter_is_full(tmp_path: Path) -> None:
    full = 262_143_328_850
    root = powercap(
        tmp_path,
        {
            "intel-rapl:0": ("package-0", full - 1_000_000),
            "intel-rapl:1": ("package-1", 5_000_000),
            "intel-rapl:2": ("psys", 77_000_000),
            "intel-rapl:0:0": ("core", 33_000_000),
            "intel-rapl:0:1": ("dram", 44_000_000),
            "intel-rapl-mmio:0": ("package-0", 9_000_000),
        },
    )
    read = package_energy(root)
    begin = read()
    assert begin is not None
    (root / "intel-rapl:0" / "energy_uj").write_text("999999\n")  # 1 J to the top, the step over it, and up again
    (root / "intel-rapl:1" / "energy_uj").write_text("8000000\n")
    after = read()
    assert after is not None and after - begin == pytest.approx(2.0 + 3.0, abs=1e-6)
    assert package_energy(root)() == pytest.approx(after, abs=1e-6), "another telemetry goes on where this one was"


def test_energy_that_may_not_be_read_is_missing(tmp_path: Path) -> None:
    assert package_energy(tmp_path / "nowhere")() is None
    root = powercap(tmp_path, {"intel-rapl:0": ("package-0", 5), "intel-rapl:1": ("package-1", 5)})
    (root / "intel-rapl:1" / "energy_uj").unlink()
    assert package_energy(root)() is None, "one of two packages is not the machine"


def test_energy_of_the_processors_is_in_the_row(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = []
    root = powercap(tmp_path, {"intel-rapl:0": ("package-0", 7_000_000)})
    read_for(0.02, Telemetry(pid=os.getpid(), write=rows.extend, nvml=Nvml(driver=False), powercap=root))
    assert [row["energy_j"] for row in rows] == [7.0] * len(rows)


@pytest.mark.parametrize(("line", "wanted"), [("throttled_usec 2500000", 2.5), ("throttled_time 500000000", 0.5)])
def test_time_held_back_is_that_of_the_own_group(tmp_path: Path, line: str, wanted: float) -> None:
    proc, cgroup = tmp_path / "proc", tmp_path / "cgroup"
    (proc / "self").mkdir(parents=True)
    (proc / "self" / "cgroup").write_text("0::/run/own\n")
    (cgroup / "run" / "own").mkdir(parents=True)
    (cgroup / "run" / "own" / "cpu.stat").write_text(f"nr_periods 5\n{line}\n")
    (cgroup / "run" / "cpu.stat").write_text("nr_periods 5\nthrottled_usec 1\n")
    assert Throttling(proc=proc, cgroup=cgroup).seconds() == pytest.approx(wanted)
    assert Throttling(proc=proc, cgroup=tmp_path / "none").seconds() is None


def test_ten_readings_a_second_cost_little(started: Callable[[str], int]) -> None:
    telemetry = Telemetry(pid=started(PARENT), write=lambda _: None, interval_s=0.1, nvml=Nvml())
    telemetry.start()
    time.sleep(3.0)
    own = telemetry.own_cores
    telemetry.stop()
    assert math.isfinite(own) and 0 < own < 0.03, f"{own:.4f} cores"
