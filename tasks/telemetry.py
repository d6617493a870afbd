"""The machine while a run runs: the engine's processes, and each GPU that has a driver, read in a thread of its own."""

import contextlib
import datetime
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psutil

INTERVAL_S = 0.5
PART_ROWS = 600

_THROTTLE = {
    0x2: "applications_clocks",
    0x4: "power_cap",
    0x8: "hw_slowdown",
    0x20: "sw_thermal",
    0x40: "hw_thermal",
    0x80: "hw_power_brake",
}
"""NVML's reasons for a lowered clock, without `idle`, `sync` and `display`, which disturb nothing."""


class _Gpus:
    """Every GPU by UUID. Without a driver there is none, and `reason` says why. A reading that a card does not offer is
    NULL."""

    def __init__(self) -> None:
        import pynvml  # noqa: PLC0415 - not needed where no run runs

        self._nvml = pynvml
        self._handles: dict[str, Any] = {}
        self.reason: str | None = None
        try:
            pynvml.nvmlInit()
            for index in range(pynvml.nvmlDeviceGetCount()):
                handle = pynvml.nvmlDeviceGetHandleByIndex(index)
                self._handles[pynvml.nvmlDeviceGetUUID(handle)] = handle
        except pynvml.NVMLError as error:
            self.reason = str(error)

    def rows(self, now: datetime.datetime) -> list[dict[str, Any]]:
        return [self._row(uuid, handle, now) for uuid, handle in self._handles.items()]

    def _row(self, uuid: str, handle: Any, now: datetime.datetime) -> dict[str, Any]:
        nvml = self._nvml
        power = self._read(nvml.nvmlDeviceGetPowerUsage, handle)
        energy = self._read(nvml.nvmlDeviceGetTotalEnergyConsumption, handle)
        utilization = self._read(nvml.nvmlDeviceGetUtilizationRates, handle)
        memory = self._read(nvml.nvmlDeviceGetMemoryInfo, handle)
        reasons = self._read(nvml.nvmlDeviceGetCurrentClocksEventReasons, handle)
        return {
            "ts": now,
            "device": uuid,
            "power_w": None if power is None else power / 1000,
            "energy_j": None if energy is None else energy / 1000,
            "utilization": None if utilization is None else utilization.gpu / 100,
            "memory_bytes": None if memory is None else memory.used,
            "temperature_c": self._read(nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU),
            "sm_clock_mhz": self._read(nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_SM),
            "throttle": None if reasons is None else [name for bit, name in _THROTTLE.items() if reasons & bit],
        }

    def _read(self, call: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return call(*arguments)
        except self._nvml.NVMLError:
            return None

    def close(self) -> None:
        if self.reason is None:
            with contextlib.suppress(self._nvml.NVMLError):
                self._nvml.nvmlShutdown()


class Telemetry:
    """Reads the machine every half second from `start` to `stop`. write: takes rows of `telemetry`.

    pid: the process whose tree is the engine. After `stop`: `warning` says what could not be measured, once.
    """

    def __init__(self, *, pid: int, write: Callable[[Sequence[dict[str, Any]]], None]) -> None:
        self._pid = pid
        self._write = write
        self._gpus = _Gpus()
        self._rows: list[dict[str, Any]] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="telemetry", daemon=True)
        self._cpu_seconds: float | None = None
        self._read_at: float | None = None
        self._throttled_before = throttled_s()
        self.error: Exception | None = None

    @property
    def warning(self) -> str | None:
        if self.error is not None:
            return f"telemetry stopped early: {self.error}"
        if self._gpus.reason is not None:
            return f"no GPU power or energy was measured: {self._gpus.reason}"
        return None

    def start(self) -> None:
        self._thread.start()

    def watch(self, pid: int) -> None:
        """Another engine took over: from now on this process's tree is the engine."""
        self._pid = pid

    def stop(self) -> None:
        """Ends the thread and writes what it had."""
        self._stop.set()
        self._thread.join()
        self._gpus.close()
        if self._rows:
            self._write(self._rows)
            self._rows = []

    def _loop(self) -> None:
        try:
            while not self._stop.wait(INTERVAL_S):
                now = datetime.datetime.now(datetime.UTC)
                self._rows += [self._cpu_row(now), *self._gpus.rows(now)]
                if len(self._rows) >= PART_ROWS:
                    self._write(self._rows)
                    self._rows = []
        except Exception as error:  # noqa: BLE001 - a run does not end for its telemetry; the run's warnings say it
            self.error = error

    def _cpu_row(self, now: datetime.datetime) -> dict[str, Any]:
        cpu_seconds, rss = 0.0, 0
        with contextlib.suppress(psutil.NoSuchProcess):
            root = psutil.Process(self._pid)
            for process in [root, *root.children(recursive=True)]:
                with contextlib.suppress(psutil.NoSuchProcess):
                    times = process.cpu_times()
                    cpu_seconds += times.user + times.system
                    rss += process.memory_info().rss
        at = now.timestamp()
        cores = None
        if self._cpu_seconds is not None and self._read_at is not None and cpu_seconds >= self._cpu_seconds:
            cores = (cpu_seconds - self._cpu_seconds) / (at - self._read_at)
        self._cpu_seconds, self._read_at = cpu_seconds, at
        throttled = throttled_s()
        return {
            "ts": now,
            "device": "cpu",
            "utilization": psutil.cpu_percent() / 100,
            "memory_bytes": psutil.virtual_memory().used,
            "process_cpu": cores,
            "process_rss_bytes": rss if rss else None,
            "cpu_throttled_s": None
            if throttled is None or self._throttled_before is None
            else throttled - self._throttled_before,
        }


def throttled_s() -> float | None:
    """Seconds that this process's cgroup was held back by a CPU quota since it exists; None where nothing says so."""
    for path, unit in (("/sys/fs/cgroup/cpu.stat", 1e-6), ("/sys/fs/cgroup/cpu/cpu.stat", 1e-9)):
        try:
            lines = Path(path).read_text().splitlines()
        except OSError:
            continue
        for line in lines:
            name, _, value = line.partition(" ")
            if name in ("throttled_usec", "throttled_time"):
                return int(value) * unit
    return None
