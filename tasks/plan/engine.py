"""The whole plan: from the load, the model and the device to engine options, each with its reason."""

from schemas.engine import Memory, VllmEngine
from schemas.plan import DeviceFacts, EnginePlan, ModelFacts, PlannedLoad, PlannedOption
from tasks.plan.batch import (
    plan_block_size,
    plan_gpu_share,
    plan_kv_cache_bytes,
    plan_max_num_batched_tokens,
    plan_max_num_seqs,
)
from tasks.plan.estimate import EarlierRun, estimate
from tasks.plan.graphs import plan_capture_sizes, plan_compile, plan_cudagraph_mode
from tasks.plan.host import plan_core, plan_cores, plan_dtype, plan_grammar, plan_prefix_caching
from tasks.plan.lengths import plan_max_model_len
from tasks.plan.prefill import plan_prefill


def plan_engine(
    *,
    load: PlannedLoad,
    model: ModelFacts,
    device: DeviceFacts,
    engine: VllmEngine,
    dtype: str,
    earlier: EarlierRun | None,
) -> EnginePlan:
    """Every engine option with its value, vLLM's own, the reason and the evidence; the estimate; and warnings.

    On a CPU the options kv_cache_memory_bytes and cores are among them, on a GPU gpu_memory_utilization (and
    kv_cache_memory_bytes only if the user set it). Raises ConfigError for an empty load, a request that does not fit,
    and numbers that vLLM would refuse.
    """
    warnings: list[str] = []
    chosen_dtype, notes = plan_dtype(model=model, device=device, asked=dtype)
    warnings += notes

    max_model_len = plan_max_model_len(load=load, model=model, asked=engine.max_model_len)
    max_num_seqs = plan_max_num_seqs(requests=len(load.prompt_tokens), device=device, asked=engine.max_num_seqs)
    budget = plan_max_num_batched_tokens(
        prompt_tokens=load.prompt_tokens,
        device=device,
        asked=engine.max_num_batched_tokens,
        max_num_seqs=max_num_seqs.value,
        max_model_len=max_model_len.value,
    )
    prefill = plan_prefill(
        prompt_tokens=load.prompt_tokens,
        policy=engine.prefill.policy,
        threshold=engine.prefill.threshold,
        max_model_len=max_model_len.value,
        token_budget=budget.value,
    )

    compiled = plan_compile(device=device, asked=engine.compile)
    mode, notes = plan_cudagraph_mode(device=device, asked=engine.cudagraph.mode, compiled=compiled.value)
    warnings += notes
    sizes, notes = plan_capture_sizes(
        mode=mode.value,
        asked=engine.cudagraph.sizes,
        max_num_seqs=max_num_seqs.value,
        token_budget=budget.value,
    )
    warnings += notes

    memory, notes = _plan_memory(
        load=load,
        model=model,
        device=device,
        memory=engine.memory,
        dtype=chosen_dtype.value,
        max_num_seqs=max_num_seqs.value,
        max_model_len=max_model_len.value,
        prefix_caching=engine.prefix_caching,
    )
    warnings += notes
    grammar, notes = plan_grammar(engine.grammar)
    warnings += notes
    warnings += _device_warnings(device)

    options = [
        chosen_dtype,
        max_model_len,
        max_num_seqs,
        budget,
        *prefill,
        plan_prefix_caching(asked=engine.prefix_caching, prompts=len(load.prompt_tokens)),
        mode,
        sizes,
        compiled,
        *memory,
        *grammar,
        plan_core(device=device, asked=engine.core),
    ]
    if device.kind == "cpu":
        options.append(plan_cores(device))
    return EnginePlan(
        options=options,
        estimate=estimate(load=load, model=model, device=device, earlier=earlier),
        warnings=warnings,
    )


def _plan_memory(
    *,
    load: PlannedLoad,
    model: ModelFacts,
    device: DeviceFacts,
    memory: Memory,
    dtype: str,
    max_num_seqs: int,
    max_model_len: int,
    prefix_caching: bool,
) -> tuple[list[PlannedOption], list[str]]:
    block = plan_block_size(device=device, prefix_caching=prefix_caching, asked=memory.block_size)
    options: list[PlannedOption] = [block]
    warnings: list[str] = []
    if device.kind == "cuda":
        share, notes = plan_gpu_share(
            model=model, device=device, share=memory.gpu_share, default_share=Memory().gpu_share
        )
        options.append(share)
        warnings += notes
    if device.kind == "cpu" or isinstance(memory.kv_cache_bytes, int):
        cache, notes = plan_kv_cache_bytes(
            load=load,
            model=model,
            device=device,
            dtype=dtype,
            asked=memory.kv_cache_bytes,
            max_num_seqs=max_num_seqs,
            max_model_len=max_model_len,
            block=block.value,
        )
        options.append(cache)
        warnings += notes
    return options, warnings


def _device_warnings(device: DeviceFacts) -> list[str]:
    if device.kind == "cpu" and device.driver is not None:
        return [
            f"This machine has an NVIDIA GPU (driver {device.driver}), but the vLLM installed here is a CPU build, so "
            "the engine runs on the CPU. requirements/cuda.txt has the build for the GPU."
        ]
    if device.kind == "cuda" and device.count > 1:
        return [f"{device.count} GPUs are visible; one engine uses one of them."]
    return []
