"""Engines as a run has them: planned from the load, built by the worker; several at once on one device."""

import contextlib
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from schemas.engine import VllmEngine
from schemas.plan import DeviceFacts, EnginePlan, ModelFacts, PlannedLoad
from tasks.engine.client import EngineClient
from tasks.engine.protocol import Built, WireResult
from tasks.engine.settings import build_options
from tasks.plan.device import read_device_facts
from tasks.plan.engine import plan_engine
from tests.gpu.loads import SHORT, Load


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """One engine to build. changes: options that no YAML has, as vLLM's own default of one of them."""

    name: str
    engine: VllmEngine
    dtype: str = "bfloat16"
    changes: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """An engine that stands."""

    arm: Arm
    client: EngineClient
    plan: EnginePlan
    built: Built
    start_s: float


def plan(arm: Arm, *, loads: Sequence[Load], model: ModelFacts, device: DeviceFacts) -> EnginePlan:
    """What assay plans for all of the loads on one engine."""
    return plan_engine(
        load=PlannedLoad(
            prompt_tokens=[tokens for load in loads for tokens in load.prompt_tokens],
            output_tokens=[tokens for load in loads for tokens in load.output_tokens],
        ),
        model=model,
        device=device,
        engine=arm.engine,
        dtype=arm.dtype,
        earlier=None,
    )


@contextlib.contextmanager
def standing(
    arms: Sequence[Arm], *, loads: Sequence[Load], model: ModelFacts, logs: Path
) -> Iterator[dict[str, Standing]]:
    """The arms' engines, built at the same time and standing side by side; by name. What each takes of the memory must
    be said in its config (memory.kv_cache_bytes): vLLM's own share would be the first one's."""
    device = read_device_facts()
    logs.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        # Started from the main thread: the kernel ends them with the thread that started them.
        clients = {
            arm.name: stack.enter_context(
                EngineClient(log_path=logs / f"{arm.name.replace(' ', '-')}.log", cores=device.cores)
            )
            for arm in arms
        }

        def build(arm: Arm) -> Standing:
            began = time.monotonic()
            planned = plan(arm, loads=loads, model=model, device=device)
            built = clients[arm.name].build(model=model.path, options=build_options(planned) | dict(arm.changes))
            return Standing(
                arm=arm, client=clients[arm.name], plan=planned, built=built, start_s=time.monotonic() - began
            )

        with ThreadPoolExecutor(len(arms)) as pool:
            made = list(pool.map(build, arms))
        yield {each.arm.name: each for each in made}


def ask(engine: Standing, load: Load, *, seed: int, vocabulary: int) -> dict[str, Any]:
    """One pass: every request of the load at once, on an empty prefix cache. Times in seconds and milliseconds.

    Raises RuntimeError for a request that failed or has another length than asked."""
    engine.client.reset_prefix_cache()
    requests = load.requests(seed=seed, vocabulary=vocabulary)
    engine.client.submit(requests)
    results: list[WireResult] = []
    while len(results) < len(requests):
        results += engine.client.results()
    for result, output in zip(sorted(results, key=_place), load.output_tokens, strict=True):
        if result.error is not None or len(result.token_ids) != output:
            raise RuntimeError(f"{result.request_id}: {result.error or len(result.token_ids)}, wanted {output} tokens")
    return figures(results, prompt_tokens=load.prompt_tokens)


def _place(result: WireResult) -> int:
    return int(result.request_id.rpartition("-")[2])


def figures(results: Sequence[WireResult], *, prompt_tokens: Sequence[int]) -> dict[str, Any]:
    """Seconds for all, the median milliseconds a token, tokens a second, and the times to the first token of short and
    long prompts (p50 and p99, seconds)."""
    ordered = sorted(results, key=_place)
    began, ended = min(each.sent_at for each in ordered), max(each.finished_at for each in ordered)
    tpot = [
        (each.last_token_at - each.first_token_at) * 1000 / (len(each.token_ids) - 1)
        for each in ordered
        if each.first_token_at is not None and each.last_token_at is not None and len(each.token_ids) > 1
    ]
    found: dict[str, Any] = {
        "total_s": ended - began,
        "ms_per_token": float(np.median(tpot)) if tpot else None,
        "output_tokens_per_s": sum(len(each.token_ids) for each in ordered) / (ended - began),
        "e2e_mean_s": float(np.mean([each.finished_at - each.sent_at for each in ordered])),
    }
    for name, wanted in (("short", True), ("long", False)):
        ttft = [
            each.first_token_at - each.sent_at
            for each, tokens in zip(ordered, prompt_tokens, strict=True)
            if (tokens < SHORT) == wanted and each.first_token_at is not None
        ]
        if ttft:
            found[f"{name}_ttft_p50_s"], found[f"{name}_ttft_p99_s"] = (
                float(value) for value in np.percentile(ttft, [50, 99])
            )
    return found
