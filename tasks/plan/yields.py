"""Whether long prompts yield: whether their threshold holds only while a short prompt waits to be read."""

from schemas.engine import Prefill
from schemas.errors import ConfigError
from schemas.plan import PlannedOption


def with_yields(prefill: Prefill, *, core: str) -> Prefill:
    """The same with `yields` said: `auto` is true with the policy `auto`, where vLLM's scheduler is within reach.

    core: where vLLM's core runs. Raises ConfigError where it was asked and cannot be."""
    if prefill.yields is True and core != "inprocess":
        raise ConfigError.one(
            "vLLM's core, and its scheduler with it, has a process of its own here, where the threshold cannot yield",
            key="engine.prefill.yields",
            suggestion="auto, or engine.core: inprocess and one device for an engine",
        )
    yields = core == "inprocess" and prefill.policy == "auto" if prefill.yields == "auto" else prefill.yields
    return prefill.model_copy(update={"yields": yields})


def plan_yields(*, prefill: Prefill, threshold: int, core: str) -> PlannedOption:
    """The option prefill_yields. prefill: as the user wrote it. threshold: the planned one; 0 is off."""
    yields = threshold > 0 and with_yields(prefill, core=core).yields is True
    if yields:
        reason = (
            "The threshold holds in the steps in which a short prompt waits to be read; in the others the long prompts "
            "have the whole budget."
        )
    elif threshold == 0:
        reason = "No long prompt is split, so there is nothing to yield."
    elif prefill.yields == "auto" and prefill.policy == "auto":
        reason = "vLLM's scheduler is in a process of its own, so the threshold holds in every step."
    else:
        reason = "The threshold holds in every step, as vLLM has it."
    return PlannedOption(
        option="prefill_yields",
        value=yields,
        default_value=False,
        reason=reason,
        evidence=f"threshold {threshold:,}; policy {prefill.policy}; vLLM's core {core}",
        source="plan" if prefill.yields == "auto" else "user",
        would_change="engine.prefill.yields; engine.core; a threshold of 0",
    )
