"""The model's config with other values: a longer context by RoPE, and any other key."""

from collections.abc import Mapping
from typing import Any

from schemas.engine import VllmEngine
from schemas.errors import ConfigError
from schemas.plan import ModelFacts, PlannedOption
from schemas.rope import SCALED_BY_VLLM
from tasks.config.nearest import nearest

_FACTS = {
    "max_position_embeddings": "max_position_embeddings",
    "num_hidden_layers": "layers",
    "num_key_value_heads": "kv_heads",
    "head_dim": "head_dim",
    "hidden_size": "hidden_size",
    "vocab_size": "vocab_size",
}
"""The plan's name for a key of config.json."""


def as_overridden(model: ModelFacts, engine: VllmEngine) -> ModelFacts:
    """The model's facts as the engine will have them, with `hf_overrides` and `rope_scaling` in them."""
    changes: dict[str, Any] = {
        _FACTS[key]: value
        for key, value in engine.hf_overrides.items()
        if key in _FACTS and isinstance(value, int) and not isinstance(value, bool)
    }
    rope = engine.rope_scaling
    if rope is not None:
        own = changes.get("max_position_embeddings", model.max_position_embeddings)
        changes["max_position_embeddings"] = _limit(rope, own=own)
    return model.model_copy(update=changes) if changes else model


def _limit(rope: Mapping[str, Any], *, own: int) -> int:
    """Tokens of context. own: the model's limit without the scaling."""
    if "factor" not in rope or rope["rope_type"] in ("llama3", "longrope"):
        return own
    return int(rope.get("original_max_position_embeddings", own) * rope["factor"])


def plan_overrides(
    *, engine: VllmEngine, model: ModelFacts, config: Mapping[str, Any]
) -> tuple[PlannedOption, list[str]]:
    """The option hf_overrides: the keys of config.json that vLLM is to read otherwise, those of RoPE among them.

    model: its facts as overridden. config: config.json. Raises ConfigError for a key that looks like a misspelt one."""
    warnings: list[str] = []
    for key in engine.hf_overrides:
        if not config or key in config:
            continue
        meant = nearest(key, config)
        if meant is not None:
            raise ConfigError.one(
                f"the model's config.json has no key `{key}`",
                key=f"engine.hf_overrides.{key}",
                suggestion=f"did you mean `{meant}`?",
            )
        warnings.append(f"engine.hf_overrides: the model's config.json has no key `{key}`; it may have no effect.")
    value = dict(engine.hf_overrides)
    reasons = [f"You set {', '.join(value)} in place of the model's own."] if value else []
    rope = engine.rope_scaling
    if rope is not None:
        value["rope_parameters"] = _theta(config) | rope
        if rope["rope_type"] not in SCALED_BY_VLLM:
            # vLLM takes the model's limit to be scaled already.
            value["max_position_embeddings"] = model.max_position_embeddings
        reasons.append(
            f"You scale RoPE ({rope['rope_type']}), so that the model takes {model.max_position_embeddings:,} tokens."
        )
    option = PlannedOption(
        option="hf_overrides",
        value=value,
        default_value={},
        reason=" ".join(reasons) or "The model's config is read as it is.",
        evidence=f"the model's limit {model.max_position_embeddings:,} tokens",
        source="user" if value else "default",
        would_change="engine.rope_scaling, engine.hf_overrides",
    )
    return option, warnings


def _theta(config: Mapping[str, Any]) -> dict[str, Any]:
    """The base of the model's RoPE: a block that replaces the model's own must hold it too."""
    own = config.get("rope_parameters")
    theta = config.get("rope_theta") or (own.get("rope_theta") if isinstance(own, dict) else None)
    return {} if theta is None else {"rope_theta": theta}
