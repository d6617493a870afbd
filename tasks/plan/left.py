"""`engine.choose: vllm`: what the plan would choose is left to vLLM, as a control for the plan."""

from collections.abc import Sequence

from schemas.engine import VllmEngine
from schemas.plan import PlannedOption

_LEFT = frozenset(
    {
        *("max_model_len", "max_num_batched_tokens", "max_num_seqs", "long_prefill_token_threshold"),
        *("block_size", "cudagraph_mode", "cudagraph_capture_sizes", "compile"),
        *("gpu_memory_utilization", "kv_cache_memory_bytes", "enable_prefix_caching"),
    }
)
_REASON = "Left to vLLM (`choose: vllm`)."


def left_to_vllm(options: Sequence[PlannedOption], *, engine: VllmEngine) -> list[PlannedOption]:
    """The options without a value for all that the user did not set; the engine says what became of them. vLLM's core
    then runs where vLLM has it, in a process of its own.

    What changes answers, or is nothing to speed, stays as planned: the number format, the grammar's backend, cores."""
    asked = {"enable_prefix_caching"} if "prefix_caching" in engine.model_fields_set else set()
    return [option if option.source == "user" or option.option in asked else _left(option) for option in options]


def _left(option: PlannedOption) -> PlannedOption:
    if option.option == "prefill_policy":
        value = "vllm"
    elif option.option == "core":
        value = option.default_value
    elif option.option in _LEFT:
        value = None
    else:
        return option
    told = {"value": value, "reason": _REASON, "evidence": "", "source": "default"}
    return option.model_copy(update=told | {"would_change": "engine.choose: plan, or a value of your own"})
