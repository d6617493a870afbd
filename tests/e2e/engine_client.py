"""An engine by itself, without a run around it: for tests of what it tells."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tasks.engine.client import EngineClient
from tasks.engine.protocol import Steps, WireRequest, WireResult, WireSampling
from tasks.engine.settings import ProcessSettings
from tasks.plan.device import read_device_facts
from tests.stores import SHARED_CACHE

OPTIONS: dict[str, Any] = {
    "dtype": "float32",
    "load_format": "safetensors",
    "max_model_len": 512,
    "max_num_batched_tokens": 512,
    "max_num_seqs": 16,
    "long_prefill_token_threshold": 64,
    "enable_prefix_caching": True,
    "block_size": 32,
    "grammar_backend": "xgrammar",
    "grammar_masks": "batched",
    "grammar_whitespace": False,
    "compile": "none",
    "cudagraph_mode": "none",
    "cudagraph_capture_sizes": [],
    "kv_cache_memory_bytes": 64 << 20,
    "core": "inprocess",
}
ANSWER_S = 120.0
VLLM_CACHE = ("VLLM_CACHE_ROOT", str(SHARED_CACHE / "vllm"))


@contextmanager
def engine(*, model: Path, log_path: Path, python: str | None = None, **options: Any) -> Iterator[EngineClient]:
    """A real engine with OPTIONS, other than those given. python: another environment's interpreter."""
    settings = ProcessSettings(
        cores=tuple(read_device_facts().cores), compiles=False, python=python, variables=(VLLM_CACHE,)
    )
    with EngineClient(log_path=log_path, settings=settings) as client:
        client.build(model=model, options=OPTIONS | options)
        yield client


def answers(client: EngineClient, requests: list[WireRequest]) -> tuple[dict[str, WireResult], list[Steps]]:
    """The results of these requests by their ids, and what the engine told of its steps meanwhile."""
    client.take_steps()
    client.submit(requests)
    found: dict[str, WireResult] = {}
    end = time.monotonic() + ANSWER_S
    while len(found) < len(requests):
        assert time.monotonic() < end, f"{len(found)} of {len(requests)} answers came in {ANSWER_S:.0f} s"
        found |= {result.request_id: result for result in client.results()}
    return found, client.take_steps()


def request(name: str, tokens: list[int], *, max_tokens: int = 16) -> WireRequest:
    """Greedy, of so many tokens at most."""
    return WireRequest(
        request_id=name, prompt_token_ids=tokens, sampling=WireSampling(temperature=0.0, max_tokens=max_tokens)
    )
