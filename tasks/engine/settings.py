"""From the plan to what the engine process is told, and back: which settings came out differently."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from schemas.engine import VllmEngine
from schemas.plan import DeviceFacts, EnginePlan
from tasks.plan.graphs import plan_compile
from tasks.plan.host import plan_cores
from tasks.plan.on_disk import compile_cache

# Not vLLM's settings but ours: what they became is not read back under the same name.
_OURS = frozenset({"prefill_policy"})


@dataclass(frozen=True, kw_only=True)
class ProcessSettings:
    """What must be known of an engine before its process starts: what it is bound to, and what vLLM and torch read
    while they are imported."""

    cores: tuple[int, ...]
    compiles: bool = True
    python: str | None = None
    variables: tuple[tuple[str, str], ...] = ()
    copies: int = 1
    devices: int = 0
    """Of one copy; 0 on a CPU, where the copies share the cores."""
    program: Literal["worker", "null", "endpoint"] = "worker"
    """`null`: an engine without a model, which answers by a script (tasks/engine/null); `endpoint`: one that asks a
    server (tasks/engine/endpoint)."""


def process_settings(engine: VllmEngine, *, device: DeviceFacts, cache: Path) -> ProcessSettings:
    """The settings that the plan for this engine will have. cache: assay's own folder for what is made once."""
    left = engine.choose == "vllm" and engine.compile == "auto"
    compiled = "full" if left else plan_compile(device=device, asked=engine.compile).value
    variables = {"VLLM_CACHE_ROOT": compile_cache(engine, cache=cache)}
    if engine.batch_invariant:
        variables["VLLM_BATCH_INVARIANT"] = "1"
    if engine.grammar.cache_mb != "auto":
        variables["VLLM_XGRAMMAR_CACHE_MB"] = str(engine.grammar.cache_mb)
    if engine.grammar.regex_timeout_s != "auto":
        variables["VLLM_REGEX_COMPILATION_TIMEOUT_S"] = str(engine.grammar.regex_timeout_s)
    return ProcessSettings(
        cores=tuple(plan_cores(device).value),
        compiles=device.kind != "cpu" or compiled != "none",
        python=engine.python,
        variables=tuple(sorted(variables.items())),
        copies=engine.parallel.data,
        devices=0 if device.kind == "cpu" else engine.parallel.tensor * engine.parallel.pipeline,
    )


def build_options(plan: EnginePlan) -> dict[str, Any]:
    """The plan's options by name, as tasks/engine/worker/vllm_options.py takes them."""
    return {planned.option: planned.value for planned in plan.options}


def own_search_path() -> str:
    """Where a process of this environment finds assay, and what this one was told to look at besides."""
    root = Path(__file__).resolve().parents[2]
    return os.pathsep.join([str(root), *filter(None, [os.environ.get("PYTHONPATH")])])


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
        if option in _OURS or option not in resolved or wanted in (None, "auto", {}):
            continue
        got = resolved[option]
        if option == "cudagraph_capture_sizes" and not wanted:
            continue
        if option == "attention_backend" and got is None:
            continue  # its layers are in another process
        if option == "quantization" and wanted == "none" and got is None:
            continue
        if isinstance(wanted, dict) and isinstance(got, dict):
            found += [
                f"{option}.{key}: asked for {value}, the engine runs with {got[key]}"
                for key, value in wanted.items()
                if key in got and got[key] != value
            ]
        elif got != wanted:
            found.append(f"{option}: asked for {wanted}, the engine runs with {got}")
    return [*found, *_stops_not_allowed(resolved)]


def _stops_not_allowed(resolved: Mapping[str, Any]) -> list[str]:
    """Tokens with which a free answer ends and a guided one cannot."""
    allowed = resolved.get("grammar_stop_token_ids")
    forbidden = [] if allowed is None else [end for end in resolved.get("stop_token_ids") or [] if end not in allowed]
    if not forbidden:
        return []
    tokens, known = ", ".join(map(str, forbidden)), ", ".join(map(str, allowed)) or "none"
    return [
        f"guided answers cannot end with the token {tokens}, with which free ones do: "
        f"{resolved.get('grammar_backend')} knows only {known}. They may go on as long as their grammar lets them"
    ]


def identifying(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that make an engine another one: without folders of this machine, adapters by their content."""
    found = {name: value for name, value in options.items() if name not in ("compile_cache", "trace_steps", "python")}
    if "adapters" in found:
        found["adapters"] = [
            {key: value for key, value in adapter.items() if key != "path"} for adapter in found["adapters"]
        ]
    if isinstance(found.get("speculative"), dict):
        found["speculative"] = {key: value for key, value in found["speculative"].items() if key != "model"}
    return found
