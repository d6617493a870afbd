"""The samples of a made-up run, what was asked of the engine for each, and what came of it."""

import json
import math
import random
from datetime import UTC, datetime, timedelta
from typing import Any

RUN_ID = "20260314T091500-7f3a9c21"
START = datetime(2026, 3, 14, 9, 15, 0, tzinfo=UTC)
LONE = "\ud83d"
HOSTILE = [
    "<script>alert(1)</script>",
    "</script><img src=x onerror=\"document.title='owned'\">",
    "<!-- <style>*{display:none}</style>",
    "\u202egnp.exe\u202c שלום مرحبا",
    "NUL \x00 ESC \x1b[31mred\x1b[0m BEL \x07",
    f"lone {LONE} surrogate \u2028 line separator \u2029",
    "{{ 7 * 7 }} {% raw %} ${1} ' onmouseover='alert(1)' \" onfocus=\"alert(1)\" autofocus",
    "javascript:alert(1) &lt;b&gt; ]]> \U000e0041",
]
DATASETS = {"arithmetic": 60, "extract": 60, "choice": 60, "needle": 8}
LENGTHS = {"arithmetic": (60, 140), "extract": (140, 320), "choice": (70, 150), "needle": (600, 6000)}


def _answer(name: str, arm: str, index: int, good: bool) -> str:
    if name in ("arithmetic", "needle"):
        text = (
            f'{{"answer":{index * 7 % 91}}}'
            if arm == "guided"
            else f"Let us add them up step by step. The answer is {index * 7 % 91}"
        )
        return text if good or arm == "guided" else text + " apples and then some" * 6
    if name == "choice":
        return "B" if arm == "guided" else "The right option is B, because the river flows east."
    document = {
        "number": f"R-{index:04}",
        "total": 120.5 + index,
        "currency": "EUR",
        "lines": [{"item": "desk", "n": 2}],
    }
    text = json.dumps(document)
    return text if good else f"Here is the JSON:\n```json\n{text[:70]}"


def requests_and_scores(
    rng: random.Random, sizes: dict[str, int], hostile: bool
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Rows of `requests` and of `scores`."""
    requests, scores = [], []
    clock = 0.0
    for name, n in sizes.items():
        low, high = LENGTHS[name]
        for index in range(n):
            prompt_tokens = int(math.exp(rng.uniform(math.log(low), math.log(high))))
            for arm in ("free", "guided"):
                good = arm == "guided" or rng.random() < 0.62
                tokens = rng.randint(12, 60) if good else 100
                ttft = 40 + prompt_tokens * 1.7 + rng.expovariate(1 / 60)
                tpot = rng.gauss(24, 3) + (2 if arm == "guided" else 0)
                clock += 0.18
                status = "ok" if good else ("truncated" if rng.random() < 0.4 else "invalid")
                error = None
                if name == "extract" and arm == "guided" and index == 5:
                    status, error, good = "refused", "the grammar backend does not take `uniqueItems`", False
                if name == "needle" and arm == "free" and index == 2:
                    status, error, good = "error", "the engine ended while it answered (restarted once)", False
                output = None if error else _answer(name, arm, index, good)
                if hostile and output is not None:
                    output = HOSTILE[index % len(HOSTILE)] + "\n" + output
                request_id = f"{name}-{index}-{arm}"
                valid = None if error else good
                requests.append(
                    {
                        "run_id": RUN_ID,
                        "revision": 1,
                        "request_id": request_id,
                        "attempt": 1,
                        "request_key": request_id,
                        "cell_id": "quality",
                        "engine_id": "e1",
                        "dataset": name,
                        "sample_id": _id(name, index, hostile),
                        "arm": arm,
                        "kind": "generate",
                        "choice_index": None,
                        "repeat": 0,
                        "phase": "quality",
                        "adapter": None,
                        "sampling": '{"temperature": 0}',
                        "reused": False,
                        "status": status,
                        "error": error,
                        "output": output,
                        "reasoning": None,
                        "output_token_ids": [1, 2],
                        "logprob_sum": None,
                        "finish_reason": None if error else ("length" if tokens == 100 else "stop"),
                        "stop_reason": None,
                        "prompt_tokens": prompt_tokens,
                        "cached_tokens": 0 if arm == "free" else prompt_tokens - 5,
                        "output_tokens": None if error else tokens,
                        "reasoning_tokens": None,
                        "prefill_steps": 1,
                        "preemptions": 0,
                        "planned_at": None,
                        "sent_at": START + timedelta(seconds=16 + clock),
                        "client_queue_ms": 1.2,
                        "ttft_ms": None if error else ttft,
                        "ttft_text_ms": None,
                        "tpot_ms": None if error else tpot,
                        "e2e_ms": None if error else ttft + tpot * (tokens - 1),
                        "queued_ms": None if error else rng.expovariate(1 / 15),
                        "prefill_ms": None if error else ttft - 20,
                        "decode_ms": None if error else tpot * (tokens - 1),
                        "gaps_ms": [1.0],
                        "gap_tokens": [1],
                        "valid": valid,
                        "validator": None if error else "jsonschema-rs",
                        "violations": [
                            {"path": "/total", "message": "HOSTILE <b>" if hostile else "is not a number"},
                            {"path": "", "message": "trailing text after the value"},
                        ]
                        if status == "invalid"
                        else [],
                        "whitespace_share": None if error else rng.uniform(0.01, 0.12),
                        "energy_allocated_j": None,
                    }
                )
                scores.append(
                    {
                        "run_id": RUN_ID,
                        "revision": 1,
                        "dataset": name,
                        "sample_id": _id(name, index, hostile),
                        "arm": arm,
                        "repeat": 0,
                        "metric": "exact_match",
                        "metric_version": 1,
                        "request_id": request_id,
                        "value": None if error else float(rng.random() < (0.31 if arm == "guided" else 0.28)),
                        "extracted": None
                        if error
                        else (HOSTILE[index % len(HOSTILE)] if hostile else str(index * 7 % 91)),
                        "ties": None,
                        "reason": error,
                        "scored_at": START,
                    }
                )
            if name == "choice":
                for option in range(4):
                    requests.append(
                        {
                            **requests[-1],
                            "request_id": f"{name}-{index}-ll{option}",
                            "arm": "free",
                            "kind": "loglikelihood",
                            "choice_index": option,
                            "status": "ok",
                            "error": None,
                            "output": None,
                            "violations": [],
                            "valid": None,
                            "logprob_sum": -rng.uniform(1, 12),
                            "output_tokens": 1,
                            "tpot_ms": None,
                        }
                    )
    return requests, scores


def _id(name: str, index: int, hostile: bool) -> str:
    return f"{HOSTILE[index % len(HOSTILE)]}-{index}" if hostile else f"{name[:2]}{index:04}"


def samples(rng: random.Random, sizes: dict[str, int], hostile: bool, prompt_words: int) -> list[dict[str, Any]]:
    """Rows of `samples`."""
    rows = []
    for name, n in sizes.items():
        for index in range(n):
            words = prompt_words * (60 if name == "needle" else 1)
            prompt = f"<|im_start|>user\nQuestion {index}: " + "A farmer has 12 sheep and buys 7 more of them. " * words
            if hostile:
                prompt += HOSTILE[index % len(HOSTILE)]
            rows.append(
                {
                    "run_id": RUN_ID,
                    "revision": 1,
                    "dataset": name,
                    "sample_id": _id(name, index, hostile),
                    "row_index": index,
                    "raw": b"{}",
                    "input": "{}",
                    "prompt": prompt + "<|im_end|>\n",
                    "prompt_hash": f"{index:08x}",
                    "replaced_characters": 2 if name == "extract" and index < 3 else 0,
                    "messages": None,
                    "target": json.dumps(HOSTILE[index % len(HOSTILE)] if hostile else index * 7 % 91),
                    "choices": ["A", "B", "C", "<i>D</i>"] if name == "choice" else None,
                    "grammar_id": "g1",
                    "prompt_tokens": rng.randint(*LENGTHS[name]),
                    "cut_tokens": 412 if name == "needle" and index == 0 else 0,
                    "shots_dropped": 0,
                    "cluster": None,
                    "tags": {"split": "test"},
                }
            )
    return rows
