"""How many requests run at once, how many tokens one step takes, and the memory for keys and values."""

import heapq

from schemas.errors import ConfigError
from schemas.plan import DeviceFacts, ModelFacts, PlannedLoad, PlannedOption
from tasks.plan.lengths import request_tokens
from tasks.plan.vllm_defaults import (
    BLOCK_TOKENS,
    GIB,
    GPU_MEMORY_UTILIZATION,
    default_max_num_batched_tokens,
    default_max_num_seqs,
)

CPU_BLOCK_TOKENS = 32
"""The smallest that vLLM's CPU attention takes."""
DTYPE_BYTES = {"bfloat16": 2, "float16": 2, "float32": 4}
KV_BYTES = {**DTYPE_BYTES, "fp8": 1, "fp8_e4m3": 1, "fp8_e5m2": 1, "fp8_inc": 1}
"""Bytes of one number of keys and values. A format that is not here counts as 2: room for more than there is."""
KV_SHARE_OF_MEMORY = 0.5
"""Of what the weights leave of a CPU's available memory."""
KV_CEILING_BYTES = 2 * GIB
LIKELY_PREEMPTION = 0.9
"""Warned of where the average running set, every answer at full length, has room for fewer than this share of it."""
MIB = 1 << 20


def plan_max_num_seqs(*, requests: int, device: DeviceFacts, asked: int | str) -> PlannedOption:
    """`asked` if it is a number; for `auto` vLLM's own number, or the number of requests where there are fewer."""
    default = default_max_num_seqs(device)
    if isinstance(asked, int):
        value, source = asked, "user"
        reason = f"You set {asked:,} requests at once; this run has {requests:,}."
    else:
        value, source = min(default, requests), "plan"
        reason = (
            f"This run has {requests:,} requests, not more than vLLM's own {default:,}: all of them may run at once."
            if requests <= default
            else f"vLLM's own number for this device, {default:,}, of this run's {requests:,} requests; the rest wait."
        )
    return PlannedOption(
        option="max_num_seqs",
        value=value,
        default_value=default,
        reason=reason,
        evidence=f"requests {requests:,}; device {device.kind}",
        source=source,
        would_change=f"engine.max_num_seqs; auto would choose {min(default, requests):,}"
        if source == "user"
        else f"another number of requests, up to {default:,}; another device; engine.max_num_seqs",
    )


def plan_max_num_batched_tokens(
    *, prompt_tokens: list[int], device: DeviceFacts, asked: int | str, max_num_seqs: int, max_model_len: int
) -> PlannedOption:
    """`asked` if it is a number; for `auto` vLLM's own budget for the device, held between one token a request and
    what all running requests could use.

    A longer prompt does not raise it: one step over a whole long prompt makes every other request wait for it.
    Raises ConfigError for a number below max_num_seqs, which vLLM refuses.
    """
    default = default_max_num_batched_tokens(device)
    longest = max(prompt_tokens)
    if isinstance(asked, int):
        if asked < max_num_seqs:
            raise ConfigError.one(
                f"a budget of {asked:,} tokens a step is less than one for each of {max_num_seqs:,} requests at once",
                key="engine.max_num_batched_tokens",
                suggestion=f"at least {max_num_seqs}, or a smaller engine.max_num_seqs",
            )
        value, source = asked, "user"
        own = max(min(default, max_num_seqs * max_model_len), max_num_seqs)
        would_change = f"engine.max_num_batched_tokens; auto would choose {own:,}"
        steps = -(-longest // asked)
        reason = f"You set {asked:,} tokens a step; the longest prompt, {longest:,} tokens, takes {steps:,} of them."
    else:
        most = max_num_seqs * max_model_len
        value, source = max(min(default, most), max_num_seqs), "plan"
        would_change = (
            f"more than {default:,} requests at once, or fewer and shorter ones than fill it; with "
            "engine.prefill.policy: auto, long prompts whose pieces would fill it; another device; "
            "engine.max_num_batched_tokens"
        )
        if value < default:
            reason = (
                f"{max_num_seqs:,} requests of at most {max_model_len:,} tokens can never fill more than {value:,}."
            )
        elif value > default:
            reason = f"Each of {max_num_seqs:,} requests at once needs a token a step, more than vLLM's {default:,}."
        elif longest <= value:
            reason = f"vLLM's own number; the longest prompt, {longest:,} tokens, fits into one step of {value:,}."
        else:
            steps = -(-longest // value)
            reason = (
                f"vLLM's own number. The longest prompt, {longest:,} tokens, is read in {steps:,} steps; a budget that "
                "held it whole would let every other request wait for that one step."
            )
    return PlannedOption(
        option="max_num_batched_tokens",
        value=value,
        default_value=default,
        reason=reason,
        evidence=f"longest prompt {longest:,}; sequences {max_num_seqs:,}; max_model_len {max_model_len:,}",
        source=source,
        would_change=would_change,
    )


def plan_block_size(*, device: DeviceFacts, prefix_caching: bool, asked: int | str) -> PlannedOption:
    """The option block_size: tokens of one block of the KV cache, the unit in which prefixes are found again.

    Raises ConfigError for a number that the CPU's attention does not take."""
    own = BLOCK_TOKENS[device.kind]
    evidence = f"device {device.kind}, vLLM's own {own}"
    if isinstance(asked, int):
        if device.kind == "cpu" and asked % CPU_BLOCK_TOKENS:
            raise ConfigError.one(
                f"a CPU takes blocks of a multiple of {CPU_BLOCK_TOKENS} tokens, not {asked}",
                key="engine.memory.block_size",
                suggestion=f"{-(-asked // CPU_BLOCK_TOKENS) * CPU_BLOCK_TOKENS}, or auto",
            )
        value, source, reason = asked, "user", f"You asked for blocks of {asked} tokens."
    elif device.kind == "cpu" and prefix_caching:
        value, source = CPU_BLOCK_TOKENS, "plan"
        reason = (
            f"A prefix is found again in whole blocks. In blocks of {own} tokens, vLLM's own on a CPU, a short one is "
            f"never found; {CPU_BLOCK_TOKENS} is the least that its attention takes."
        )
    else:
        value, source, reason = own, "default", "vLLM's own."
    return PlannedOption(
        option="block_size",
        value=value,
        default_value=own,
        reason=reason,
        evidence=evidence,
        source=source,
        would_change="engine.memory.block_size"
        + (f"; engine.prefix_caching: false gives vLLM's own {own}" if source == "plan" else ""),
    )


def kv_bytes_per_token(*, model: ModelFacts, dtype: str) -> int:
    """Bytes that one token's keys and values take: 2 x layers x key-value heads x head dimension x bytes a number."""
    return 2 * model.layers * model.kv_heads * model.head_dim * KV_BYTES.get(dtype, 2)


def _blocks(tokens: int, *, block: int) -> int:
    return -(-tokens // block)


def plan_kv_cache_bytes(
    *,
    load: PlannedLoad,
    model: ModelFacts,
    device: DeviceFacts,
    dtype: str,
    asked: int | str,
    max_num_seqs: int,
    max_model_len: int,
    block: int,
) -> tuple[PlannedOption, list[str]]:
    """The option kv_cache_memory_bytes, with warnings. block: tokens of one block.

    For `auto`: blocks for the largest max_num_seqs requests with their whole answers, for one more of the longest and
    for the one block that vLLM keeps empty; at least one request of max_model_len, at most half of the memory that
    the weights leave and 2 GiB. Warned of: less than the average running set needs (vLLM then preempts), or more than
    the machine has. Raises ConfigError for a number that does not hold one request of max_model_len.
    """
    block_bytes = kv_bytes_per_token(model=model, dtype=dtype) * block
    request_blocks = [_blocks(tokens, block=block) for tokens in request_tokens(load)]
    running = min(max_num_seqs, len(request_blocks))
    need_blocks = sum(heapq.nlargest(running, request_blocks)) + max(request_blocks) + 1
    least_blocks = _blocks(max_model_len, block=block) + 1
    left = max(0, device.memory_bytes - model.weights_bytes)
    ceiling = min(int(left * KV_SHARE_OF_MEMORY), KV_CEILING_BYTES)

    if isinstance(asked, int):
        if asked < least_blocks * block_bytes:
            raise ConfigError.one(
                f"{asked:,} bytes do not hold one request of max_model_len {max_model_len:,}, "
                f"which takes {least_blocks * block_bytes:,}",
                key="engine.memory.kv_cache_bytes",
                suggestion=f"at least {least_blocks * block_bytes}, or auto",
            )
        value, source = asked, "user"
        reason = f"You set {asked / MIB:,.0f} MiB."
    else:
        value = max(min(need_blocks, ceiling // block_bytes), least_blocks) * block_bytes
        source = "plan"
        need = (
            f"The {running:,} largest requests at once and one more can need {need_blocks * block_bytes / MIB:,.0f} MiB"
        )
        if value == need_blocks * block_bytes:
            reason = f"{need}. The engine fills this memory with zeros before it starts, so no more than that is taken."
        elif value > ceiling:
            reason = (
                f"{value / MIB:,.0f} MiB is what one request of {max_model_len:,} tokens takes; less would not start."
            )
        elif value > need_blocks * block_bytes:
            reason = (
                f"{need}, but vLLM asks for room for one request of {max_model_len:,} tokens: {value / MIB:,.0f} MiB."
            )
        else:
            reason = (
                f"{need}; {value / MIB:,.0f} MiB is the most that is taken ({KV_SHARE_OF_MEMORY:.0%} of what the "
                f"weights leave, at most {KV_CEILING_BYTES / GIB:.0f} GiB), because the engine fills it with zeros "
                "before it starts."
            )
    warnings = []
    mean_blocks = sum(request_blocks) / len(request_blocks)
    fit = int((value // block_bytes - 1) / mean_blocks)
    if fit < running * LIKELY_PREEMPTION:
        warnings.append(
            f"The memory for keys and values holds about {fit:,} of {running:,} requests at once when all answer at "
            "full length: vLLM may have to stop some and read them again. A smaller engine.max_num_seqs or a larger "
            "engine.memory.kv_cache_bytes avoids it."
        )
    if value > left:
        warnings.append(
            f"Keys and values need {value / GIB:.2f} GiB and the weights {model.weights_bytes / GIB:.2f} GiB, but only "
            f"{device.memory_bytes / GIB:.2f} GiB of memory is available: the engine will probably not start."
        )
    option = PlannedOption(
        option="kv_cache_memory_bytes",
        value=value,
        default_value=None,
        reason=reason,
        evidence=(
            f"{kv_bytes_per_token(model=model, dtype=dtype):,} bytes a token ({model.layers} layers, {model.kv_heads} "
            f"key-value heads of {model.head_dim}, {dtype}); blocks of {block}; running set {need_blocks:,} blocks; "
            f"one request of max_model_len {least_blocks:,}; memory available {device.memory_bytes / GIB:.1f} GiB"
        ),
        source=source,
        would_change="longer requests or more at once (engine.max_num_seqs), less or more free memory; "
        "engine.memory.kv_dtype, engine.memory.kv_cache_bytes",
    )
    return option, warnings


def plan_gpu_share(
    *, model: ModelFacts, device: DeviceFacts, share: float, default_share: float
) -> tuple[PlannedOption, list[str]]:
    """The option gpu_memory_utilization (a share of one GPU's memory), with a warning if the weights do not fit it."""
    taken = share * device.memory_bytes
    reason = (
        f"vLLM takes {share:.0%} of the GPU's {device.memory_bytes / GIB:.1f} GiB: {model.weights_bytes / GIB:.1f} GiB "
        f"for the weights, most of the rest for keys and values. What is left serves CUDA itself and other programs."
    )
    warnings = []
    if model.weights_bytes > taken:
        warnings.append(
            f"The weights ({model.weights_bytes / GIB:.1f} GiB) are larger than the {taken / GIB:.1f} GiB that the "
            "engine may take of the GPU: it will not start."
        )
    option = PlannedOption(
        option="gpu_memory_utilization",
        value=share,
        default_value=GPU_MEMORY_UTILIZATION,
        reason=reason,
        evidence=f"{device.name}, {device.memory_bytes:,} bytes; weights {model.weights_bytes:,} bytes",
        source="default" if share == default_share else "user",
        would_change="engine.memory.gpu_share",
    )
    return option, warnings
