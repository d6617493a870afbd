"""LoRA adapters: which, how many at once, and of what rank."""

from collections.abc import Iterable, Sequence

from schemas.adapter import AdapterFacts
from schemas.errors import ConfigError
from schemas.plan import DeviceFacts, PlannedOption
from schemas.sample import Request

RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""The largest ranks that vLLM makes room for."""
MOST_AT_ONCE = 16
"""Adapters in one batch; each takes memory on the device."""
_HEAD = "lm_head"


def plan_adapters(adapters: Sequence[AdapterFacts], *, device: DeviceFacts) -> list[PlannedOption]:
    """The options adapters, max_loras and max_lora_rank. Raises ConfigError for a rank that vLLM has no room for.

    On a CPU each adapter has a place of its own and one stays empty: vLLM gives a request without an adapter, where it
    is in a batch with others, whatever lies in the last place (its pull request 48421)."""
    listed = [
        {
            "name": each.name,
            "path": each.path,
            "fingerprint": each.fingerprint,
            "rank": each.rank,
            "modules": each.modules,
        }
        for each in adapters
    ]
    if not adapters:
        return [_option("adapters", [], [], "No adapters: the model answers as it is.", "adapters 0")]
    largest = max(adapters, key=lambda each: each.rank)
    rank = next((room for room in RANKS if room >= largest.rank), None)
    if rank is None:
        raise ConfigError.one(
            f"the adapter `{largest.name}` has rank {largest.rank}, and vLLM takes {RANKS[-1]} at most",
            key="engine.adapters",
        )
    names = ", ".join(each.name for each in adapters)
    evidence = "; ".join(
        f"{each.name}: rank {each.rank} on {', '.join(each.modules)}, {each.fingerprint[:12]}" for each in adapters
    )
    at_once = len(adapters) + 1 if device.kind == "cpu" else min(len(adapters), MOST_AT_ONCE)
    places = (
        f"A place for each of {len(adapters)} adapters, and an empty one: vLLM on a CPU would have a request without "
        "an adapter answered by the last one."
        if device.kind == "cpu"
        else f"{at_once} of {len(adapters)} adapters may answer in one batch."
    )
    return [
        _option(
            "adapters",
            listed,
            [],
            f"You load {names} beside the model; the `adapter` of an arm or a dataset chooses one.",
            evidence,
        ),
        _option("max_loras", at_once, 1, places, evidence, "plan"),
        _option(
            "max_lora_rank",
            rank,
            16,
            f"The least room that vLLM has for rank {largest.rank}, the largest.",
            evidence,
            "plan",
        ),
    ]


def check_likelihoods(adapters: Sequence[AdapterFacts], *, requests: Iterable[Request]) -> None:
    """Raises ConfigError where log-likelihoods are asked of an engine with an adapter that changes the output layer:
    vLLM finds the prompt's log-probabilities without the adapters' part of it, and on a CPU it dies of them."""
    heads = [each.name for each in adapters if _HEAD in each.modules]
    asked = next((each.dataset for each in requests if each.kind == "loglikelihood"), None)
    if heads and asked is not None:
        raise ConfigError.one(
            f"`{asked}` needs log-likelihoods, which vLLM does not give with an adapter that changes {_HEAD} "
            f"({', '.join(heads)})",
            key="engine.adapters",
            suggestion=f"leave `{asked}` out of this experiment, or the adapter",
        )


def _option(
    name: str, value: object, default: object, reason: str, evidence: str, source: str = "user"
) -> PlannedOption:
    return PlannedOption(
        option=name,
        value=value,
        default_value=default,
        reason=reason,
        evidence=evidence,
        source="default" if value == [] else source,
        would_change="engine.adapters",
    )
