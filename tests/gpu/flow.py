"""The whole of it, as a user runs it: `assay run quickstart` in a process of its own, and what SQL then says."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tasks.config.yaml_file import read_yaml
from tasks.plan.device import read_device_facts
from tests.gpu.bench import Bench
from tests.gpu.models import LARGE, ROOT, SMALL

CASE = "flow"
ARMS: dict[str, tuple[str, int, tuple[str, ...]]] = {
    "as planned": (SMALL, 1, ()),
    "ngram": (SMALL, 1, ("engine.speculative.method=ngram",)),
    "one card": (LARGE, 1, ()),
    "tensor 2": (LARGE, 2, ("engine.parallel.tensor=2",)),
    "data 2": (LARGE, 2, ("engine.parallel.data=2",)),
}
"""By name: the model, the devices that it needs, and what is set."""
LIMIT = 60
TIMEOUT_S = 500.0
_QUESTION = """
SELECT 'run' AS what, to_json(r) AS found FROM runs AS r WHERE run_id = '{run}'
UNION ALL SELECT 'plan', to_json(p) FROM plans AS p WHERE run_id = '{run}'
UNION ALL SELECT 'engine', to_json(e) FROM engines AS e WHERE run_id = '{run}'
UNION ALL SELECT 'start', to_json(s) FROM engine_starts AS s WHERE run_id = '{run}'
UNION ALL SELECT 'graphs', to_json(g) FROM graph_effect AS g WHERE run_id = '{run}'
UNION ALL SELECT 'work', to_json(w) FROM engine_work AS w WHERE run_id = '{run}'
UNION ALL SELECT 'energy', to_json(n) FROM energy AS n WHERE run_id = '{run}'
UNION ALL SELECT 'metric', to_json(m) FROM metrics AS m
    WHERE run_id = '{run}' AND (name LIKE 'engine.%' OR name LIKE 'throughput.%' OR name LIKE 'memory.%')
"""
_JSON = ("predicted", "resolved", "details")
"""Columns that hold JSON as text; `value` of a plan is one too, and that of a metric is none."""
_SIZES = ("weights_bytes", "kv_bytes", "graph_bytes", "activation_bytes")


def flow(bench: Bench) -> None:
    """One run an arm, under one ASSAY_HOME: the first of a model compiles, the others find that."""
    device = read_device_facts()
    limit = 2 if bench.small_only else LIMIT
    for name, (model, needs, settings) in ARMS.items():
        if needs > device.count and not (bench.small_only and name == "data 2"):
            print(f"-- {CASE}, {name} is skipped: it needs {needs} GPUs, and {device.count} is visible")
            continue
        key = {"case": CASE, "model": model, "arm": name, "load": f"quickstart, {limit} of each", "pass_": 0}
        if bench.record.has(**key, exit_code=0) or not bench.may_start(f"{CASE}, {name}"):
            continue
        with bench.attempt(f"{CASE}, {name}"):
            found = _run(bench, name=name, model=model, settings=settings, limit=limit)
            bench.record.add(**key, **found)
            if found["exit_code"] != 0:
                raise RuntimeError(f"exit code {found['exit_code']}: {found.get('error')}")


def model_file(bench: Bench, model: str) -> Path:
    """The model's YAML from configs, with the folders that lie here in place of the GGUF's package."""
    own = {SMALL: "smollm2-135m-instruct", LARGE: "llama-3-8b-shape"}[SMALL if bench.small_only else model]
    data = read_yaml(ROOT / "configs" / "models" / f"{own}.yaml").data
    folder = {"kind": "path", "path": bench.models[SMALL].path}
    data["source"] = data["source"] | {"tokenizer": folder} if data["source"]["kind"] == "dummy" else folder
    path = bench.out / CASE / "models" / f"{own}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data, indent=1), encoding="utf-8")  # JSON is YAML
    return path.absolute()


def _run(bench: Bench, *, name: str, model: str, settings: tuple[str, ...], limit: int) -> dict[str, Any]:
    """One run's row: its exit code and seconds, and what the warehouse has of it."""
    folder = bench.out / CASE / name.replace(" ", "-")
    folder.mkdir(parents=True, exist_ok=True)
    bench.home.mkdir(parents=True, exist_ok=True)
    sets = [part for each in (f"model={model_file(bench, model)}", *settings) for part in ("--set", each)]
    began, started = time.monotonic(), time.time()
    code, out = assay(bench, ["run", "quickstart", "--limit", str(limit), "--json", *sets], log=folder / "console.log")
    (folder / "run.json").write_text(out, encoding="utf-8")
    row: dict[str, Any] = {"exit_code": code, "total_s": time.monotonic() - began, "set": list(settings)}
    ended = json.loads(out) if out.strip().startswith("{") else {}
    row |= {each: ended.get(each) for each in ("run_id", "status", "error", "seconds")}
    runs = sorted((bench.home / "runs").glob("*"), key=lambda each: each.stat().st_mtime)
    newest = runs[-1].name if runs and runs[-1].stat().st_mtime > started else None
    run_id = row["run_id"] = ended.get("run_id") or newest  # a run that failed has one too
    if run_id is None:
        return row
    for file in (bench.home / "runs" / run_id).glob("*"):
        if file.suffix in (".html", ".yaml", ".log"):
            shutil.copy(file, folder)
    return row | _asked(bench, run_id, folder)


def _asked(bench: Bench, run_id: str, folder: Path) -> dict[str, Any]:
    code, out = assay(bench, ["sql", _QUESTION.format(run=run_id), "--format", "json"], log=folder / "sql.log")
    if code != 0:
        raise RuntimeError(f"assay sql: exit code {code}; see {folder / 'sql.log'}")
    (folder / "sql.json").write_text(out, encoding="utf-8")
    found: dict[str, list[dict[str, Any]]] = {}
    for row in json.loads(out)["rows"]:
        told = json.loads(row["found"])
        inner = {name: json.loads(told[name]) for name in _JSON if isinstance(told.get(name), str)}
        found.setdefault(row["what"], []).append(told | inner)
    engine = next(iter(found.get("engine", [])), {})
    predicted = engine.get("predicted") or {}
    return {
        "output_tokens": next(iter(found.get("energy", [])), {}).get("output_tokens"),
        "plan": {each["option"]: json.loads(each["value"] or "null") for each in found.get("plan", [])},
        "engine": {name: value for name, value in engine.items() if name not in ("requested", "run_id", "predicted")},
        "predicted": predicted,
        "memory": {name: {"predicted": predicted.get(name), "found": engine.get(name)} for name in _SIZES},
        "phases": {each: engine.get(each) for each in engine if each.endswith("_s") and engine.get(each) is not None},
        "graph_effect": next(iter(found.get("graphs", [])), None),
        "engine_work": next(iter(found.get("work", [])), None),
        "energy": found.get("energy", []),
        "metrics": {each["name"]: each["value"] for each in found.get("metric", [])},
        "acceptance": [each["details"] for each in found.get("metric", []) if each["name"] == "engine.spec.acceptance"],
        "starts": found.get("start", []),
        "warnings": next(iter(found.get("run", [])), {}).get("warnings"),
    }


def assay(bench: Bench, arguments: list[str], *, log: Path) -> tuple[int | None, str]:
    """The exit code, None where it took too long and was killed, and what stdout had. log: for stderr."""
    environment = os.environ | {"ASSAY_HOME": str(bench.home.absolute())}
    with log.open("w", encoding="utf-8") as errors:
        try:
            done = subprocess.run(
                [sys.executable, "-m", "flows.cli", *arguments],
                cwd=ROOT,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                timeout=TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            print(f"-- killed after {TIMEOUT_S:.0f} s", flush=True)
            return None, ""
    if done.returncode != 0:
        print("\n".join(log.read_text(encoding="utf-8").splitlines()[-25:]), flush=True)
    return done.returncode, done.stdout
