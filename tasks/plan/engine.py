"""The whole plan: from the load, the model and the device to engine options, each with its reason."""

from schemas.engine import Memory, VllmEngine
from schemas.plan import DeviceFacts, EnginePlan, ModelFacts, PlannedLoad, PlannedOption, Prediction
from tasks.plan.adapters import plan_adapters
from tasks.plan.batch import (
    plan_block_size,
    plan_gpu_share,
    plan_kv_cache_bytes,
    plan_max_num_batched_tokens,
    plan_max_num_seqs,
)
from tasks.plan.context import plan_overrides
from tasks.plan.estimate import EarlierRun, estimate
from tasks.plan.graphs import plan_capture_sizes, plan_compile, plan_cudagraph_mode
from tasks.plan.host import plan_core, plan_cores, plan_dtype, plan_grammar, plan_prefix_caching
from tasks.plan.kernels import plan_attention, plan_compile_cache, plan_rest, plan_switches
from tasks.plan.left import left_to_vllm
from tasks.plan.lengths import plan_max_model_len
from tasks.plan.load_format import plan_load_format
from tasks.plan.masks import plan_masks
from tasks.plan.on_disk import OnDisk
from tasks.plan.parallel import of_all_copies, part_of_device, plan_parallel, share_of_copy
from tasks.plan.predict import kv_room_tokens, predict
from tasks.plan.prefill import plan_prefill
from tasks.plan.speculative import plan_speculative
from tasks.plan.weights import kv_dtype_of, plan_cpu_offload, plan_kv_dtype, plan_quantization
from tasks.plan.yields import plan_yields, with_yields


def plan_engine(
    *,
    load: PlannedLoad,
    model: ModelFacts,
    device: DeviceFacts,
    engine: VllmEngine,
    dtype: str,
    earlier: EarlierRun | None,
    on_disk: OnDisk | None = None,
) -> EnginePlan:
    """Every engine option with its value, vLLM's own, the reason and the evidence; the estimate; and warnings.

    On a CPU the options kv_cache_memory_bytes and cores are among them, on a GPU gpu_memory_utilization (and
    kv_cache_memory_bytes only if the user set it). model: its facts as overridden (see `as_overridden`). on_disk: what
    was read of adapters, a speculating model and the model's config; None: none of them is used. Raises ConfigError for
    an empty load, a request that does not fit, and what vLLM would refuse, or silently leave out, on this device.
    """
    beside = OnDisk() if on_disk is None else on_disk
    warnings: list[str] = []
    parallel = plan_parallel(engine.parallel, device=device)
    copies = engine.parallel.data
    own_load, own_device = share_of_copy(load, device, copies=copies)
    chosen_dtype, notes = plan_dtype(model=model, device=device, asked=dtype)
    warnings += notes
    load_format, notes = plan_load_format(model)
    warnings += notes
    quantization, notes = plan_quantization(
        asked=engine.quantization, config=beside.config, device=device, dtype=chosen_dtype.value
    )
    warnings += notes
    overrides, notes = plan_overrides(engine=engine, model=model, config=beside.config)
    warnings += notes

    max_model_len = plan_max_model_len(load=load, model=model, asked=engine.max_model_len)
    max_num_seqs = plan_max_num_seqs(requests=len(own_load.prompt_tokens), device=device, asked=engine.max_num_seqs)
    budget = plan_max_num_batched_tokens(
        prompt_tokens=load.prompt_tokens,
        device=device,
        asked=engine.max_num_batched_tokens,
        max_num_seqs=max_num_seqs.value,
        max_model_len=max_model_len.value,
    )

    core = plan_core(device=device, asked=engine.core, parallel=engine.parallel)
    part = part_of_device(model, engine.parallel)
    memory, notes = _plan_memory(
        load=own_load,
        model=part,
        device=own_device,
        memory=engine.memory,
        dtype=chosen_dtype.value,
        max_num_seqs=max_num_seqs.value,
        max_model_len=max_model_len.value,
        prefix_caching=engine.prefix_caching,
    )
    warnings += notes
    budget, *prefill = plan_prefill(
        prompt_tokens=load.prompt_tokens,
        prefill=with_yields(engine.prefill, core=core.value),
        budget=budget,
        max_model_len=max_model_len.value,
        max_num_seqs=max_num_seqs.value,
        kv_tokens=kv_room_tokens(memory, model=part, device=own_device, dtype=chosen_dtype.value),
        model=model,
        device=device,
    )
    prefill.append(plan_yields(prefill=engine.prefill, threshold=prefill[0].value, core=core.value))

    compiled = plan_compile(device=device, asked=engine.compile)
    mode, notes = plan_cudagraph_mode(device=device, asked=engine.cudagraph.mode, compiled=compiled.value)
    warnings += notes
    speculative = plan_speculative(asked=engine.speculative, model=model, draft=beside.draft)
    sizes, notes = plan_capture_sizes(
        mode=mode.value,
        guessed=int((speculative.value or {}).get("tokens") or 0),
        asked=engine.cudagraph.sizes,
        max_num_seqs=max_num_seqs.value,
        token_budget=budget.value,
    )
    warnings += notes

    grammar, notes = plan_grammar(engine.grammar)
    warnings += notes
    grammar.append(plan_masks(engine.grammar, core=core.value, guesses=bool(speculative.value)))
    warnings += _device_warnings(device, used=engine.parallel.tensor * engine.parallel.pipeline * copies)

    options = [
        chosen_dtype,
        load_format,
        quantization,
        max_model_len,
        max_num_seqs,
        budget,
        *prefill,
        plan_prefix_caching(asked=engine.prefix_caching, prompts=len(load.prompt_tokens)),
        mode,
        sizes,
        compiled,
        plan_compile_cache(engine=engine, folder=beside.compile_cache, compiled=compiled.value),
        *memory,
        plan_attention(asked=engine.attention_backend, device=device),
        *grammar,
        *plan_adapters(beside.adapters, device=device),
        speculative,
        *parallel,
        core,
        overrides,
        *plan_switches(engine, device=device),
        *plan_rest(engine),
    ]
    if device.kind == "cpu":
        options.append(plan_cores(device))
    prediction: Prediction | None
    prediction, notes = predict(options, load=own_load, model=model, device=own_device)
    warnings += notes
    time = estimate(load=own_load, model=model, device=own_device, earlier=earlier if copies == 1 else None)
    if engine.choose == "vllm":
        options, prediction = left_to_vllm(options, engine=engine, model=model, device=device), None
    return EnginePlan(
        options=options,
        estimate=time if copies == 1 else of_all_copies(time, load=load, copies=copies),
        warnings=warnings,
        prediction=prediction,
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
    kv_dtype = plan_kv_dtype(asked=memory.kv_dtype, device=device, dtype=dtype, head_dim=model.head_dim)
    offload, warnings = plan_cpu_offload(asked=memory.cpu_offload_gb, device=device)
    options: list[PlannedOption] = [block, kv_dtype, offload]
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
            dtype=kv_dtype_of(kv_dtype.value, dtype=dtype),
            asked=memory.kv_cache_bytes,
            max_num_seqs=max_num_seqs,
            max_model_len=max_model_len,
            block=block.value,
        )
        options.append(cache)
        warnings += notes
    return options, warnings


def _device_warnings(device: DeviceFacts, *, used: int) -> list[str]:
    if device.kind == "cpu" and device.driver is not None:
        return [
            f"This machine has an NVIDIA GPU (driver {device.driver}), but the vLLM installed here is a CPU build, so "
            "the engine runs on the CPU. requirements/cuda.txt has the build for the GPU."
        ]
    if device.kind == "cuda" and device.count > used:
        takes = "one of them is used" if used == 1 else f"{used} of them are used"
        return [f"{device.count} GPUs are visible; {takes} (`engine.parallel`)."]
    return []
