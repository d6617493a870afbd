"""How the engine is set: what a user may write, with `auto` for what the plan chooses."""

from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator

from schemas.base import Config

CudagraphMode = Literal["auto", "none", "piecewise", "full", "full_decode_only", "full_and_piecewise"]
PrefillPolicy = Literal["rule", "off", "fixed"]
Auto = Literal["auto"]


class Sampling(Config):
    """How tokens are drawn."""

    temperature: Annotated[float, Field(ge=0, le=10)] = 0.0
    """0 is greedy: always the likeliest token."""
    max_tokens: Annotated[int, Field(ge=1)] = 256
    """The most tokens an answer may have, where its dataset does not say."""
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Only the likeliest tokens whose probabilities add up to this share are drawn from; 1 is off."""
    top_k: Annotated[int, Field(ge=0)] = 0
    """Only this many of the likeliest tokens are drawn from; 0 is off."""
    seed: int | None = None
    """What is drawn with, where `temperature` is above 0; without it, every run draws anew."""
    stop: list[str] = Field(default_factory=list)
    """Texts that end an answer."""
    repeats: Annotated[int, Field(ge=1, le=1000)] = 1
    """How often each sample is asked in each arm, with `temperature` above 0. A sample's scores are averaged first."""

    @field_validator("repeats")
    @classmethod
    def _copies_differ(cls, value: int, info: ValidationInfo) -> int:
        if value > 1 and info.data.get("temperature") == 0:
            raise ValueError("with `temperature: 0` all repeats of a sample are the same answer: set one above 0")
        if value > 1 and info.data.get("seed") is not None:
            raise ValueError("with a `seed` all repeats of a sample are the same answer: leave `seed` out")
        return value


class Cudagraph(Config):
    """CUDA graphs: recorded launches of the whole model for a set of batch sizes. There are none on a CPU."""

    mode: CudagraphMode = "auto"
    """Which launches are recorded; `auto`: what the plan chooses, `none` on a CPU."""
    sizes: list[Annotated[int, Field(ge=1)]] | Auto = "auto"
    """The batch sizes, in tokens of a step; `auto`: what the plan chooses."""


class Prefill(Config):
    """How a long prompt is split, so that short ones need not wait behind it."""

    policy: PrefillPolicy = "rule"
    """`rule` (from the token profile), `off`, or `fixed` (the number in `threshold`)."""
    threshold: Annotated[int, Field(ge=0)] | None = None
    """Tokens of one prompt that a step may take at most; only with `policy: fixed`."""

    @model_validator(mode="after")
    def _fixed_needs_a_number(self) -> "Prefill":
        if (self.policy == "fixed") != (self.threshold is not None):
            raise ValueError("`threshold` and `policy: fixed` go together")
        return self


class Memory(Config):
    """What of the device's memory the engine takes."""

    gpu_share: Annotated[float, Field(gt=0, le=1)] = 0.9
    """The share of a GPU's memory that the engine may take; a CPU has no use for it."""
    kv_cache_bytes: Annotated[int, Field(ge=1 << 20)] | Auto = "auto"
    """Bytes for keys and values; `auto`: what this run's prompts need on a CPU, `gpu_share` of the memory on a GPU."""
    block_size: Annotated[int, Field(ge=1)] | Auto = "auto"
    """Tokens of one block of keys and values, the unit in which a prefix is found again. `auto`: 32 on a CPU, where
    vLLM's own 128 are longer than many prompts; vLLM's own elsewhere."""


class Grammar(Config):
    """The engine's grammar backend. One per engine: vLLM latches the first one it meets."""

    backend: Literal["xgrammar", "guidance", "outlines"] = "xgrammar"
    """Which one."""
    whitespace: bool = False
    """Whether a guided JSON answer may have free white space between its parts."""


class VllmEngine(Config):
    """configs/engines/<name>.yaml"""

    kind: Literal["vllm"] = "vllm"
    """The engine: vLLM, in a process of its own."""
    core: Literal["auto", "inprocess", "multiprocess"] = "auto"
    """Where vLLM's core runs: in the worker itself, or in a process of its own. `auto`: in-process,
    which starts in half the time."""
    cudagraph: Cudagraph = Cudagraph()
    compile: Literal["auto", "none", "full"] = "auto"
    """torch.compile: `none`, or `full` (vLLM's level 3). `auto`: none on a CPU, where it costs more than it brings."""
    prefill: Prefill = Prefill()
    max_model_len: Annotated[int, Field(ge=16)] | Auto = "auto"
    """Tokens of one prompt and its answer together."""
    max_num_batched_tokens: Annotated[int, Field(ge=16)] | Auto = "auto"
    """Tokens that one step may take over all requests: the budget."""
    max_num_seqs: Annotated[int, Field(ge=1)] | Auto = "auto"
    """Requests that run at once."""
    memory: Memory = Memory()
    prefix_caching: bool = True
    """Whether keys and values of a prompt's beginning are kept for the next prompt that begins so."""
    grammar: Grammar = Grammar()

    @field_validator("cudagraph", mode="before")
    @classmethod
    def _short_cudagraph(cls, value: Any) -> Any:
        return {"mode": value} if isinstance(value, str) else value
