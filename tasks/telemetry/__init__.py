"""The machine while a run runs: the engine's processes, and each GPU that has a driver, read in a thread of its own."""

import contextlib
import datetime
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil

from tasks.plan.device import CGROUP
from tasks.telemetry.cgroup import Throttling
from tasks.telemetry.gpus import Gpus
from tasks.telemetry.processes import LEAST_S, Processes
from tasks.telemetry.rapl import POWERCAP, package_energy

INTERVAL_S = 0.5
"""Between readings, as long as nobody asks for another interval."""
COUNTERS_S = 1.0
"""Between readings of what is dear to read. A GPU's energy counter takes 5 ms of processor time (H200), all else of a
GPU together 0.3 ms, and a difference of two readings is as exact as that of many."""
PART_ROWS = 3000


class Telemetry:
    """Reads the machine from `start` to `stop`. write: takes rows of `telemetry`.

    Readings are on a grid: one that is late does not shift those after it. What a row has no value for was not offered
    or, of the energy counter and the other processes on a GPU, not read at that moment. pid: the process whose tree is
    the engine. After `stop`: `warning` says what could not be measured, once. nvml, powercap, cgroup: where readings
    come from, other than the driver's library and the kernel's files."""

    def __init__(
        self,
        *,
        pid: int,
        write: Callable[[Sequence[dict[str, Any]]], None],
        interval_s: float = INTERVAL_S,
        nvml: Any = None,
        powercap: Path = POWERCAP,
        cgroup: Path = CGROUP,
    ) -> None:
        self._write = write
        self._gpus = Gpus(nvml)
        self._energy = package_energy(powercap)
        self._throttling = Throttling(cgroup=cgroup)
        self._throttled_before = self._throttling.seconds()
        self._processes = Processes(engine=pid, own=os.getpid())
        self._machine = _Machine()
        self._rows: list[dict[str, Any]] = []
        self._wall_offset_s = time.time() - time.monotonic()
        self._changed = threading.Condition()
        self._interval_s = interval_s
        self._asked = False
        self._stopping = False
        self._counted_at: float | None = None
        self._thread = threading.Thread(target=self._loop, name="telemetry", daemon=True)
        self._began = time.monotonic()
        self._own_cpu_s = 0.0
        self.error: Exception | None = None

    @property
    def warning(self) -> str | None:
        if self.error is not None:
            return f"telemetry stopped early: {self.error}"
        if self._gpus.reason is not None:
            return f"no GPU power or energy was measured: {self._gpus.reason}"
        return None

    @property
    def own_cores(self) -> float:
        """Processor use of the reading itself since `start`, in cores."""
        return self._own_cpu_s / max(1e-9, time.monotonic() - self._began)

    def start(self) -> None:
        self._began = time.monotonic()
        self._thread.start()

    def watch(self, pid: int) -> None:
        """Another engine took over: from now on this process's tree is the engine."""
        self._processes.watch(pid)

    def every(self, interval_s: float) -> "_Every":
        """From now on reads so often, the first time at once. As a context manager: until its end, then as before.

        Raises ValueError for an interval that is not above 0."""
        if interval_s <= 0:
            raise ValueError(f"an interval of {interval_s} s between readings: it is above 0")
        before = self._interval_s
        self._interval_s = interval_s
        self.mark()
        return _Every(self, before)

    def mark(self) -> None:
        """Reads everything now, the dear readings too: at an edge of what is measured. Does not wait for it."""
        with self._changed:
            self._asked = True
            self._changed.notify()

    def stop(self) -> None:
        """Reads once more, ends the thread and writes what it had. One that was never started is closed."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        if self._thread.ident is not None:
            self._thread.join()
        self._gpus.close()
        if self._rows:
            self._write(self._rows)
            self._rows = []

    def _loop(self) -> None:
        try:
            due = time.monotonic()
            dear, last = True, False
            while True:
                now = time.monotonic()
                self._rows += self._read(now, dear=dear)
                if len(self._rows) >= PART_ROWS:
                    self._write(self._rows)
                    self._rows = []
                self._own_cpu_s = time.thread_time()
                if last:
                    return
                with self._changed:
                    late = max(0.0, time.monotonic() - due)
                    due += (late // self._interval_s + 1) * self._interval_s
                    self._changed.wait_for(
                        lambda: self._stopping or self._asked, timeout=max(0.0, due - time.monotonic())
                    )
                    last = self._stopping
                    dear = self._asked or last or self._is_dear(due)
                    if self._asked:
                        due, self._asked = time.monotonic(), False
        except Exception as error:  # noqa: BLE001 - a run does not end for its telemetry; the run's warnings say it
            self.error = error

    def _is_dear(self, at: float) -> bool:
        return self._counted_at is None or at - self._counted_at >= COUNTERS_S - self._interval_s / 2

    def _read(self, now: float, *, dear: bool) -> Iterator[dict[str, Any]]:
        if dear:
            self._counted_at = now
        ts = datetime.datetime.fromtimestamp(now + self._wall_offset_s, tz=datetime.UTC)
        yield {"ts": ts, "device": "cpu"} | self._cpu(now)
        for uuid, reading in self._gpus.read(dear=dear, processes=self._processes):
            yield {"ts": ts, "device": uuid} | reading

    def _cpu(self, now: float) -> dict[str, Any]:
        engine, client = self._processes.read(now)
        throttled = self._throttling.seconds()
        return {
            "energy_j": self._energy(),
            "utilization": self._machine.utilization(now),
            "memory_bytes": psutil.virtual_memory().used,
            "process_cpu": engine.cores,
            "process_rss_bytes": engine.rss_bytes,
            "client_cpu": client.cores,
            "cpu_throttled_s": None
            if throttled is None or self._throttled_before is None
            else throttled - self._throttled_before,
        }


class _Every(contextlib.AbstractContextManager[None]):
    def __init__(self, telemetry: Telemetry, before: float) -> None:
        self._telemetry = telemetry
        self._before = before

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._telemetry.every(self._before)


class _Machine:
    """How busy all processors of the machine are, between one reading and the next."""

    def __init__(self) -> None:
        self._counted_at = time.monotonic()
        self._before = self._times()

    def utilization(self, now: float) -> float | None:
        """Share of time in use since the last reading; None where that was just now."""
        if now - self._counted_at < LEAST_S:
            return None
        busy_before, total_before = self._before
        busy, total = self._before = self._times()
        self._counted_at = now
        return None if total <= total_before else max(0.0, min(1.0, (busy - busy_before) / (total - total_before)))

    @staticmethod
    def _times() -> tuple[float, float]:
        times = psutil.cpu_times()
        # A guest's time is in that of its host's processes already.
        total = sum(times) - times.guest - times.guest_nice
        return total - times.idle - times.iowait, total
