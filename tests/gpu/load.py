"""Load as a user measures it: `assay bench` in a process of its own, and what SQL then says of each point.

`energy`: the 8B shape with 1 to 256 requests in flight, each for longer than the 30 s that counters and power are
averages over. `knee`: the search for the highest rate that keeps an SLO.
`drift`: the same two loads again and again, whether the last is as fast as the first."""

import json
import shutil
import time
from typing import Any

from tests.gpu.bench import Bench
from tests.gpu.flow import assay, model_file
from tests.gpu.models import LARGE, SMALL

CASE = "load"
PROMPTS = {"kind": "random", "prompt_tokens": 256, "output_tokens": 256}
_SHORT = {"kind": "random", "prompt_tokens": 30, "output_tokens": 20}
BLOCKS: dict[str, dict[str, Any]] = {
    "energy": {
        "load": {"kind": "closed", "concurrency": [1, 8, 64, 256], "seconds": 36},
        "slo": {"ttft_ms": 1000, "tpot_ms": 50},
        "warmup": 8,
    },
    "drift": {
        "load": [
            {"kind": "closed", "concurrency": 64, "seconds": 8},
            {"kind": "open", "rate": 40, "seconds": 8},
        ],
        "repeats": 8,
        "slo": {"ttft_ms": 500, "tpot_ms": 25},
        "warmup": 8,
    },
    "knee": {
        "load": {"kind": "saturate", "seconds": 12, "sweep": [0.5, 0.9], "probes": 10},
        "slo": {"ttft_ms": 500, "tpot_ms": 25},
        "warmup": 8,
    },
}
_QUESTION = """
SELECT 'point' AS what, to_json({{point: cell_id, name: name, value: value, lo: lo, hi: hi, details: details}}) AS found
FROM metrics WHERE run_id = '{run}' AND name LIKE 'perf.%' AND name NOT LIKE 'perf.engine.%'
    AND (cell_id IN (SELECT point_id FROM cells WHERE run_id = '{run}') OR name = 'perf.knee_requests_per_s')
UNION ALL SELECT 'cell', to_json(c) FROM cells AS c WHERE run_id = '{run}'
UNION ALL SELECT 'run', to_json(r) FROM runs AS r WHERE run_id = '{run}'
"""


def load_of_a_service(bench: Bench) -> None:
    """One run a block."""
    for name, block in BLOCKS.items():
        key = {"case": CASE, "model": SMALL if bench.small_only else LARGE, "arm": name, "load": name, "pass_": 0}
        if bench.record.has(**key, exit_code=0) or not bench.may_start(f"{CASE}, {name}"):
            continue
        with bench.attempt(f"{CASE}, {name}"):
            found = _run(bench, name, block)
            bench.record.add(**key, **found)
            if found["exit_code"] != 0:
                raise RuntimeError(f"exit code {found['exit_code']}: {found.get('error')}")


def _run(bench: Bench, name: str, block: dict[str, Any]) -> dict[str, Any]:
    folder = bench.out / CASE / name
    folder.mkdir(parents=True, exist_ok=True)
    bench.home.mkdir(parents=True, exist_ok=True)
    block = block | {"prompts": PROMPTS}
    if bench.small_only:
        loads = block["load"] if isinstance(block["load"], list) else [block["load"]]
        block = block | {"prompts": _SHORT, "load": [each | {"seconds": 3} for each in loads]}
    experiment = {
        "name": f"load-{name}",
        "model": str(model_file(bench, LARGE)),
        "engine": {"extends": "vllm", "max_num_seqs": 8 if bench.small_only else 256},
        "datasets": [],
        "benchmark": block,
    }
    file = folder / "experiment.yaml"
    file.write_text(json.dumps(experiment, indent=1), encoding="utf-8")  # JSON is YAML
    began = time.monotonic()
    code, out = assay(bench, ["bench", str(file), "--json"], log=folder / "console.log")
    ended = json.loads(out) if out.strip().startswith("{") else {}
    row: dict[str, Any] = {"exit_code": code, "total_s": time.monotonic() - began, "run_id": ended.get("run_id")}
    row |= {each: ended.get(each) for each in ("status", "error", "warnings")}
    if row["run_id"] is None:
        return row
    for kept in (bench.home / "runs" / row["run_id"]).glob("*"):
        if kept.suffix in (".html", ".yaml", ".log"):
            shutil.copy(kept, folder)
    code, out = assay(bench, ["sql", _QUESTION.format(run=row["run_id"]), "--format", "json"], log=folder / "sql.log")
    if code != 0:
        raise RuntimeError(f"assay sql: exit code {code}; see {folder / 'sql.log'}")
    (folder / "sql.json").write_text(out, encoding="utf-8")
    found: dict[str, list[dict[str, Any]]] = {}
    for each in json.loads(out)["rows"]:
        found.setdefault(each["what"], []).append(json.loads(each["found"]))
    return row | {"points": found.get("point", []), "cells": found.get("cell", [])}
