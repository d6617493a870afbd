"""The plan: every engine option with its value and the reason for it."""

from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict


class Facts(BaseModel):
    model_config = ConfigDict(frozen=True)


class ModelFacts(Facts):
    """What a model folder says of itself. Read from config.json and the weights, without loading them."""

    path: str
    architecture: str
    max_position_embeddings: int
    layers: int
    kv_heads: int
    head_dim: int
    hidden_size: int
    vocab_size: int
    dtype: str
    """The format that the weights are stored in: bfloat16, float16 or float32."""
    weights_bytes: int
    fingerprint: str
    """sha256 over the weights, the config and the tokenizer."""
    eos_token_ids: list[int]
    bos_token_id: int | None
    intermediate_size: int | None = None
    """The width of a layer's MLP; None where the config does not say it."""
    dummy: bool = False
    """Whether there are no weights, and the engine makes some up."""


class DeviceFacts(Facts):
    """The machine as the engine will see it."""

    kind: Literal["cpu", "cuda"]
    name: str
    count: int
    memory_bytes: int
    """Of one device; on a CPU, the memory available now."""
    cores: list[int]
    """The cores that this process may use, by number."""
    cpu_quota: float | None
    """Cores' worth of time that a cgroup allows; None without a limit."""
    cpu_flags: list[str]
    driver: str | None
    compute_capability: str | None


class PlannedOption(Facts):
    """One engine option. `source`: the user wrote it, the plan chose it, or it is the default."""

    option: str
    value: Any
    default_value: Any
    reason: str
    evidence: str
    source: Literal["user", "plan", "default"]
    would_change: str = ""
    """What would lead to another value: a figure of the profile, the model or the device, or a key in the YAML."""


class Prediction(Facts):
    """What the engine will take of one device's memory, said before anything is loaded. Bytes; None where it is not
    known, or there is none."""

    weights_bytes: int
    """The weights in the format that they are computed in."""
    kv_need_tokens: int
    """Tokens of the largest requests that run at once, with their whole answers, in whole blocks."""
    kv_need_bytes: int
    kv_bytes: int
    """What the cache of keys and values gets: on a CPU what the plan sets, on a GPU what the rest leaves."""
    activation_bytes: int
    """The most that one step of the engine holds beside weights and cache."""
    graph_bytes: int | None
    """Recorded CUDA graphs; an estimate. None without graphs."""
    other_bytes: int
    """The process itself: Python, torch and vLLM, on a GPU CUDA's own."""
    total_bytes: int
    available_bytes: int
    """What the engine may take: on a CPU the memory available now, on a GPU its share of the memory."""
    fits: bool
    basis: dict[str, str]
    """How each number was found, in words, by its name."""


class Estimate(Facts):
    """What the run will ask of the engine, and how long that takes on a machine like this one."""

    requests: int
    prompt_tokens: int
    output_tokens_max: int
    start_s: float | None
    """None, as `generate_s`, where nothing tells it: of a server."""
    generate_s: float | None
    basis: str
    """What the times rest on: an earlier run's rate, or the table of measured rates."""


class EnginePlan(Facts):
    """Everything the worker needs to build the engine, and why."""

    options: list[PlannedOption]
    estimate: Estimate
    warnings: list[str]
    prediction: Prediction | None = None
    """None in a plan that was written before there was one."""

    def value(self, option: str) -> Any:
        """The value of one option. Raises KeyError for a name that the plan does not have."""
        for planned in self.options:
            if planned.option == option:
                return planned.value
        raise KeyError(option)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedLoad:
    """Every request that one engine will get, one entry each, in tokens: its prompt (for a log-likelihood request the
    context with its continuation) and the most output it may make (1 for a log-likelihood request)."""

    prompt_tokens: list[int]
    output_tokens: list[int]
