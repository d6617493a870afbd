"""A run that measured load: one point in two repeats, whose second was disturbed."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from warehouse.parquet import write_rows

LOAD = "20261121T080000-abcabc"
POINT = "free-closed-4"
_START = datetime(2026, 11, 21, 8, tzinfo=UTC)


def fill_load(home: Path) -> None:
    """Writes it."""
    for table, rows in _tables().items():
        write_rows(home=home, table=table, run_id=LOAD, rows=rows, part="p", revision=0)


def _tables() -> dict[str, list[dict[str, Any]]]:
    return {
        "runs": [
            {
                "name": "service",
                "flow": "experiment",
                "status": "finished",
                "started_at": _START,
                "ended_at": _START + timedelta(minutes=2),
                "config": {"name": "service"},
            }
        ],
        "cells": [_cell(repeat) for repeat in (0, 1)],
        "metrics": [metric for name, value in _FIGURES.items() for metric in _metrics(name, value)],
        "requests": [_request(repeat, number) for repeat in (0, 1) for number in range(2)],
        "steps": [_step(repeat, number) for repeat in (0, 1) for number in range(3)],
    }


_FIGURES = {
    "perf.ttft_ms.p50": 60.0,
    "perf.tpot_ms.p50": 20.0,
    "perf.output_tokens_per_s": 180.0,
    "perf.requests_per_s": 3.0,
    "perf.failed_share": 0.0,
}


def _began(repeat: int) -> datetime:
    return _START + timedelta(seconds=30 + 30 * repeat)


def _cell(repeat: int) -> dict[str, Any]:
    return {
        "cell_id": f"e-{POINT}-r{repeat}",
        "point_id": POINT,
        "engine_id": "e",
        "arm": "free",
        "kind": "closed",
        "concurrency": 4,
        "repeat": repeat,
        "order_index": repeat,
        "prompts": "datasets",
        "load": {"kind": "closed", "concurrency": [4], "requests": 2},
        "started_at": _began(repeat),
        "ended_at": _began(repeat) + timedelta(seconds=10),
        "disturbed": ["host_busy 0.8 of 2 cores"] if repeat else [],
    }


def _metrics(name: str, value: float) -> list[dict[str, Any]]:
    told = {"scope": "run", "name": name, "arm": "free", "unit": "ms", "direction": "lower", "n_failed": 0}
    own = [value, value * 1.02]
    cells = [told | {"cell_id": f"e-{POINT}-r{repeat}", "value": each, "n": 2} for repeat, each in enumerate(own)]
    whole = {"cell_id": POINT, "value": value * 1.01, "lo": value * 0.98, "hi": value * 1.04, "n": 2}
    return [*cells, told | whole | {"details": {"repeats": own}}]


def _request(repeat: int, number: int) -> dict[str, Any]:
    return {
        "request_id": f"load-{repeat}-{number}",
        "attempt": 0,
        "cell_id": f"e-{POINT}-r{repeat}",
        "engine_id": "e",
        "dataset": "arithmetic",
        "sample_id": f"a-00{number}",
        "arm": "free",
        "kind": "generate",
        "repeat": repeat,
        "phase": "measure",
        "reused": False,
        "status": "ok",
        "finish_reason": "stop",
        "prompt_tokens": 40 + 560 * number,
        "output_tokens": 60,
        "sent_at": _began(repeat) + timedelta(milliseconds=10),
        "ttft_ms": 50.0 + 100 * number,
        "tpot_ms": 20.0,
        "e2e_ms": 1230.0 + 100 * number,
        "client": ("gpu-1/1", "loadgen-1/1")[number],
        "clock_error_ms": (None, 0.21)[number],
    }


def _step(repeat: int, number: int) -> dict[str, Any]:
    return {
        "engine_id": "e",
        "step": 10 * repeat + number,
        "stands_for": 1,
        "cell_id": f"e-{POINT}-r{repeat}",
        "ts": _began(repeat) + timedelta(milliseconds=40 * (number + 1)),
        "running": 2,
        "waiting": 0,
        "prompt_tokens": 600 if number == 0 else 0,
        "decode_tokens": number,
        "kv_usage": 0.1,
        "preempted": 0,
        "step_ms": 38.0,
    }
