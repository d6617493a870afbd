"""How a model's rotary positions are stretched over a longer context."""

from typing import Any

from schemas.faults import nearest

SCALED_BY_VLLM = ("linear", "dynamic")
"""The kinds with which vLLM multiplies the model's limit by `factor`; with the others it takes the limit as it is."""
ROPE_TYPES = (*SCALED_BY_VLLM, "yarn", "longrope", "llama3")
_NEED_FACTOR = ("linear", "dynamic", "yarn", "llama3")


def check_rope(value: dict[str, Any]) -> dict[str, Any]:
    """The block itself. Raises ValueError for a kind that is not known, and a factor that does not stretch."""
    kind = value.get("rope_type")
    if kind is None:
        raise ValueError(f"`rope_type` is missing: {', '.join(ROPE_TYPES)}")
    if kind not in ROPE_TYPES:
        raise ValueError(f"`rope_type` cannot be `{kind!s:.60}` ({nearest(str(kind), ROPE_TYPES)})")
    factor = value.get("factor")
    if kind in _NEED_FACTOR and (isinstance(factor, bool) or not isinstance(factor, int | float) or factor <= 1):
        raise ValueError("`factor` must be a number above 1")
    original = value.get("original_max_position_embeddings")
    if original is not None and (isinstance(original, bool) or not isinstance(original, int) or original < 1):
        raise ValueError("`original_max_position_embeddings` must be a number of tokens")
    return value
