"""How the engine is set: what a user may write, with `auto` for what the plan chooses."""

from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator

from schemas.adapter import BASE, Adapter
from schemas.base import Config
from schemas.parallel import Parallel
from schemas.rope import check_rope
from schemas.speculative import Speculative

CudagraphMode = Literal["auto", "none", "piecewise", "full", "full_decode_only", "full_and_piecewise"]
PrefillPolicy = Literal["rule", "auto", "off", "fixed"]
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

    policy: PrefillPolicy = "auto"
    """`auto`: only where short prompts would wait behind long ones, and then so that the long ones that run at once
    leave them room in each step; it may raise `max_num_batched_tokens` where that is `auto` too. `rule`: 0 if no prompt
    has 1,000 tokens, else 2,048 or 0.8 of the 95th percentile. `off`: a long prompt may fill a step. `fixed`: the
    number in `threshold`."""
    threshold: Annotated[int, Field(ge=0)] | None = None
    """Tokens of one prompt that a step may take at most; only with `policy: fixed`."""
    yields: bool | Auto = "auto"
    """`true`: the threshold holds only in steps in which a short prompt waits to be read, and long prompts have whole
    steps otherwise; `false`: in every step, as vLLM itself has it. It is assay's engine process that does it, so
    `vllm serve` has no such setting, and it needs vLLM's core in that process (`core: inprocess`). `auto`: true with
    `policy: auto` where that is so."""

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
    kv_dtype: str = "auto"
    """The number format of keys and values: `auto` (that of the computation), `bfloat16`, `fp8`, `fp8_e4m3`, `fp8_e5m2`
    or another that the installed vLLM knows. One byte a number holds twice the tokens of bfloat16, and changes
    answers."""
    cpu_offload_gb: Annotated[float, Field(ge=0)] = 0.0
    """GiB of the weights that lie in the host's memory and are read from there at each step, for each GPU: a larger
    model fits, slowly."""


class Preflight(Config):
    """What is done with the run's grammars before the engine gets one, in a process of its own, while the engine
    starts: each different one is compiled as the engine would compile it, and JSON schemas are linted. One that takes
    too long, or that the compiler dies of, is never sent. `preflight: off` leaves all of it out."""

    enabled: bool = True
    """Whether grammars are looked at beforehand at all; `preflight: off` is short for `false`."""
    compile_limit_s: Annotated[float, Field(gt=0, le=3600)] = 30.0
    """Seconds that one grammar may take to compile. Beyond it the grammar is put into quarantine: requests with it are
    refused and never reach the engine."""
    memory_gb: Annotated[float, Field(gt=0)] = 4.0
    """GiB that compiling one grammar may take. Beyond it the compiler counts as crashed, and the grammar is put into
    quarantine."""
    limit_s: Annotated[float, Field(gt=0)] = 300.0
    """Seconds for compiling all of them. What is not compiled by then goes to the engine unexamined; the run says how
    many, and the next run goes on from there."""
    warm: bool = True
    """Whether the engine compiles what was found good before the first request is sent, so that no answer waits for a
    compiler; `grammar.warm_s` says how long that took. Without it, the first answers of each grammar do wait, as they
    would in a server that has just started."""
    warm_limit_s: Annotated[float, Field(gt=0)] = 30.0
    """Seconds for that, by the times that compiling them took beforehand. The others are compiled when they are met."""
    lint: bool = True
    """Whether JSON schemas are linted too: the backend is probed for what it takes and should not, and the other way
    round."""
    most_linted: Annotated[int, Field(ge=0)] = 20
    """How many different schemas of a run are linted, the first ones; the run says how many are not."""
    lint_limit_s: Annotated[float, Field(gt=0)] = 30.0
    """Seconds for linting all of them. What is not linted by then is linted in the next run."""


BATCHING_BACKENDS = ("xgrammar", "guidance")
"""Those that make the masks of several requests in one call."""


class Grammar(Config):
    """The engine's grammar backend. One per engine: vLLM latches the first one it meets."""

    backend: Literal["xgrammar", "guidance", "outlines", "lm-format-enforcer", "auto"] = "xgrammar"
    """Which one. `auto`: the first in this order that takes every guide of the experiment, and that one for all; vLLM's
    own `auto`, which chooses anew for each request and then uses the first choice for all, is never used."""
    whitespace: bool = False
    """Whether a guided JSON answer may have free white space between its parts. Where something free comes before the
    guided part, and in calls of tools, xgrammar can only forbid more than one blank in a row."""
    cache_mb: Annotated[int, Field(ge=1)] | Auto = "auto"
    """MiB of compiled grammars that xgrammar keeps (VLLM_XGRAMMAR_CACHE_MB). `auto`: vLLM's own, 512. The other
    backends have no such setting."""
    regex_timeout_s: Annotated[int, Field(ge=1)] | Auto = "auto"
    """Seconds that a regular expression may take to compile before its request is refused
    (VLLM_REGEX_COMPILATION_TIMEOUT_S). `auto`: vLLM's own, 5."""
    masks: Literal["auto", "batched", "vllm"] = "auto"
    """Who makes the masks of a step's guided answers: `vllm` in a call for each request; `batched` in a few calls for
    all of them, bit for bit the same. `auto`: batched where it can be, which is with xgrammar and guidance, vLLM's core
    in the worker itself and no guessed tokens."""
    preflight: Preflight = Preflight()

    @field_validator("preflight", mode="before")
    @classmethod
    def _short_preflight(cls, value: Any) -> Any:
        words = {"off": False, "on": True, False: False, True: True}
        return {"enabled": words[value]} if isinstance(value, str | bool) and value in words else value

    @model_validator(mode="after")
    def _only_xgrammar_has_a_cache(self) -> "Grammar":
        if self.cache_mb != "auto" and self.backend not in ("xgrammar", "auto"):
            raise ValueError(f"`cache_mb` is a setting of xgrammar; {self.backend} has none")
        return self

    @model_validator(mode="after")
    def _not_every_backend_takes_batches(self) -> "Grammar":
        if self.masks == "batched" and self.backend not in (*BATCHING_BACKENDS, "auto"):
            raise ValueError(
                f"`masks: batched` is for {' and '.join(BATCHING_BACKENDS)}; {self.backend} makes one mask at a time"
            )
        return self


class Failures(Config):
    """What is done about an engine that fails while it starts or answers: one that dies or hangs is started again, one
    that ran out of memory is built again with less. What was answered is never asked again."""

    restarts: Annotated[int, Field(ge=0, le=100)] = 3
    """How often one `assay run` starts its engine again after it died or hung, with what was not answered; 0: the run
    ends there."""
    rungs: Annotated[int, Field(ge=0, le=20)] = 6
    """How often an engine that ran out of memory is built again with less: fewer sequences, a smaller budget, fewer
    graphs, less for keys and values. 0: the run ends there."""
    hang_s: Annotated[float, Field(ge=5)] | Auto = "auto"
    """Seconds without a word from an engine that has work, after which it has hung. `auto`: 300 on a GPU, 900 on a CPU.
    One that uses no processor time either has hung after 60."""


class VllmEngine(Config):
    """configs/engines/<name>.yaml"""

    kind: Literal["vllm"] = "vllm"
    """The engine: vLLM, in a process of its own."""
    choose: Literal["plan", "vllm"] = "plan"
    """Who chooses what says `auto`, or is not written at all: `plan`, from the data, the model and the device; `vllm`,
    its own defaults, as a control."""
    core: Literal["auto", "inprocess", "multiprocess"] = "auto"
    """Where vLLM's core runs: in the worker itself, or in a process of its own. `auto`: in-process,
    which starts in half the time."""
    cudagraph: Cudagraph = Cudagraph()
    compile: Literal["auto", "none", "full"] = "auto"
    """torch.compile: `none`, or `full` (vLLM's level 3). `auto`: none on a CPU, where it costs more than it brings."""
    compile_cache: str = "auto"
    """The folder that keeps what was compiled, so that the next start is a warm one: a path from the YAML file's own
    folder. `auto`: `cache/vllm` under ASSAY_HOME."""
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
    failures: Failures = Failures()
    quantization: str = "auto"
    """How the weights are stored on the device. `auto`: as the model's folder says. `none`: not at all, and a folder
    that is quantized is refused. Or a method of the installed vLLM by its name, such as `fp8`, which quantizes while
    loading. Less memory, other answers."""
    adapters: list[Adapter] = Field(default_factory=list)
    """LoRA adapters, `[{name, path}]`, all loaded beside the model; a dataset's `adapter` chooses one."""
    speculative: Speculative = Speculative()
    parallel: Parallel = Parallel()
    rope_scaling: dict[str, Any] | None = None
    """A context longer than the model's own, as its maker describes it: `{rope_type: yarn, factor: 4.0,
    original_max_position_embeddings: 8192}`. The model's limit becomes `factor` times the original one. Changes
    answers."""
    hf_overrides: dict[str, Any] = Field(default_factory=dict)
    """Keys of the model's config.json with other values, such as `{max_position_embeddings: 32768}`."""
    attention_backend: str = "auto"
    """Which kernels compute attention: `auto`, or a name of the installed vLLM, such as `FLASH_ATTN`, `FLASHINFER`,
    `TRITON_ATTN`. The last digits of the numbers differ between them."""
    sleep_mode: bool = False
    """Whether the engine can give its GPU memory back and take it again without starting anew; not on a CPU."""
    batch_invariant: bool = False
    """Whether an answer is kept from depending on what shares its batch (VLLM_BATCH_INVARIANT): slower, and equal in
    bfloat16 too; not on a CPU."""
    trace_steps: Annotated[int, Field(ge=0, le=1000)] = 0
    """How many of the first steps torch's profiler records, into the folder `trace` of the run; they are slower. 0:
    none."""
    extra: dict[str, Any] = Field(default_factory=dict)
    """Any other argument of the installed vLLM, by the name that its EngineArgs has for it."""
    python: str | None = None
    """The interpreter of another environment, whose vLLM is used: a path. It runs code, so `allow_code` must stand in
    the same file or one that it extends."""
    allow_code: bool = False
    """Whether `python` and those arguments of `extra` that run code are taken. Only from a file, never from an override
    or a form."""

    @field_validator("rope_scaling")
    @classmethod
    def _rope(cls, value: dict[str, Any] | None) -> dict[str, Any] | None:
        return None if value is None else check_rope(value)

    @field_validator("adapters")
    @classmethod
    def _names_once(cls, value: list[Adapter]) -> list[Adapter]:
        names = [adapter.name for adapter in value]
        if len(names) != len(set(names)):
            raise ValueError("two adapters have the same name")
        if BASE in names:
            raise ValueError(f"an adapter cannot be called `{BASE}`: a dataset's `adapter: {BASE}` is the model itself")
        return value

    @field_validator("cudagraph", mode="before")
    @classmethod
    def _short_cudagraph(cls, value: Any) -> Any:
        return {"mode": value} if isinstance(value, str) else value
