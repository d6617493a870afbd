"""Every GPU by UUID, as its driver's library (NVML) tells."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from tasks.telemetry.processes import Processes

_THROTTLE = {
    0x2: "applications_clocks",
    0x4: "power_cap",
    0x8: "hw_slowdown",
    0x20: "sw_thermal",
    0x40: "hw_thermal",
    0x80: "hw_power_brake",
}
"""NVML's reasons for a lowered clock, without `idle`, `sync` and `display`, which disturb nothing."""


class Gpus:
    """Every GPU by UUID. Without a driver there is none, and `reason` says why. A reading that a card does not offer is
    NULL."""

    def __init__(self, nvml: Any = None) -> None:
        if nvml is None:
            import pynvml  # noqa: PLC0415 - not needed where no run runs

            nvml = pynvml
        self._nvml = nvml
        self._handles: dict[str, Any] = {}
        self.reason: str | None = None
        try:
            nvml.nvmlInit()
            for index in range(nvml.nvmlDeviceGetCount()):
                handle = nvml.nvmlDeviceGetHandleByIndex(index)
                self._handles[nvml.nvmlDeviceGetUUID(handle)] = handle
        except nvml.NVMLError as error:
            self.reason = str(error)

    def read(self, *, dear: bool, processes: Processes) -> Iterator[tuple[str, dict[str, Any]]]:
        """The columns of each GPU. dear: the energy counter and the processes on it too."""
        for uuid, handle in self._handles.items():
            found = self._cheap(handle)
            if dear:
                found |= self._dear(handle, processes)
            yield uuid, found

    def _cheap(self, handle: Any) -> dict[str, Any]:
        nvml = self._nvml
        utilization = self._ask(nvml.nvmlDeviceGetUtilizationRates, handle)
        memory = self._ask(nvml.nvmlDeviceGetMemoryInfo, handle)
        reasons = self._ask(nvml.nvmlDeviceGetCurrentClocksEventReasons, handle)
        return {
            "power_w": _thousandth(self._ask(nvml.nvmlDeviceGetPowerUsage, handle)),
            "power_instant_w": _thousandth(self._field(handle, nvml.NVML_FI_DEV_POWER_INSTANT)),
            "utilization": None if utilization is None else utilization.gpu / 100,
            "memory_utilization": None if utilization is None else utilization.memory / 100,
            "memory_bytes": None if memory is None else memory.used,
            "temperature_c": self._ask(nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU),
            "sm_clock_mhz": self._ask(nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_SM),
            "memory_clock_mhz": self._ask(nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_MEM),
            "throttle": None if reasons is None else [name for bit, name in _THROTTLE.items() if reasons & bit],
        }

    def _dear(self, handle: Any, processes: Processes) -> dict[str, Any]:
        nvml = self._nvml
        running = self._ask(nvml.nvmlDeviceGetComputeRunningProcesses, handle)
        engine, others = (None, None) if running is None else processes.on_gpu({each.pid for each in running})
        return {
            "energy_j": _thousandth(self._ask(nvml.nvmlDeviceGetTotalEnergyConsumption, handle)),
            "engine_processes": engine,
            "other_processes": others,
        }

    def _field(self, handle: Any, field: int) -> int | None:
        values = self._ask(self._nvml.nvmlDeviceGetFieldValues, handle, [field])
        if values is None or values[0].nvmlReturn != self._nvml.NVML_SUCCESS:
            return None
        return int(values[0].value.uiVal)

    def _ask(self, call: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return call(*arguments)
        except self._nvml.NVMLError:
            return None

    def close(self) -> None:
        """Gives the library back."""
        if self.reason is None:
            with contextlib.suppress(self._nvml.NVMLError):
                self._nvml.nvmlShutdown()


def _thousandth(value: int | None) -> float | None:
    return None if value is None else value / 1000
