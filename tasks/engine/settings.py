"""From the plan to what the engine process is told, and back: which settings came out differently."""

import os
from collections.abc import Iterable, Mapping
from typing import Any

from schemas.plan import EnginePlan

# Not vLLM's settings but ours: what they became is not read back under the same name.
_OURS = frozenset({"prefill_policy"})


def build_options(plan: EnginePlan) -> dict[str, Any]:
    """The plan's options by name, as tasks/engine/worker/vllm_options.py takes them."""
    return {planned.option: planned.value for planned in plan.options}


def engine_environment(
    *, cores: Iterable[int], compiles: bool = True, base: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The engine process's environment: bound to the cores, no telemetry, no network, no warning about tokenizers.

    What torch reads while it is imported must stand before, so it is set here and not in the worker. compiles: False
    keeps torch.compile out altogether. vLLM has functions of its own that ask for it even in eager mode; on a CPU the
    first log-likelihood would then wait for a C++ compiler, and fail where there is none."""
    listed = sorted(cores)
    environment = dict(os.environ if base is None else base)
    environment.update(
        {
            "OMP_NUM_THREADS": str(len(listed)),
            "VLLM_CPU_OMP_THREADS_BIND": ",".join(str(core) for core in listed),
            "VLLM_NO_USAGE_STATS": "1",
            "DO_NOT_TRACK": "1",
            "HF_HUB_OFFLINE": "1",
            "TRANSFORMERS_OFFLINE": "1",
            "TOKENIZERS_PARALLELISM": "false",
            "PYTHONUNBUFFERED": "1",
        }
    )
    if not compiles:
        environment["TORCH_COMPILE_DISABLE"] = "1"
    return environment


def downgrades(requested: Mapping[str, Any], resolved: Mapping[str, Any]) -> list[str]:
    """Each setting that the engine resolved to something else than was asked, in words. `auto` asks for nothing."""
    found = []
    for option, wanted in requested.items():
        if option in _OURS or option not in resolved or wanted in (None, "auto"):
            continue
        got = resolved[option]
        if option == "cudagraph_capture_sizes" and not wanted:
            continue
        if got != wanted:
            found.append(f"{option}: asked for {wanted}, the engine runs with {got}")
    return found
