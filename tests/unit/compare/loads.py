"""Measured loads that were never sent: cells, and metrics over their repeats, beside the rows of `two_runs`."""

import statistics
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from schemas.gate_points import HIGHER
from tests.unit.compare.two_runs import Made, config, write
from warehouse.parquet import write_rows

Points = Mapping[str, Mapping[str, Sequence[float | None]]]
"""By point_id: by name without `perf.`: a number a repeat."""
_AT = datetime(2026, 11, 20, 9, tzinfo=UTC)
# Five repeats of 41.2 ms with a spread of 1 %, and how much slower or faster a candidate's are.
STEADY = (40.9, 41.5, 41.1, 40.8, 41.6)


def steady(factor: float = 1.0, *, repeats: int = 5, base: Sequence[float] = STEADY) -> list[float]:
    """So many repeats, all times the factor; those of another run in another order, as noise has none."""
    values = [value * factor for value in base[:repeats]]
    return values if factor == 1.0 else values[::-1]


def measured(
    home: Path,
    run_id: str,
    points: Points,
    *,
    benchmark: Mapping[str, Any] | None = None,
    load: Mapping[str, Any] | None = None,
    prompts: str = "datasets",
    disturbed: Mapping[int, list[str]] | None = None,
    reused: bool = False,
    made: Made | None = None,
    **changes: Any,
) -> str:
    """A run with these measured loads. benchmark: its block; load: changes to every cell's own; disturbed: by repeat;
    made: the run's answers, else it has none."""
    block = {"answers": "own", "warmup": 8, "slo": {"ttft_ms": 500.0}} | dict(benchmark or {})
    own = made or Made(run_id=run_id, values={}, **changes)
    own.config = config() | dict(own.config) | {"benchmark": block}
    write(home, own)
    cells = [
        cell
        for index, (point_id, numbers) in enumerate(points.items())
        if not point_id.endswith("-saturate")
        for cell in _cells(point_id, len(next(iter(numbers.values()))), index, load or {}, prompts, disturbed or {})
    ]
    tables = {
        "cells": cells,
        "metrics": [
            _metric(point_id, name, values) for point_id, numbers in points.items() for name, values in numbers.items()
        ],
        "requests": [
            {"request_id": f"{cell['cell_id']}/1", "attempt": 0, "cell_id": cell["cell_id"], "arm": cell["arm"],
             "phase": "measure", "kind": "generate", "status": "ok", "reused": reused}
            for cell in cells
        ],
    }  # fmt: skip
    for table, rows in tables.items():
        if rows:
            write_rows(home=home, table=table, run_id=run_id, rows=rows, part="load", revision=1)
    return run_id


def _cells(
    point_id: str,
    repeats: int,
    index: int,
    load: Mapping[str, Any],
    prompts: str,
    disturbed: Mapping[int, list[str]],
) -> list[dict[str, Any]]:
    arm, kind, *number = point_id.split("-")
    concurrency = int(number[0]) if kind == "closed" else None
    rate = float(number[0]) if kind in ("open", "knee") else None
    block = {"kind": kind, "concurrency": [concurrency], "requests": 32} if kind == "closed" else {"kind": kind}
    return [
        {
            "cell_id": f"e-{point_id}-r{repeat}",
            "engine_id": "e",
            "arm": arm,
            "kind": "open" if kind == "knee" else kind,
            "concurrency": concurrency,
            "rate": rate,
            "repeat": repeat,
            "order_index": repeat * 10 + index,
            "started_at": _AT + timedelta(minutes=repeat),
            "disturbed": disturbed.get(repeat, []),
            "point_id": point_id,
            "load": block | dict(load),
            "prompts": prompts,
        }
        for repeat in range(repeats)
    ]


def _metric(point_id: str, name: str, values: Sequence[float | None]) -> dict[str, Any]:
    known = [value for value in values if value is not None]
    return {
        "scope": "run",
        "name": f"perf.{name}",
        "arm": point_id.split("-", maxsplit=1)[0],
        "cell_id": point_id,
        "value": statistics.median(known) if known else None,
        "unit": "requests/s" if name.endswith("per_s") else "ms",
        "direction": "higher" if f"perf.{name}" in HIGHER else "lower",
        "n": len(known),
        "n_failed": 0,
        "details": {"repeats": list(values)},
    }
