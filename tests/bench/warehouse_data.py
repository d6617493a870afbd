"""Rows for the warehouse's bench: what a run of a small model leaves, in Arrow, from a seed."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from warehouse.encoding import writer_options
from warehouse.parquet import write_rows, write_table
from warehouse.rows import arrow_table
from warehouse.schema import TABLES

TOKENS = 64
PART_ROWS = 5_000
_VOCABULARY = 49_152
_START = datetime(2026, 1, 1, tzinfo=UTC)


def run_id(number: int) -> str:
    """The id of the run of that hour."""
    return f"{_START + timedelta(hours=number):%Y%m%dT%H%M%S}-{number:06x}"


def requests(rows: int, *, seed: int = 0) -> pa.Table:
    """Answers of 64 tokens: Zipf's ids, a text of 48 words, 64 gaps, and times that no two rows share."""
    rng = np.random.default_rng(seed)
    words = np.array(["".join(rng.choice(list("etaoinshrdlu"), size)) for size in rng.integers(1, 10, 2_000)])
    zipf = 1 / np.arange(1, len(words) + 1)
    texts = [" ".join(row) for row in words[rng.choice(len(words), (min(rows, 20_000), 48), p=zipf / zipf.sum())]]
    ranks = 1 / np.arange(1, _VOCABULARY + 1) ** 0.9
    ids = rng.choice(_VOCABULARY, rows * TOKENS, p=ranks / ranks.sum()).astype(np.int32)
    offsets = np.arange(0, (rows + 1) * TOKENS, TOKENS, dtype=np.int32)
    gaps = rng.gamma(20, 0.6, rows * TOKENS).astype(np.float32)
    moments = 1_767_225_600_000_000 + np.cumsum(rng.integers(1, 20_000, rows))
    same = {
        "cell_id": "quality-free",
        "engine_id": "0f3a9c1d2e4b5a69",
        "dataset": "arithmetic",
        "kind": "generate",
        "phase": "quality",
        "sampling": '{"temperature": 0.0, "max_tokens": 64, "stop": []}',
        "reused": False,
        "attempt": 0,
        "repeat": 0,
        "finish_reason": "length",
        "output_tokens": TOKENS,
        "cached_tokens": 0,
        "preemptions": 0,
    }
    columns = {name: pa.array([value] * rows) for name, value in same.items()}
    columns |= {
        "request_id": pa.array([f"arithmetic/{number:07d}/free/0" for number in range(rows)]),
        "request_key": pa.array([rng.bytes(32).hex() for _ in range(rows)]),
        "sample_id": pa.array([f"{number:07d}" for number in range(rows)]),
        "arm": pa.array(np.where(np.arange(rows) % 2, "guided", "free")),
        "status": pa.array(np.where(rng.random(rows) < 0.01, "truncated", "ok")),
        "output": pa.array([texts[number % len(texts)] for number in range(rows)]),
        "output_token_ids": pa.ListArray.from_arrays(offsets, ids),
        "gaps_ms": pa.ListArray.from_arrays(offsets, gaps),
        "gap_tokens": pa.ListArray.from_arrays(offsets, np.ones(rows * TOKENS, dtype=np.int16)),
        "prompt_tokens": pa.array(rng.integers(20, 9_000, rows)),
        "planned_at": pa.array(moments, pa.timestamp("us", tz="UTC")),
        "sent_at": pa.array(moments + 150, pa.timestamp("us", tz="UTC")),
    }
    for name, mean in (("client_queue_ms", 1), ("queued_ms", 9), ("prefill_ms", 60), ("ttft_ms", 70)):
        columns[name] = pa.array(rng.gamma(4, mean / 4, rows))
    for name, mean in (("ttft_text_ms", 70), ("decode_ms", 770), ("tpot_ms", 12), ("e2e_ms", 850)):
        columns[name] = pa.array(rng.gamma(4, mean / 4, rows))
    return pa.table(columns)


def parts(pool: pa.Table, *, rows: int) -> Iterator[tuple[pa.Table, int]]:
    """A run's parts in the order of writing, with their revision: 1 % of the rows written twice, 0.5 % tried again."""
    each = pool.num_rows // PART_ROWS
    for number in range(-(-rows // PART_ROWS)):
        part = pool.slice(number % each * PART_ROWS, min(PART_ROWS, rows - number * PART_ROWS))
        names = pa.array([f"{number // each}/{name}" for name in part["request_id"].to_pylist()])
        part = part.set_column(part.schema.get_field_index("request_id"), "request_id", names)
        yield part, 0
        if number % 10 == 0:
            yield part.slice(0, PART_ROWS // 10), 1
            again = part.slice(PART_ROWS // 10, PART_ROWS // 20)
            yield again.set_column(again.schema.get_field_index("attempt"), "attempt", pa.array([1] * len(again))), 0


def write_run(*, home: Path, number: int, rows: int, pool: pa.Table) -> None:
    """One run with so many requests, as many scores, a tenth of that of samples, an hour of telemetry."""
    run = run_id(number)
    for part, revision in parts(pool, rows=rows):
        write_table(home=home, table="requests", run_id=run, arrow=part, part="part", revision=revision)
    rng = np.random.default_rng(number)
    numbers = np.arange(rows)
    scores = {
        "dataset": pa.array(["arithmetic"] * rows),
        "sample_id": pa.array([f"{each:07d}" for each in numbers]),
        "arm": pa.array(np.where(numbers % 2, "guided", "free")),
        "repeat": pa.array(numbers // pool.num_rows),
        "metric": pa.array(["exact_match"] * rows),
        "metric_version": pa.array([1] * rows),
        "value": pa.array((rng.random(rows) < 0.6).astype(float)),
    }
    samples = pa.table(
        {
            "dataset": pa.array(["arithmetic"] * (rows // 10)),
            "sample_id": pa.array([f"{each:07d}" for each in range(rows // 10)]),
            "prompt": pa.array(pool["output"].to_pylist()[: rows // 10] * (1 + rows // 10 // pool.num_rows)).slice(
                0, rows // 10
            ),
        }
    )
    readings = {
        "ts": pa.array(1_767_225_600_000_000 + np.arange(7_200) * 500_000, pa.timestamp("us", tz="UTC")),
        "device": pa.array(["GPU-1"] * 7_200),
        "power_w": pa.array(rng.normal(300, 20, 7_200)),
        "energy_j": pa.array(np.arange(7_200) * 150.0),
    }
    for table, columns in (("scores", scores), ("telemetry", readings)):
        write_table(home=home, table=table, run_id=run, arrow=pa.table(columns), part="part")
    if samples.num_rows:
        write_table(home=home, table="samples", run_id=run, arrow=samples, part="part")
    for table, small in small_rows(number).items():
        write_rows(home=home, table=table, run_id=run, rows=small, part="part")


def small_rows(number: int) -> dict[str, list[dict[str, object]]]:
    """The small tables of one run."""
    started = _START + timedelta(hours=number)
    return {
        "runs": [{"name": "nightly", "flow": "experiment", "status": "finished", "started_at": started}],
        "datasets": [{"dataset": "arithmetic", "rows_total": 3, "rows_used": 3}],
        "profiles": [{"dataset": "arithmetic", "arm": arm, "n": 3} for arm in ("free", "guided")],
        "plans": [{"engine_id": "e", "option": f"option_{each}", "value": each} for each in range(12)],
        "engines": [{"engine_id": "e", "model": "smollm2-135m-instruct", "start_s": 9.5}],
        "cells": [{"cell_id": f"quality-{arm}", "engine_id": "e", "arm": arm} for arm in ("free", "guided")],
        "metrics": [
            {"scope": "dataset", "name": f"arithmetic.metric_{each}", "arm": arm, "value": each / 10, "n": 100}
            for each in range(10)
            for arm in ("free", "guided")
        ],
        "comparisons": [
            {
                "baseline_run_id": run_id(number),
                "dataset": "arithmetic",
                "metric": "metric_0",
                "candidate_arm": "guided",
                "baseline_arm": "free",
                "effect": 0.1,
                "verdict": "better",
            }
        ],
    }


def write_year(*, home: Path, runs: int, pool: pa.Table) -> None:
    """So many runs in every table, as they lie after compaction and clean-up; nothing is made durable."""
    few = pool.slice(0, 20)
    large = {
        "requests": arrow_table(table=TABLES["requests"], run_id="x", revision=0, rows=few.to_pylist()),
        "scores": arrow_table(
            table=TABLES["scores"],
            run_id="x",
            revision=0,
            rows=[{"dataset": "arithmetic", "sample_id": str(each), "value": 1.0} for each in range(20)],
        ),
    }
    others = {"samples": "sample_id", "steps": "engine_id", "telemetry": "device", "grammars": "grammar_id"}
    for name, key in others.items():
        large[name] = arrow_table(table=TABLES[name], run_id="x", revision=0, rows=[{key: "1"}])
    small = {
        name: arrow_table(table=TABLES[name], run_id="x", revision=0, rows=rows) for name, rows in small_rows(0).items()
    }
    for number in range(runs):
        run = run_id(number)
        for name, content in (small | large).items():
            folder = home / "tables" / name / f"run={run}"
            folder.mkdir(parents=True)
            mine = content.set_column(0, content.schema.field(0), pa.array([run] * len(content)))
            if TABLES[name].small:
                pq.write_table(mine, folder / "part.parquet", **writer_options(TABLES[name]))
                continue
            holds = "last" if name == "requests" else "rows"
            file = f"_compacted-{holds}-{number:016x}.parquet"
            pq.write_table(mine, folder / file, **writer_options(TABLES[name]))
            manifest = {"compacted": [{"name": file, "holds": holds}], "superseded": {}}
            (folder / "_manifest.json").write_text(json.dumps(manifest))
