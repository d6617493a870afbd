"""The token profile of one dataset under one arm."""

from pydantic import BaseModel, ConfigDict


class Bin(BaseModel):
    """Prompts of lo <= tokens < hi (the last bin includes hi)."""

    model_config = ConfigDict(frozen=True)
    lo: int
    hi: int
    n: int


class Profile(BaseModel):
    """Prompt lengths in tokens of the model's own tokenizer, after rendering (chat template, shots, BOS policy)."""

    model_config = ConfigDict(frozen=True)
    dataset: str
    arm: str
    n: int
    tokens_min: int
    tokens_mean: float
    tokens_p50: float
    tokens_p90: float
    tokens_p95: float
    tokens_p99: float
    tokens_max: int
    tokens_total: int
    chars_total: int
    output_budget: int
    """The most output tokens that any of these prompts may ask for."""
    shared_prefix_tokens: int
    """Length of the longest prefix that all prompts share."""
    duplicates: int
    """Prompts whose token ids equal an earlier one's."""
    over_limit: int
    """Prompts that, with their output budget, are longer than the model takes."""
    cut_tokens: int
    histogram: list[Bin]
    tokenizer_fingerprint: str
    tokenize_s: float
