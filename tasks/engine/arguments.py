"""Which of vLLM's own arguments `engine.extra` may pass on: those that assay has no key for, and that run no code."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tasks.config.nearest import did_you_mean
from tasks.engine.installed import InstalledVllm

OWN = {
    "model": "model",
    "model_weights": "model",
    "tokenizer": "model",
    "load_format": "model.source",
    "dtype": "model.dtype",
    "seed": "sampling.seed",
    "max_model_len": "engine.max_model_len",
    "max_num_batched_tokens": "engine.max_num_batched_tokens",
    "max_num_seqs": "engine.max_num_seqs",
    "long_prefill_token_threshold": "engine.prefill",
    "enable_prefix_caching": "engine.prefix_caching",
    "kv_cache_dtype": "engine.memory.kv_dtype",
    "gpu_memory_utilization": "engine.memory.gpu_share",
    "kv_cache_memory_bytes": "engine.memory.kv_cache_bytes",
    "block_size": "engine.memory.block_size",
    "cpu_offload_gb": "engine.memory.cpu_offload_gb",
    "quantization": "engine.quantization",
    "enforce_eager": "engine.compile and engine.cudagraph",
    "cudagraph_capture_sizes": "engine.cudagraph.sizes",
    "structured_outputs_config": "engine.grammar",
    "enable_lora": "engine.adapters",
    "max_loras": "engine.adapters",
    "max_cpu_loras": "engine.adapters",
    "max_lora_rank": "engine.adapters",
    "lora_target_modules": "engine.adapters",
    "speculative_config": "engine.speculative",
    "spec_method": "engine.speculative.method",
    "spec_model": "engine.speculative.model",
    "spec_tokens": "engine.speculative.tokens",
    "tensor_parallel_size": "engine.parallel.tensor",
    "pipeline_parallel_size": "engine.parallel.pipeline",
    "data_parallel_size": "engine.parallel.data",
    "distributed_executor_backend": "engine.parallel.executor",
    "hf_overrides": "engine.hf_overrides",
    "attention_backend": "engine.attention_backend",
    "enable_sleep_mode": "engine.sleep_mode",
    "profiler_config": "engine.trace_steps",
}
"""vLLM's arguments that assay has a key for."""

OWN_COMPILATION = {
    "mode": "engine.compile",
    "level": "engine.compile",
    "cudagraph_mode": "engine.cudagraph.mode",
    "cudagraph_capture_sizes": "engine.cudagraph.sizes",
    "cache_dir": "engine.compile_cache",
}
"""The same, inside `compilation_config`."""

FIXED = {
    "disable_log_stats": "assay reads vLLM's statistics",
    "skip_tokenizer_init": "answers are read as text",
    "runner": "the engine generates",
    "convert": "the engine generates",
    "hf_token": "a secret does not belong into a config that is recorded",
    "data_parallel_rank": "`engine.parallel.data` starts the copies",
    "data_parallel_size_local": "`engine.parallel.data` starts the copies",
    "data_parallel_external_lb": "`engine.parallel.data` starts the copies",
    "data_parallel_hybrid_lb": "`engine.parallel.data` starts the copies",
}
"""Arguments that assay itself sets or that nobody may, and why."""

RUNS_CODE = frozenset(
    {
        "trust_remote_code",
        "code_revision",
        "worker_cls",
        "worker_extension_cls",
        "scheduler_cls",
        "logits_processors",
        "model_class_overrides",
        "reasoning_parser_plugin",
        "io_processor_plugin",
        "logging_config",
        "log_config_file",
        "kv_transfer_config",
        "ec_transfer_config",
        "weight_transfer_config",
    }
)
"""Arguments that name code: an import path, or a file that can hold one."""
RUNS_CODE_INSIDE = {"compilation_config": frozenset({"backend", "inductor_passes", "custom_ops_module"})}


@dataclass(frozen=True, kw_only=True)
class ArgumentFault:
    """What is wrong with one argument of `extra`. keypath: below `extra`."""

    keypath: tuple[str, ...]
    message: str
    suggestion: str | None = None


def runs_code(name: str, value: Any) -> bool:
    """Whether an argument makes vLLM import or run something that the config names."""
    inside = RUNS_CODE_INSIDE.get(name, frozenset())
    return name in RUNS_CODE or (isinstance(value, dict) and bool(inside & value.keys()))


def argument_faults(
    extra: Mapping[str, Any], *, installed: InstalledVllm | None, allow_code: bool
) -> Iterator[ArgumentFault]:
    """Every fault of `extra`. installed: None where there is no vLLM to look at; then names are not checked."""
    for name, value in extra.items():
        here = (name,)
        if name in FIXED:
            yield ArgumentFault(keypath=here, message=f"cannot be set: {FIXED[name]}")
        elif name in OWN:
            yield ArgumentFault(keypath=here, message="assay has a key for this", suggestion=f"set `{OWN[name]}`")
        elif installed is not None and installed.arguments and name not in installed.arguments:
            hint = did_you_mean(name.replace("-", "_"), installed.arguments)
            yield ArgumentFault(
                keypath=here, message="the installed vLLM has no argument of this name", suggestion=hint
            )
        elif runs_code(name, value) and not allow_code:
            yield ArgumentFault(
                keypath=here,
                message="is refused: it makes vLLM run code that the config names",
                suggestion="`allow_code: true` in the engine's file takes it",
            )
        elif name == "compilation_config":
            yield from _compilation_faults(value)


def _compilation_faults(value: Any) -> Iterator[ArgumentFault]:
    if not isinstance(value, dict):
        yield ArgumentFault(keypath=("compilation_config",), message="must be a block of keys")
        return
    for key in value.keys() & OWN_COMPILATION.keys():
        yield ArgumentFault(
            keypath=("compilation_config", key),
            message="assay has a key for this",
            suggestion=f"set `{OWN_COMPILATION[key]}`",
        )
