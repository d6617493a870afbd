"""Speculative decoding: which method, and how many tokens at once."""

from typing import Any

from schemas.errors import ConfigError
from schemas.plan import ModelFacts, PlannedOption
from schemas.speculative import LOOKUP, OWN_TOKENS, TOKENS, Speculative

_VLLM_NAMES = {"draft": "draft_model"}
"""vLLM's word for a method, where it is another."""
_SAYS = {
    "ngram": "what followed the same words before is tried again: it pays where answers copy from their prompts",
    "suffix": "what followed the same words in any answer so far is tried again",
    "draft": "a smaller model guesses",
    "eagle": "a head that was trained for this model guesses",
    "eagle3": "a head that was trained for this model guesses",
    "medusa": "heads that were trained for this model guess",
    "mtp": "the model's own heads guess",
}


def plan_speculative(*, asked: Speculative, model: ModelFacts, draft: ModelFacts | None) -> PlannedOption:
    """The option speculative: None, or a block of method, tokens, lookup, and the speculating model's folder and
    content.

    Raises ConfigError for a speculating model with another vocabulary than the model's."""
    if asked.method == "none":
        return PlannedOption(
            option="speculative",
            value=None,
            default_value=None,
            reason="Each step writes one token of each answer.",
            evidence="method none",
            source="default",
            would_change="engine.speculative.method",
        )
    value: dict[str, Any] = {"method": _VLLM_NAMES.get(asked.method, asked.method)}
    tokens = asked.tokens if asked.tokens is not None or asked.method in OWN_TOKENS else TOKENS
    if tokens is not None:
        value["tokens"] = tokens
    if asked.method == "ngram":
        value["lookup"] = list(asked.lookup or LOOKUP)
    evidence = f"method {asked.method}"
    if draft is not None:
        if asked.method == "draft" and draft.vocab_size != model.vocab_size:
            raise ConfigError.one(
                f"the model that guesses has a vocabulary of {draft.vocab_size:,} tokens, the model has "
                f"{model.vocab_size:,}: their tokens mean different things",
                key="engine.speculative.model",
                suggestion="a smaller model of the same family",
            )
        value |= {"model": draft.path, "fingerprint": draft.fingerprint}
        evidence += f"; {draft.weights_bytes:,} bytes of weights, {draft.fingerprint[:12]}"
    many = "as many tokens as the method takes" if tokens is None else f"{tokens} tokens"
    return PlannedOption(
        option="speculative",
        value=value,
        default_value=None,
        reason=f"You set {asked.method}: {many} are guessed a step and checked together; {_SAYS[asked.method]}.",
        evidence=evidence,
        source="user",
        would_change="engine.speculative",
    )
