"""What the engine's step log costs: tokens per second with it and without, in turns, on one engine of this machine.

    python -m tests.bench.step_log

The engine is vLLM's own object, driven as the worker drives it, so that only the log differs. Beside the ratio, which
holds the machine's noise, stands the time that a step spends in the log itself.
"""

import os
import statistics
import sys
import time
from typing import Any

from tasks.engine.settings import engine_environment
from tasks.plan.device import read_device_facts
from tests.conftest import SMALL_MODEL
from tests.stores import SHARED_CACHE

PAIRS = 8
REQUESTS, TOKENS = 32, 64
BOUND = 0.02


def main() -> None:
    os.environ.update(engine_environment(cores=read_device_facts().cores, compiles=False))
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    from vllm import SamplingParams
    from vllm.engine.arg_utils import EngineArgs
    from vllm.v1.engine.llm_engine import LLMEngine

    from tasks.engine.worker.step_log import StepLog
    from tasks.model.resolve import model_folder

    arguments = EngineArgs(
        model=str(model_folder(SMALL_MODEL, cache=SHARED_CACHE)), dtype="bfloat16", enforce_eager=True,
        max_model_len=512, max_num_seqs=REQUESTS, max_num_batched_tokens=2048, block_size=32,
        kv_cache_memory_bytes=256 << 20, enable_prefix_caching=False, disable_log_stats=False,
    )  # fmt: skip
    engine = LLMEngine.from_engine_args(arguments)
    scheduler = engine.engine_core.engine_core.scheduler  # type: ignore[attr-defined]
    bare, log = scheduler.update_from_output, StepLog()
    spent: list[float] = []
    seconds: list[float] = []  # of the passes with the log
    log.watch(engine)
    logged = scheduler.update_from_output
    _time(log, spent)

    def run(number: int, *, with_log: bool) -> float:
        scheduler.update_from_output = logged if with_log else bare
        for n in range(REQUESTS):
            prompt = {"prompt_token_ids": [1000 + n, *range(2000 + n, 2031 + n)]}
            parameters = SamplingParams(temperature=0.0, max_tokens=TOKENS, ignore_eos=True)
            engine.add_request(f"{number}-{n}", prompt, parameters)  # type: ignore[arg-type]
        began = time.perf_counter()
        while engine.has_unfinished_requests():
            if with_log:
                log.step_called()
            engine.step()
        if with_log:
            log.message()
            seconds.append(time.perf_counter() - began)
        return REQUESTS * TOKENS / (time.perf_counter() - began)

    run(-1, with_log=True)
    del spent[:], seconds[:]
    ratios = []
    for pair in range(PAIRS):
        order = (True, False) if pair % 2 == 0 else (False, True)
        rates = {with_log: run(2 * pair + turn, with_log=with_log) for turn, with_log in enumerate(order)}
        ratios.append(rates[True] / rates[False])
        print(f"  with {rates[True]:7.1f} tokens/s, without {rates[False]:7.1f}: {ratios[-1]:.3f}")
    of_step, whole_s = statistics.median(spent), sum(seconds)
    print(f"tokens/s with the log / without, median of {PAIRS} pairs: {statistics.median(ratios):.4f}"
          f" ({min(ratios):.3f} to {max(ratios):.3f}: the machine's noise)")  # fmt: skip
    print(f"in the log itself: median {1e6 * of_step:.1f} us a step of {REQUESTS} requests, {len(spent)} steps")
    print(f"  of the time of these passes: {sum(spent) / whole_s:.5f}; of a GPU's step of 3 ms: {of_step / 0.003:.4f}")
    if max(sum(spent) / whole_s, of_step / 0.003) > BOUND:
        sys.exit(f"the log costs more than {BOUND:.0%} of a step")


def _time(log: Any, spent: list[float]) -> None:
    """Times what the log itself does in each step."""
    took = log._took

    def timed(*args: Any, **kwargs: Any) -> None:
        began = time.perf_counter()
        took(*args, **kwargs)
        spent.append(time.perf_counter() - began)

    log._took = timed


if __name__ == "__main__":
    main()
