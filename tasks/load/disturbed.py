"""What disturbed a measured cell: that it was measured is not in doubt, what it says of the engine is.

A GPU at its power cap is not among it: that is how a busy GPU works, and the cap, as clocks that somebody set, is a
setting of the machine. Both are told beside the power (`perf.power_w`).
"""

from collections.abc import Collection, Iterable, Iterator

import numpy as np

from tasks.load.readings import CPU, Readings, Row, Window, window_of

THROTTLED_SHARE = 0.01
"""Time held back by a CPU quota, as a share of the cell. The engine's steps wait in it: a held-back 1 % is in the tail
of every latency, and less is a few periods of 100 ms in minutes."""
SLOWED_SHARE = 0.01
"""Readings in which a GPU was too hot, or braked by its board, as a share. A single one of some hundred may be the edge
of a reading before."""
BUSY_SHARE = 0.1
"""Work of others, as a share of the machine's processors. It takes clock, cache and memory bandwidth also where cores
are left; the system's own work lies below."""
BUSY_CORES = 0.5
"""On small machines: less than this is the system's own work."""
STALLED_S = 1.0
"""Between two readings. They are 0.1 s apart, at most 0.5 s: one so late says that this process did not get to run, and
then the client did not either."""

_HOT = ("sw_thermal", "hw_thermal")
_BRAKED = ("hw_slowdown", "hw_power_brake")


def disturbed(cell: Row, *, readings: Readings, cores: int, devices: Collection[str] | None = None) -> list[str]:
    """What disturbed the cell, each a word of its kind and how much of it; none where nothing did.

    cell: a row of `cells`. cores: the machine's processors, as the utilization of `cpu` counts them. devices: as
    `cell_energy` takes them."""
    window = window_of(cell)
    if window is None:
        return []
    gpus = [device for device in readings.devices(devices) if device != CPU]
    return [
        *_throttled(readings, window),
        *_slowed(readings, gpus, window),
        *_others(readings, gpus, window),
        *_busy(readings.rows(CPU, window), cores),
        *_stalled(readings, window),
    ]


def _throttled(readings: Readings, window: Window) -> Iterator[str]:
    series = readings.series(CPU, "cpu_throttled_s", window)
    if series is None:
        return
    # It begins again at 0 with another telemetry.
    grown = np.concatenate([[0.0], np.cumsum(np.maximum(np.diff(series.values), 0.0))])
    begin, end = np.interp([0.0, window.seconds], series.times, grown)
    if end - begin >= THROTTLED_SHARE * window.seconds:
        yield f"cpu_throttled {end - begin:.1f} s"


def _slowed(readings: Readings, gpus: Iterable[str], window: Window) -> Iterator[str]:
    rows = [row["throttle"] for gpu in gpus for row in readings.rows(gpu, window) if row["throttle"] is not None]
    for word, reasons in (("gpu_thermal", _HOT), ("gpu_slowdown", _BRAKED)):
        for reason in reasons:
            seen = sum(reason in row for row in rows)
            if seen and seen >= SLOWED_SHARE * len(rows):
                yield f"{word} {reason} {seen / len(rows):.0%}"


def _others(readings: Readings, gpus: Iterable[str], window: Window) -> Iterator[str]:
    counts = [row.get("other_processes") for gpu in gpus for row in readings.rows(gpu, window)]
    most = max((count for count in counts if count is not None), default=0)
    if most:
        yield f"other_process_on_gpu {most}"


def _busy(rows: Iterable[Row], cores: int) -> Iterator[str]:
    """Work of the machine that is neither the engine's nor the client's."""
    others = [
        row["utilization"] * cores - row["process_cpu"] - row["client_cpu"]
        for row in rows
        if None not in (row["utilization"], row["process_cpu"], row.get("client_cpu"))
    ]
    if others and (mean := float(np.mean(others))) >= max(BUSY_CORES, BUSY_SHARE * cores):
        yield f"host_busy {mean:.1f} of {cores} cores"


def _stalled(readings: Readings, window: Window) -> Iterator[str]:
    series = readings.series(CPU, "memory_bytes", window)
    if series is not None and series.longest_gap_s >= STALLED_S:
        yield f"stalled {series.longest_gap_s:.1f} s"
