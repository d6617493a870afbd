"""What the warehouse's tests share."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from warehouse.parquet import write_rows

NOW = datetime(2026, 11, 27, 22, 3, 55, 123456, tzinfo=UTC)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home whose name holds what SQL and file patterns take for more than letters."""
    return tmp_path / "ho'me [a]* {b}"


@pytest.fixture
def filled(home: Path) -> Path:
    """Two runs with a row or more in every table."""
    return _fill(home)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, for tests that only read."""
    return _fill(tmp_path_factory.mktemp("shared"))


def _fill(home: Path) -> Path:
    for number, run_id in enumerate(("20261127T220355-3f9a2c", "20261128T220355-7b01de")):
        for table, rows in _rows(number=number).items():
            write_rows(home=home, table=table, run_id=run_id, rows=rows, part="part-0")
    return home


def _rows(*, number: int) -> dict[str, list[dict[str, Any]]]:
    started = NOW.replace(day=27 + number)
    request = {"dataset": "arithmetic", "kind": "generate", "arm": "free", "repeat": 0, "phase": "quality"}
    return {
        "runs": [
            {
                "name": "quickstart",
                "flow": "experiment",
                "status": "finished",
                "started_at": started,
                "ended_at": started.replace(minute=5),
                "config": {"datasets": [{"sampling": {"temperature": 0}}]},
                "tags": {"team": "search"},
            }
        ],
        "datasets": [{"dataset": "arithmetic", "rows_total": 3, "rows_used": 3, "warnings": ["small"]}],
        "profiles": [{"dataset": "arithmetic", "arm": "free", "n": 3, "histogram": [{"lo": 0, "hi": 10, "n": 3}]}],
        "plans": [{"engine_id": "e", "option": "max_model_len", "value": 512, "source": "plan", "reason": "fits"}],
        "sweep_cells": [
            {"cell_index": 0, "repeat": 0, "name": "max_num_seqs=8", "state": "finished", "order_index": 0}
        ],
        "engines": [{"engine_id": "e", "model": "tiny", "start_s": 9.5, "downgrades": ["cudagraph_mode"]}],
        "grammars": [{"grammar_id": "g", "status": "refused", "lint": [{"path": "$", "problem": "dropped"}]}],
        "cells": [{"cell_id": "c", "engine_id": "e", "arm": "free", "kind": "quality", "started_at": started}],
        "samples": [
            {
                "dataset": "arithmetic",
                "sample_id": str(i),
                "row_index": i,
                "raw": b"{}",
                "prompt": "2+2?",
                "prompt_hash": "h",
            }
            for i in range(3)
        ],
        "requests": [
            {
                **request,
                "request_id": f"r{i}",
                "attempt": attempt,
                "sample_id": str(i),
                "status": "error" if attempt == 0 and i == 0 else "invalid" if i == 1 else "ok",
                "error": "engine died" if attempt == 0 and i == 0 else None,
                "violations": [{"path": "$.a", "message": "missing"}] if i == 1 else None,
                "valid": i != 1,
                "output": "x" * 500,
                "prompt_tokens": 100 * i,
                "output_tokens": 4,
                "ttft_ms": 10.0 + i,
                "e2e_ms": 100.0 + i,
            }
            for i in range(3)
            for attempt in ((0, 1) if i == 0 else (0,))
        ],
        "steps": [{"engine_id": "e", "step": 1, "ts": started, "running": 2, "step_ms": 3.5}],
        "scores": [
            {
                "dataset": "arithmetic",
                "sample_id": str(i),
                "arm": "free",
                "repeat": 0,
                "metric": "exact_match",
                "metric_version": 1,
                "value": None if i == 2 else float(i == number),
            }
            for i in range(3)
        ],
        "metrics": [
            {
                "scope": "dataset",
                "name": "arithmetic.exact_match",
                "arm": "free",
                "value": 0.5 + number / 10,
                "lo": 0.1,
                "hi": 0.9,
                "n": 2,
                "n_failed": 1,
                "details": {"note": float("nan")},
            }
        ],
        "telemetry": [
            {
                "ts": started.replace(second=second),
                "device": "GPU-1",
                "power_w": 100.0 + second,
                "energy_j": 50.0 * second,
            }
            for second in (0, 10, 20)
        ],
        "comparisons": [
            {
                "baseline_run_id": run,
                "dataset": "arithmetic",
                "metric": "exact_match",
                "candidate_arm": arm,
                "baseline_arm": "free",
                "effect": -0.1,
                "verdict": "worse",
                "n_pairs": 3,
            }
            for run, arm in (
                (("20261127T220355-3f9a2c", "20261128T220355-7b01de")[number], "guided"),
                *([("20261127T220355-3f9a2c", "free")] if number else []),
            )
        ],
    }
