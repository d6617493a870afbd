"""Who makes the masks of guided answers: vLLM request by request, or the worker for a whole step."""

from schemas.engine import BATCHING_BACKENDS, Grammar
from schemas.errors import ConfigError
from schemas.plan import PlannedOption


def plan_masks(grammar: Grammar, *, core: str, guesses: bool) -> PlannedOption:
    """The option grammar_masks. core: where vLLM's core runs. guesses: whether tokens are guessed ahead.

    Raises ConfigError where `batched` was asked for and cannot be."""
    hindrance = None
    if core != "inprocess":
        hindrance = "vLLM's core, which makes the masks, is in a process of its own"
    elif guesses:
        hindrance = "each guessed token needs a mask that depends on the one before"
    elif grammar.backend not in BATCHING_BACKENDS:
        hindrance = f"{grammar.backend} makes one mask at a time"
    if grammar.masks == "batched" and hindrance is not None:
        raise ConfigError.one(f"no batches of masks: {hindrance}", key="engine.grammar.masks", suggestion="auto")
    batched = hindrance is None and grammar.masks != "vllm"
    if batched:
        reason = (
            "The masks of all guided answers of a step are made in a few calls, where vLLM makes one for each answer, "
            "from 129 answers on in threads that wait for one another."
        )
    else:
        reason = f"vLLM makes each mask itself: {hindrance or 'you asked for it'}."
    return PlannedOption(
        option="grammar_masks",
        value="batched" if batched else "vllm",
        default_value="vllm",
        reason=reason,
        evidence=f"backend {grammar.backend}; vLLM's core {core}; tokens guessed: {'yes' if guesses else 'no'}",
        source="plan" if grammar.masks == "auto" else "user",
        would_change="engine.grammar.masks; engine.core; engine.grammar.backend; engine.speculative",
    )
