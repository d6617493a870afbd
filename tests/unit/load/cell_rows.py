"""Rows of a measured cell and of telemetry, with times in seconds after one moment."""

import datetime
from collections.abc import Callable, Iterable
from typing import Any

START = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
Row = dict[str, Any]


def at(seconds: float) -> datetime.datetime:
    return START + datetime.timedelta(seconds=seconds)


def cell(begin: float, end: float, **changes: Any) -> Row:
    return {"cell_id": "c", "arm": "free", "started_at": at(begin), "ended_at": at(end)} | changes


def grid(begin: float, end: float, step: float) -> list[float]:
    return [begin + n * step for n in range(round((end - begin) / step) + 1)]


def reading(second: float, device: str = "GPU-1", *, revision: int = 0, **changes: Any) -> Row:
    columns = (
        "power_w power_instant_w energy_j utilization memory_bytes throttle process_cpu process_rss_bytes client_cpu"
        " cpu_throttled_s engine_processes other_processes"
    )
    empty = dict.fromkeys(columns.split())
    return {"ts": at(second), "device": device, "revision": revision} | empty | changes


def readings(times: Iterable[float], device: str = "GPU-1", **columns: Callable[[float], Any]) -> list[Row]:
    """One a moment; each column a function of the seconds."""
    return [reading(t, device, **{name: of(t) for name, of in columns.items()}) for t in times]


def request(name: str, begin: float, end: float | None, **changes: Any) -> Row:
    return {
        "request_id": name,
        "cell_id": "c",
        "phase": "measure",
        "status": "ok",
        "dataset": "d",
        "sample_id": name,
        "arm": "free",
        "planned_at": None,
        "sent_at": at(begin),
        "queued_ms": None,
        "e2e_ms": None if end is None else (end - begin) * 1000,
        "prompt_tokens": 100,
        "output_tokens": 50,
    } | changes
