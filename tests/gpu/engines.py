"""Engines as a run has them: planned from the load, built by the worker; several at once on one device."""

import contextlib
import functools
import hashlib
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from schemas.engine import VllmEngine
from schemas.plan import DeviceFacts, EnginePlan, ModelFacts, PlannedLoad
from tasks.engine.client import EngineClient
from tasks.engine.protocol import Built, Steps, WireRequest, WireResult
from tasks.engine.settings import ProcessSettings, build_options
from tasks.plan.device import read_device_facts
from tasks.plan.engine import plan_engine
from tests.gpu.energy import Counter
from tests.gpu.loads import SHORT, Load

SILENT_S = 240.0
"""An engine that has work and says nothing for so long has hung; a kernel's first compiling takes less."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """One engine to build. changes: options that no YAML has, as vLLM's own default of one of them."""

    name: str
    engine: VllmEngine
    dtype: str = "bfloat16"
    changes: tuple[tuple[str, Any], ...] = ()

    @property
    def cards(self) -> int:
        """Devices that it takes, of all its copies."""
        parallel = self.engine.parallel
        return parallel.tensor * parallel.pipeline * parallel.data

    def settings(self, device: DeviceFacts) -> ProcessSettings:
        """What must be known before its process starts."""
        copies = self.engine.parallel.data
        return ProcessSettings(
            cores=tuple(device.cores), copies=copies, devices=0 if device.kind == "cpu" else self.cards // copies
        )


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
                EngineClient(log_path=logs / f"{arm.name.replace(' ', '-')}.log", settings=arm.settings(device))
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
    """One pass of the load, on an empty prefix cache. Times in seconds and milliseconds, joules of the engine's cards.

    Raises RuntimeError for a request that failed or has another length than asked."""
    engine.client.reset_prefix_cache()
    requests = load.requests(seed=seed, vocabulary=vocabulary)
    engine.client.take_steps()  # what came before is not this load's
    counter = _counter()
    before = counter.read(cards=engine.arm.cards)
    results = sorted(results_of(engine.client, requests, at_once=load.at_once or len(requests)), key=place_of)
    after = counter.read(cards=engine.arm.cards)
    for result, output in zip(results, load.output_tokens, strict=True):
        if result.error is not None or len(result.token_ids) != output:
            raise RuntimeError(f"{result.request_id}: {result.error or len(result.token_ids)}, wanted {output} tokens")
    found = figures(results, prompt_tokens=load.prompt_tokens) | _of_the_steps(engine.client.take_steps())
    if before is not None and after is not None:
        found["joules"] = after - before
    if load.prompts is not None:
        found["answers"] = [_digest(each.token_ids) for each in results]
    if load.expected is not None:
        found["copied_share"] = float(
            np.mean([_copied(each.token_ids, as_in) for each, as_in in zip(results, load.expected, strict=False)])
        )
    return found


@functools.cache
def _counter() -> Counter:
    return Counter()


def results_of(client: EngineClient, requests: Sequence[WireRequest], *, at_once: int) -> list[WireResult]:
    """Raises EngineDied for an engine that says nothing any more."""
    waiting = deque(requests)
    results: list[WireResult] = []
    came = at_once
    while len(results) < len(requests):
        if more := [waiting.popleft() for _ in range(min(came, len(waiting)))]:
            client.submit(more)
        fresh = list(client.results())
        results += fresh
        came = len(fresh)
        if client.silent_s > SILENT_S:
            raise client.hung(f"it said nothing for {SILENT_S:.0f} s with {len(requests) - len(results)} to answer")
    return results


def _digest(token_ids: Sequence[int]) -> str:
    return hashlib.sha256(",".join(map(str, token_ids)).encode()).hexdigest()[:12]


def _copied(answer: Sequence[int], expected: Sequence[int]) -> float:
    """The share of an answer up to the first token that is another than the copy's."""
    same = next((n for n, (one, other) in enumerate(zip(answer, expected, strict=False)) if one != other), len(answer))
    return same / len(answer)


def _of_the_steps(messages: Sequence[Steps]) -> dict[str, Any]:
    """Steps, those that ran from a graph, and what was speculated; nothing of what this engine does not tell."""
    totals = [message.totals for message in messages]
    graphs = [graph for each in totals for graph in each.graphs]
    found: dict[str, Any] = {"steps": sum(each.steps for each in totals)}
    if graphs:
        found["graph_steps"] = sum(graph.steps for graph in graphs if graph.mode != "none")
    drafts = sum(each.drafts for each in totals)
    if drafts:
        accepted = sum(each.accepted_tokens for each in totals)
        found |= {
            "drafts": drafts,
            "draft_tokens": sum(each.draft_tokens for each in totals),
            "accepted_tokens": accepted,
            "mean_length": 1 + accepted / drafts,
            "accepted_by_position": _sums([each.accepted_by_position for each in totals]),
            "drafted_by_position": _sums([each.drafted_by_position for each in totals]),
        }
    return found


def _sums(lists: Sequence[Sequence[int]]) -> list[int]:
    longest = max(map(len, lists), default=0)
    return [sum(each[place] for each in lists if place < len(each)) for place in range(longest)]


def place_of(result: WireResult) -> int:
    return int(result.request_id.rpartition("-")[2])


def figures(results: Sequence[WireResult], *, prompt_tokens: Sequence[int]) -> dict[str, Any]:
    """Seconds for all, the median milliseconds a token, tokens a second, and the times to the first token of short and
    long prompts (p50 and p99, seconds)."""
    ordered = sorted(results, key=place_of)
    began, ended = min(each.sent_at for each in ordered), max(each.finished_at for each in ordered)
    tpot = [
        (each.last_token_at - each.first_token_at) * 1000 / (len(each.token_ids) - 1)
        for each in ordered
        if each.first_token_at is not None and each.last_token_at is not None and len(each.token_ids) > 1
    ]
    found: dict[str, Any] = {
        "total_s": ended - began,
        "ms_per_token": float(np.median(tpot)) if tpot else None,
        "output_tokens": sum(len(each.token_ids) for each in ordered),
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
