"""The memory ladder: what an engine that ran out of memory is asked for less of, one rung at a time.

A rung halves: the sequences (with the planned memory for their keys and values), the budget of a step, the largest
graphs, then all graphs, then the memory for keys and values itself. Which comes first depends on where memory ran out.
A number that the user wrote is lowered like any other, and said to be: the alternative is no run at all.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from schemas.plan import EnginePlan, ModelFacts, PlannedOption
from tasks.engine.failure import Shortage
from tasks.plan.batch import kv_bytes_per_token

LEAST_BUDGET = 128
"""A smaller budget saves nothing worth the steps that it costs."""
LEAST_SHARE = 0.3
_SHARE_STEP = 0.1
_MIB = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Rung:
    """One step down. kind: which; plan: what is asked for now; text: the changed numbers, in words; lowered: numbers
    of the user's among them, in words."""

    kind: str
    plan: EnginePlan
    text: str
    lowered: list[str] = field(default_factory=list)


Changes = dict[str, Any]
"""New values by option."""
Step = Callable[[EnginePlan, ModelFacts, Shortage], Changes]


def step_down(
    plan: EnginePlan, *, model: ModelFacts, shortage: Shortage, taken: Sequence[str], while_: str
) -> Rung | None:
    """The next rung; None where there is nothing left that could be less, or that would help.

    taken: the kinds of the rungs so far. The next one goes on after the last of them, so that no size is halved twice
    before the others had their turn. while_: building or answering."""
    if shortage.where == "weights" or plan.value("prefill_policy") == "vllm":
        # Before the weights nothing else is allocated; and what was left to vLLM has no number to lower.
        return None
    order = _order(shortage)
    begin = order.index(taken[-1]) + 1 if taken and taken[-1] in order else 0
    for kind in (*order[begin:], *order[:begin]):
        changes = _STEPS[kind](plan, model, shortage)
        if changes:
            return _rung(kind, plan, changes, shortage=shortage, while_=while_)
    return None


def _order(shortage: Shortage) -> tuple[str, ...]:
    if shortage.kind == "busy":
        return ("share",)
    if shortage.kind == "kv" and shortage.free_share is None:
        # What is left for keys and values grows as everything else shrinks; a smaller share would leave less.
        return ("sequences", "budget", "fewer graphs", "no graphs")
    if shortage.where == "graphs":
        return ("fewer graphs", "no graphs", "sequences", "budget", "kv", "share")
    if shortage.where == "kv":
        return ("kv", "sequences", "budget", "fewer graphs", "no graphs", "share")
    return ("sequences", "budget", "fewer graphs", "no graphs", "kv", "share")


def _rung(kind: str, plan: EnginePlan, changes: Changes, *, shortage: Shortage, while_: str) -> Rung:
    options, said, lowered = [], [], []
    for planned in plan.options:
        if planned.option not in changes or changes[planned.option] == planned.value:
            options.append(planned)
            continue
        new = changes[planned.option]
        words = f"{planned.option} {_shown(planned.option, planned.value)} -> {_shown(planned.option, new)}"
        said.append(words)
        yours = planned.source == "user"
        if yours:
            lowered.append(
                f"{planned.option}: you set {_shown(planned.option, planned.value)}, the engine ran out of memory and "
                f"runs with {_shown(planned.option, new)}"
            )
        options.append(_lowered(planned, new, shortage=shortage, while_=while_, yours=yours))
    return Rung(kind=kind, plan=plan.model_copy(update={"options": options}), text=", ".join(said), lowered=lowered)


def _lowered(planned: PlannedOption, new: Any, *, shortage: Shortage, while_: str, yours: bool) -> PlannedOption:
    whose = "you set" if yours else "it was"
    return planned.model_copy(
        update={
            "value": new,
            "source": "plan",
            "reason": (
                f"The engine ran out of memory while {while_}; {whose} {_shown(planned.option, planned.value)}. "
                f"Before that: {planned.reason}"
            ),
            "evidence": f"{shortage.words}; {planned.evidence}",
        }
    )


def _shown(option: str, value: Any) -> str:
    if option == "kv_cache_memory_bytes" and isinstance(value, int):
        return f"{value / _MIB:,.0f} MiB"
    if isinstance(value, list):
        return f"{len(value)} sizes up to {max(value):,}" if value else "none"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _value(plan: EnginePlan, option: str) -> Any:
    return next((planned.value for planned in plan.options if planned.option == option), None)


def _sequences(plan: EnginePlan, model: ModelFacts, _: Shortage) -> Changes:
    now = plan.value("max_num_seqs")
    if now < 2:
        return {}
    changes: Changes = {"max_num_seqs": now // 2}
    sizes = _value(plan, "cudagraph_capture_sizes")
    if sizes:
        # No step that only answers has more tokens than sequences: larger graphs would never be replayed.
        changes["cudagraph_capture_sizes"] = [size for size in sizes if size <= max(now // 2, min(sizes))]
    cache = next((planned for planned in plan.options if planned.option == "kv_cache_memory_bytes"), None)
    if cache is not None and cache.source != "user" and isinstance(cache.value, int):
        changes["kv_cache_memory_bytes"] = max(cache.value // 2, min(cache.value, _least_kv(plan, model)))
    return changes


def _budget(plan: EnginePlan, _model: ModelFacts, _: Shortage) -> Changes:
    now = plan.value("max_num_batched_tokens")
    new = max(now // 2, plan.value("max_num_seqs"), LEAST_BUDGET)
    if new >= now:
        return {}
    changes: Changes = {"max_num_batched_tokens": new}
    if (_value(plan, "long_prefill_token_threshold") or 0) >= new:
        changes["long_prefill_token_threshold"] = 0  # at or above the budget it does nothing
    sizes = _value(plan, "cudagraph_capture_sizes")
    if sizes:
        changes["cudagraph_capture_sizes"] = [size for size in sizes if size <= new] or [min(sizes)]
    return changes


def _fewer_graphs(plan: EnginePlan, _model: ModelFacts, _: Shortage) -> Changes:
    sizes = _value(plan, "cudagraph_capture_sizes")
    if _value(plan, "cudagraph_mode") in (None, "none") or not sizes or len(sizes) < 2:
        return {}
    return {"cudagraph_capture_sizes": sorted(sizes)[: len(sizes) // 2]}


def _no_graphs(plan: EnginePlan, _model: ModelFacts, _: Shortage) -> Changes:
    if _value(plan, "cudagraph_mode") in (None, "none"):
        return {}
    return {"cudagraph_mode": "none", "cudagraph_capture_sizes": []}


def _kv(plan: EnginePlan, model: ModelFacts, shortage: Shortage) -> Changes:
    now = _value(plan, "kv_cache_memory_bytes")
    if not isinstance(now, int):
        return {}
    new = max(now // 2, _least_kv(plan, model))
    return {"kv_cache_memory_bytes": new} if new < now else {}


def _share(plan: EnginePlan, _model: ModelFacts, shortage: Shortage) -> Changes:
    now = _value(plan, "gpu_memory_utilization")
    if now is None or (shortage.kind == "kv"):
        return {}
    new = now - _SHARE_STEP
    if shortage.kind == "busy" and shortage.free_share is not None:
        new = min(new, shortage.free_share - 0.01)
    new = int(new * 100) / 100
    return {"gpu_memory_utilization": new} if new >= LEAST_SHARE else {}


def _least_kv(plan: EnginePlan, model: ModelFacts) -> int:
    """Bytes for one request of max_model_len and the block that vLLM keeps empty: less does not start."""
    block = int(plan.value("block_size"))
    blocks = -(-int(plan.value("max_model_len")) // block) + 1
    return blocks * block * kv_bytes_per_token(model=model, dtype=str(plan.value("dtype")))


_STEPS: dict[str, Step] = {
    "sequences": _sequences,
    "budget": _budget,
    "fewer graphs": _fewer_graphs,
    "no graphs": _no_graphs,
    "kv": _kv,
    "share": _share,
}
