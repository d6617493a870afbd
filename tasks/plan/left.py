"""`engine.choose: vllm`: what the plan would choose is left to vLLM, as a control for the plan."""

from collections.abc import Sequence

from schemas.engine import VllmEngine
from schemas.plan import DeviceFacts, ModelFacts, PlannedOption
from tasks.plan.batch import kv_bytes_per_token
from tasks.plan.vllm_defaults import BLOCK_TOKENS

_LEFT = frozenset(
    {
        *("max_model_len", "max_num_batched_tokens", "max_num_seqs", "long_prefill_token_threshold"),
        *("block_size", "cudagraph_mode", "cudagraph_capture_sizes", "compile"),
        *("gpu_memory_utilization", "kv_cache_memory_bytes", "enable_prefix_caching"),
    }
)
_REASON = "Left to vLLM (`choose: vllm`)."


def left_to_vllm(
    options: Sequence[PlannedOption], *, engine: VllmEngine, model: ModelFacts, device: DeviceFacts
) -> list[PlannedOption]:
    """The options without a value for all that the user did not set; the engine says what became of them. vLLM's core
    then runs where vLLM has it, in a process of its own.

    What changes answers, or is nothing to speed, stays as planned: the number format, the grammar's backend, cores. So
    does the memory for keys and values on a CPU, enough for a request of the model's own length: vLLM would take nearly
    all of the host's, and start only where nothing else runs."""
    asked = {"enable_prefix_caching"} if "prefix_caching" in engine.model_fields_set else set()
    left = []
    for option in options:
        if option.source == "user" or option.option in asked:
            left.append(option)
        elif option.option == "kv_cache_memory_bytes" and device.kind == "cpu":
            left.append(_enough(option, model=model, dtype=str(options[0].value)))
        else:
            left.append(_left(option))
    return left


def _enough(option: PlannedOption, *, model: ModelFacts, dtype: str) -> PlannedOption:
    block = BLOCK_TOKENS["cpu"]
    blocks = -(-model.max_position_embeddings // block) + 2
    least = blocks * block * kv_bytes_per_token(model=model, dtype=dtype)
    if option.value >= least:
        return option
    reason = f"Enough for one request of the model's own {model.max_position_embeddings:,} tokens, which vLLM asks for."
    return option.model_copy(update={"value": least, "reason": reason})


def _left(option: PlannedOption) -> PlannedOption:
    if option.option == "prefill_policy":
        value = "vllm"
    elif option.option == "prefill_yields":
        value = False
    elif option.option in ("core", "grammar_masks"):
        value = option.default_value
    elif option.option in _LEFT:
        value = None
    else:
        return option
    told = {"value": value, "reason": _REASON, "evidence": "", "source": "default"}
    return option.model_copy(update=told | {"would_change": "engine.choose: plan, or a value of your own"})
