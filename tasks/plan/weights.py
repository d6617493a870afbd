"""How weights, keys and values are stored on the device."""

from collections.abc import Mapping
from typing import Any

from schemas.errors import ConfigError
from schemas.plan import DeviceFacts, PlannedOption

CPU_KV_DTYPES = ("auto", "fp8", "fp8_e4m3", "fp8_e5m2")
"""What vLLM's attention on a CPU can keep keys and values as."""
_NEEDS_GPU = ("fp8", "fp4", "bitsandbytes")
"""Parts of the names of methods for whose numbers vLLM's CPU build has no kernels."""
_EXPERTS_ONLY = ("int8_per_channel_weight_only", "experts_int8", "nvfp4_per_token", "moe_wna16")
"""Methods that leave everything but layers of experts as it is."""
_EXPERT_KEYS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")


def quantized_as(config: Mapping[str, Any]) -> str | None:
    """How a model's folder says that its weights are quantized; None where they are not."""
    found = config.get("quantization_config")
    return str(found.get("quant_method", "unnamed")) if isinstance(found, dict) else None


def plan_quantization(
    *, asked: str, config: Mapping[str, Any], device: DeviceFacts, dtype: str
) -> tuple[PlannedOption, list[str]]:
    """The option quantization: `auto`, `none`, or a method that vLLM applies while it loads.

    Raises ConfigError for `none` with a folder that is quantized, and for a method that the device has no kernels for.
    """
    stored = quantized_as(config)
    warnings: list[str] = []
    evidence = f"config.json says {stored or 'nothing of quantization'}; device {device.kind}: {device.name}"
    source = "user"
    if asked == "auto":
        source = "default"
        reason = (
            f"The model's folder is not quantized, so its weights are kept as {dtype}."
            if stored is None
            else f"The model's folder is quantized ({stored}), and vLLM reads it as it is."
        )
    elif asked == "none":
        if stored is not None:
            raise ConfigError.one(
                f"the model's folder is quantized ({stored}), and you asked for weights that are not",
                key="engine.quantization",
                suggestion="auto, or the folder of the model as it was before",
            )
        reason = f"You want weights that are not quantized; they are kept as {dtype}."
    else:
        if device.kind == "cpu" and stored is None and any(part in asked for part in _NEEDS_GPU):
            raise ConfigError.one(
                f"vLLM has no kernels for {asked} on a CPU",
                key="engine.quantization",
                suggestion="auto; or a folder that is quantized to int8 or int4, read with auto",
            )
        reason = f"You set {asked}: " + (
            f"the weights are quantized from {dtype} while they load, and answers can change."
            if stored is None
            else f"the folder is quantized as {stored}."
        )
        if asked in _EXPERTS_ONLY and not any(config.get(key) for key in _EXPERT_KEYS):
            warnings.append(
                f"engine.quantization: {asked} quantizes layers of experts, and this model has none: nothing changes."
            )
    option = PlannedOption(
        option="quantization",
        value=asked,
        default_value="auto",
        reason=reason,
        evidence=evidence,
        source=source,
        would_change="engine.quantization",
    )
    return option, warnings


def plan_kv_dtype(*, asked: str, device: DeviceFacts, dtype: str, head_dim: int) -> PlannedOption:
    """The option kv_cache_dtype: what keys and values are kept as.

    Raises ConfigError for a format that vLLM's attention on a CPU does not take."""
    if asked == "auto":
        reason = f"Keys and values are kept as they are computed, {dtype}."
    else:
        if device.kind == "cpu" and asked != dtype:
            _check_cpu_kv(asked, device=device, head_dim=head_dim)
        reason = f"You set {asked}."
        if "fp8" in asked:
            reason += " Half the bytes of bfloat16 a token, so that twice the tokens fit; answers can change."
    return PlannedOption(
        option="kv_cache_dtype",
        value=asked,
        default_value="auto",
        reason=reason,
        evidence=f"computed as {dtype}; device {device.kind}: {device.name}",
        source="default" if asked == "auto" else "user",
        would_change="engine.memory.kv_dtype",
    )


def _check_cpu_kv(asked: str, *, device: DeviceFacts, head_dim: int) -> None:
    key = "engine.memory.kv_dtype"
    if asked not in CPU_KV_DTYPES:
        raise ConfigError.one(
            f"vLLM on a CPU keeps no keys and values as {asked}", key=key, suggestion=" or ".join(CPU_KV_DTYPES)
        )
    if device.cpu_flags and not any(flag.startswith(("avx512", "amx")) for flag in device.cpu_flags):
        raise ConfigError.one(f"{asked} on a CPU needs AVX-512 or AMX, which {device.name} does not have", key=key)
    if head_dim % 32:
        raise ConfigError.one(
            f"{asked} on a CPU needs heads of a multiple of 32, and this model's have {head_dim}", key=key
        )


def kv_dtype_of(kv_dtype: str, *, dtype: str) -> str:
    """The format that a planned kv_cache_dtype stands for. dtype: that of the computation."""
    return dtype if kv_dtype == "auto" else kv_dtype


def plan_cpu_offload(*, asked: float, device: DeviceFacts) -> tuple[PlannedOption, list[str]]:
    """The option cpu_offload_gb: GiB of weights that stay in the host's memory. A CPU has no other memory."""
    warnings: list[str] = []
    value = asked
    if device.kind == "cpu" and asked:
        value = 0.0
        warnings.append("engine.memory.cpu_offload_gb has no effect on a CPU: all weights are in its memory.")
    option = PlannedOption(
        option="cpu_offload_gb",
        value=value,
        default_value=0.0,
        reason=f"You leave {value:g} GiB of the weights in the host's memory: each step reads them from there."
        if value
        else "All weights are on the device.",
        evidence=f"device {device.kind}: {device.name}",
        source="user" if value else "default",
        would_change="engine.memory.cpu_offload_gb",
    )
    return option, warnings
