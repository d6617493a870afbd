"""What the engine takes of the device's memory, by vLLM's own measurement; where that is missing, so is the size."""

from typing import Any


def worker_of(engine: Any) -> Any:
    """vLLM's worker, where it lives in this process; else None. engine: vLLM's LLMEngine."""
    executor = getattr(engine, "model_executor", None)
    return getattr(getattr(executor, "driver_worker", None), "worker", None)


def sizes(engine: Any) -> dict[str, int]:
    """Bytes by name, of one device where there are several.

    weights_bytes: what loading the weights took of a GPU; on a CPU vLLM packs them anew and measures nothing.
    activation_bytes: the highest that the profiling pass took on top; vLLM makes none where it is told the size of the
    KV cache. non_torch_bytes: what is not torch's own (only some releases tell it). kv_bytes: the KV cache. What
    recording the graphs took is the PhaseClock's to say."""
    worker = worker_of(engine)
    runner = getattr(worker, "model_runner", None)
    if runner is None:
        return {}
    found: dict[str, int] = {}
    if weights := getattr(runner, "model_memory_usage", None):
        found["weights_bytes"] = int(weights)
    activations = _activation_bytes(worker)
    if activations is not None:
        found["activation_bytes"] = activations
    outside = getattr(worker, "non_torch_memory", None)
    if outside is not None:
        found["non_torch_bytes"] = int(outside)
    caches = [cache for cache in getattr(runner, "kv_caches", ()) if hasattr(cache, "element_size")]
    if caches:
        found["kv_bytes"] = sum(cache.numel() * cache.element_size() for cache in caches)
    return found


def _activation_bytes(worker: Any) -> int | None:
    peak = getattr(worker, "peak_activation_memory", None)
    if peak is None:
        return None
    if not hasattr(worker, "non_torch_memory"):
        # Newer releases put their guess of the graphs' memory on top, where they use it.
        from vllm import envs  # noqa: PLC0415 - costs seconds

        if getattr(envs, "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS", False):
            peak -= getattr(worker, "cudagraph_memory_estimate", 0)
    return int(peak)


def cold(*, compiles: bool) -> bool | None:
    """Whether nothing compiled was found in a cache; None where nothing compiles or it happened in another process."""
    from vllm.compilation.counter import compilation_counter as counter  # noqa: PLC0415 - costs seconds

    loaded = getattr(counter, "num_aot_artifacts_loaded", 0) + getattr(counter, "num_compiled_artifacts_loaded", 0)
    made = (
        getattr(counter, "num_aot_compiles", 0)
        + getattr(counter, "num_inductor_compiles", 0)
        + getattr(counter, "num_compiled_artifacts_saved", 0)
    )
    return not loaded if compiles and (loaded or made) else None


def peak_bytes_since() -> int | None:
    """The most that torch held of the GPU in this process since this was last asked; None without one."""
    import torch  # noqa: PLC0415 - costs seconds

    if not torch.cuda.is_available() or not torch.cuda.is_initialized():
        return None
    peak = int(torch.cuda.max_memory_allocated())
    torch.cuda.reset_peak_memory_stats()
    return peak
