"""What an ablation sets in place of each choice: what vLLM would do, or the nearest other value."""

from collections.abc import Callable, Sequence
from typing import Any

from schemas.engine import VllmEngine
from schemas.errors import ConfigError
from schemas.plan import EnginePlan
from tasks.config.nearest import did_you_mean_or_list
from tasks.config.yaml_file import parse_value

Alternatives = Callable[[VllmEngine, EnginePlan], list[Any]]


def _graphs(engine: VllmEngine, plan: EnginePlan) -> list[Any]:
    return [] if plan.value("cudagraph_mode") == "none" else ["none"]


def _compile(engine: VllmEngine, plan: EnginePlan) -> list[Any]:
    return ["full" if plan.value("compile") == "none" else "none"]


def _policies(engine: VllmEngine, plan: EnginePlan) -> list[Any]:
    return [policy for policy in ("off", "rule", "auto") if policy != engine.prefill.policy]


def _yields(engine: VllmEngine, plan: EnginePlan) -> list[Any]:
    return [not plan.value("prefill_yields")] if plan.value("long_prefill_token_threshold") else []


def _speculative(engine: VllmEngine, plan: EnginePlan) -> list[Any]:
    return [{"method": "ngram" if engine.speculative.method == "none" else "none"}]


def _caching(engine: VllmEngine, plan: EnginePlan) -> list[Any]:
    return [not engine.prefix_caching]


def _around(option: str) -> Alternatives:
    """Half and twice the planned number."""

    def values(engine: VllmEngine, plan: EnginePlan) -> list[Any]:
        now = int(plan.value(option))
        return [each for each in (now // 2, now * 2) if each]

    return values


def _own_block(engine: VllmEngine, plan: EnginePlan) -> list[Any]:
    planned = next(option for option in plan.options if option.option == "block_size")
    return [] if planned.value in (None, planned.default_value) else [planned.default_value]


def _core(engine: VllmEngine, plan: EnginePlan) -> list[Any]:
    return ["multiprocess" if plan.value("core") == "inprocess" else "inprocess"]


def _backend(engine: VllmEngine, plan: EnginePlan) -> list[Any]:
    return [backend for backend in ("xgrammar", "guidance") if backend != engine.grammar.backend]


def _whitespace(engine: VllmEngine, plan: EnginePlan) -> list[Any]:
    return [not engine.grammar.whitespace]


def _vllm(engine: VllmEngine, plan: EnginePlan) -> list[Any]:
    return [] if engine.choose == "vllm" else ["vllm"]


KNOWN: dict[str, Alternatives] = {
    "engine.cudagraph": _graphs,
    "engine.compile": _compile,
    "engine.prefill.policy": _policies,
    "engine.prefill.yields": _yields,
    "engine.speculative": _speculative,
    "engine.prefix_caching": _caching,
    "engine.max_num_seqs": _around("max_num_seqs"),
    "engine.max_num_batched_tokens": _around("max_num_batched_tokens"),
    "engine.memory.block_size": _own_block,
    "engine.core": _core,
    "engine.grammar.backend": _backend,
    "engine.grammar.whitespace": _whitespace,
    "engine.choose": _vllm,
}
"""By key: what it could be instead. `engine.choose`: everything that the plan chose is left to vLLM at once."""
USUAL = ("engine.cudagraph", "engine.compile", "engine.prefill.policy", "engine.prefix_caching", "engine.choose")
"""What `assay ablate` varies where it is not told."""


def factors(over: Sequence[str], *, engine: VllmEngine, plan: EnginePlan) -> list[dict[str, Any]]:
    """The settings of an ablation, one changed key each. over: keys, or `key=value|value`; none: the usual ones.

    Raises ConfigError for a key without known alternatives, or with none on this device."""
    found: list[dict[str, Any]] = []
    for each in over or USUAL:
        key, sign, written = each.partition("=")
        key = key.strip()
        if sign:
            values = [parse_value(value) for value in written.split("|")]
        elif key in KNOWN:
            values = KNOWN[key](engine, plan)
            if not values and over:
                raise ConfigError.one(
                    "there is nothing else that it could be here",
                    key=f"--over {key}",
                    suggestion=f"{key}=VALUE|VALUE for values of your own",
                )
        else:
            raise ConfigError.one(
                "has no alternatives that assay knows",
                key=f"--over {key}",
                suggestion=f"{key}=VALUE|VALUE, or {did_you_mean_or_list(key, KNOWN)}",
            )
        found += [{key: value} for value in values]
    return [each for at, each in enumerate(found) if each not in found[:at]]
