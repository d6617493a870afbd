"""With `vllm_resolved`, the one place that knows vLLM's own names, and in which release they changed: assay's options
in, the arguments of EngineArgs out.

What a release has is asked of the release itself, by the fields of its EngineArgs. An argument is passed on only where
it says something else than vLLM would do anyway, so that an option that a release lacks is missed only by who uses it.
"""

import dataclasses
from typing import Any

from tasks.engine.worker.vllm_resolved import resolved_settings, versions

__all__ = ["checked_arguments", "engine_arguments", "in_words", "resolved_settings", "versions"]

_RENAMED_BELOW_5 = {"rope_parameters": "rope_scaling"}
"""Keys of a model's config that older releases of transformers have another name for."""


def checked_arguments(model: str, options: dict[str, Any], *, device: str, trace_dir: str | None = None) -> Any:
    """vLLM's EngineArgs for assay's options. trace_dir: where the profiler's traces go.

    Raises ValueError for an option that the installed release does not have, with both their names."""
    from vllm.engine.arg_utils import EngineArgs  # noqa: PLC0415 - costs seconds

    arguments = engine_arguments(model, options, device=device)
    arguments = _with_extra(arguments | _asked_for(options, trace_dir=trace_dir), options.get("extra") or {})
    known = {field.name for field in dataclasses.fields(EngineArgs)}
    _fit_to(known, arguments)
    for name in arguments:
        if name not in known:
            option = next((each for each, named in _ARGUMENT_OF.items() if name in named), name)
            raise ValueError(f"vLLM {versions().get('vllm')} has no argument `{name}`, which the option {option} needs")
    return EngineArgs(**arguments)


def engine_arguments(model: str, options: dict[str, Any], *, device: str) -> dict[str, Any]:
    """Keyword arguments of vLLM's EngineArgs for assay's options. Raises KeyError if an option is missing."""
    arguments: dict[str, Any] = {
        "model": model,
        "dtype": options["dtype"],
        "max_model_len": options["max_model_len"],
        "max_num_batched_tokens": options["max_num_batched_tokens"],
        "max_num_seqs": options["max_num_seqs"],
        "long_prefill_token_threshold": options["long_prefill_token_threshold"],
        "enable_prefix_caching": options["enable_prefix_caching"],
        "structured_outputs_config": {
            "backend": options["grammar_backend"],
            "disable_any_whitespace": not options["grammar_whitespace"],
        },
        "disable_log_stats": False,
        # vLLM's own count of the graphs that it ran, and of a step's tokens where its scheduler is out of reach.
        "cudagraph_metrics": device != "cpu",
        "enable_logging_iteration_details": options["core"] == "multiprocess",
        "block_size": options["block_size"],
        "trust_remote_code": False,
        "load_format": options["load_format"],
        "seed": 0,
    }
    eager = options["compile"] == "none"
    compilation: dict[str, Any] = {}
    if options["compile"] is not None:
        compilation["mode"] = 0 if eager else 3
    if options["cudagraph_mode"] is not None:
        compilation["cudagraph_mode"] = options["cudagraph_mode"].upper()
    if options["cudagraph_capture_sizes"]:
        compilation["cudagraph_capture_sizes"] = options["cudagraph_capture_sizes"]
    if eager and options["cudagraph_mode"] == "none":
        arguments["enforce_eager"] = True
    elif compilation:
        arguments["compilation_config"] = compilation
    if device == "cpu":
        arguments["kv_cache_memory_bytes"] = options["kv_cache_memory_bytes"]
    else:
        arguments["gpu_memory_utilization"] = options["gpu_memory_utilization"]
        if options.get("kv_cache_memory_bytes") is not None:
            arguments["kv_cache_memory_bytes"] = options["kv_cache_memory_bytes"]
    # None is left to vLLM.
    return {name: value for name, value in arguments.items() if value is not None}


_ARGUMENT_OF = {
    "quantization": ("quantization",),
    "memory.kv_dtype": ("kv_cache_dtype",),
    "memory.cpu_offload_gb": ("cpu_offload_gb",),
    "adapters": ("enable_lora", "max_loras", "max_cpu_loras", "max_lora_rank", "lora_target_modules"),
    "speculative": ("speculative_config",),
    "parallel": ("tensor_parallel_size", "pipeline_parallel_size", "distributed_executor_backend"),
    "hf_overrides": ("hf_overrides",),
    "attention_backend": ("attention_backend",),
    "sleep_mode": ("enable_sleep_mode",),
    "trace_steps": ("profiler_config",),
}
"""assay's key in the engine's YAML, by vLLM's arguments."""


def _asked_for(options: dict[str, Any], *, trace_dir: str | None) -> dict[str, Any]:
    """The arguments that only an engine with something out of the ordinary has."""
    arguments: dict[str, Any] = {}
    for name, nothing in (("quantization", ("auto", "none")), ("kv_cache_dtype", ("auto",)), ("cpu_offload_gb", (0,))):
        if options.get(name) not in (None, *nothing):
            arguments[name] = options[name]
    for name in ("tensor_parallel_size", "pipeline_parallel_size"):
        if options.get(name, 1) > 1:
            arguments[name] = options[name]
    if options.get("executor", "auto") != "auto":
        arguments["distributed_executor_backend"] = options["executor"]
    if options.get("adapters"):
        arguments |= {
            "enable_lora": True,
            "max_loras": options["max_loras"],
            "max_cpu_loras": max(len(options["adapters"]), options["max_loras"]),
            "max_lora_rank": options["max_lora_rank"],
        }
        # The layers that are changed, and no others: every one that vLLM makes room in costs time, and with the output
        # layer among them a CPU dies of a prompt's log-probabilities.
        if modules := sorted({name for adapter in options["adapters"] for name in adapter.get("modules", ())}):
            arguments["lora_target_modules"] = modules
    if options.get("speculative"):
        arguments["speculative_config"] = _speculative(options["speculative"])
    if options.get("hf_overrides"):
        arguments["hf_overrides"] = _overrides(options["hf_overrides"])
    if options.get("attention_backend", "auto") != "auto":
        arguments["attention_backend"] = options["attention_backend"]
    if options.get("sleep_mode"):
        arguments["enable_sleep_mode"] = True
    if options.get("trace_steps") and trace_dir is not None:
        arguments["profiler_config"] = {"profiler": "torch", "torch_profiler_dir": trace_dir}
    return arguments


def _with_extra(arguments: dict[str, Any], extra: dict[str, Any]) -> dict[str, Any]:
    """The arguments with `extra` in them; what it says of compiling goes beside what assay's own keys say."""
    compilation = {**arguments.get("compilation_config", {}), **extra.get("compilation_config", {})}
    return {**arguments, **extra, **({"compilation_config": compilation} if compilation else {})}


def _speculative(asked: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"method": asked["method"]}
    if "tokens" in asked:
        found["num_speculative_tokens"] = asked["tokens"]
    if "lookup" in asked:
        found["prompt_lookup_min"], found["prompt_lookup_max"] = asked["lookup"]
    if "model" in asked:
        found["model"] = asked["model"]
    return found


def _overrides(asked: dict[str, Any]) -> dict[str, Any]:
    """The keys as the installed transformers names them."""
    if int(versions().get("transformers", "5").partition(".")[0]) >= 5:
        return asked
    found = {_RENAMED_BELOW_5.get(key, key): value for key, value in asked.items()}
    rope = dict(asked.get("rope_parameters") or {})
    if "rope_theta" in rope:
        found["rope_theta"] = rope.pop("rope_theta")
        found["rope_scaling"] = rope
    return found


def _fit_to(known: set[str], arguments: dict[str, Any]) -> None:
    """Puts what a release takes elsewhere where it takes it."""
    if "attention_backend" in arguments and "attention_backend" not in known and "attention_config" in known:
        arguments["attention_config"] = {"backend": arguments.pop("attention_backend")}
    # Statistics that an older release does not have are not missed, nor is where it could save time.
    for name in ("cudagraph_metrics", "enable_logging_iteration_details", "lora_target_modules"):
        if name not in known:
            arguments.pop(name, None)


def in_words(error: BaseException) -> str:
    """What an error says, in one line. vLLM's own checks of its settings say in their first line only that something
    is wrong."""
    details = getattr(error, "errors", None)
    if callable(details) and type(error).__name__ == "ValidationError":
        said = [str(each.get("msg", "")).removeprefix("Value error, ").splitlines()[0] for each in details()]
        return f"{type(error).__name__}: {'; '.join(said)}"
    return (f"{type(error).__name__}: {error}".splitlines() or [type(error).__name__])[0]
