"""What the flow process and the engine process say to each other: msgspec structs, as msgpack, over one ZeroMQ pair.

Only msgspec and the standard library are imported here, so that the engine process stays free of everything else.
Times are seconds of CLOCK_MONOTONIC, which both processes share; a client on another machine has another one (see
tasks/load/clocks.py).
"""

from typing import Any

import msgspec


class Message(msgspec.Struct, kw_only=True, tag=True):
    """The base of all messages; the tag on the wire is the class's name."""


# ---------------------------------------------------------------- flow -> engine


class Build(Message):
    """Build the engine. options: by assay's own names (see tasks/engine/settings.py); model: a Hugging Face folder;
    trace_dir: where the profiler's traces go."""

    model: str
    options: dict[str, Any]
    trace_dir: str | None = None


class WireSampling(msgspec.Struct, kw_only=True):
    temperature: float
    max_tokens: int
    top_p: float = 1.0
    top_k: int = 0
    seed: int | None = None
    stop: list[str] = msgspec.field(default_factory=list)
    ignore_eos: bool = False
    """Whether the answer goes on past the model's end of text, to exactly max_tokens."""


class WireGrammar(msgspec.Struct, kw_only=True):
    """kind and content: see schemas.sample.Grammar. after: the text that ends what is free before the guided part;
    None: all of the answer is guided."""

    kind: str
    content: str
    after: str | None = None


class WireRequest(msgspec.Struct, kw_only=True):
    """One request. continuation_start: for a log-likelihood request, where in the prompt the scored part begins.
    adapter: the name of the one that answers; None: the model itself. text and messages: the same prompt for a server
    that takes no token ids, before and after the model's template; an engine that takes the ids does not look at them.
    """

    request_id: str
    prompt_token_ids: list[int]
    sampling: WireSampling
    grammar: WireGrammar | None = None
    continuation_start: int | None = None
    adapter: str | None = None
    text: str | None = None
    messages: list[dict[str, Any]] | None = None


class Submit(Message):
    requests: list[WireRequest]


class Abort(Message):
    """Stop these requests; an empty list means all."""

    request_ids: list[str] = msgspec.field(default_factory=list)


class ResetPrefixCache(Message):
    """Forget every cached prefix; answered by a Done."""


class Warm(Message):
    """Compile these grammars, so that the first answers that they guide do not wait for it; between requests. Answered
    by a Warmed. limit_s: what is not compiled by then is left to its first request."""

    grammars: list[WireGrammar]
    limit_s: float


class Stats(Message):
    """Ask for the engine's counters; answered by a StatsReply."""


class Reschedule(Message):
    """Use another long-prompt threshold, and a token budget that is at most the one the engine was built with, from the
    next step on; only with the core in the worker itself. Answered by a Done, or by a Refused."""

    long_prefill_token_threshold: int
    max_num_batched_tokens: int
    prefill_yields: bool = False
    """Whether the threshold holds only while a short prompt waits."""


class MakeMasks(Message):
    """Has the masks made by another from now on, `batched` or `vllm`; between requests, on an engine that was built
    with `batched`. Answered by a Done, or by a Refused."""

    by: str


class Sleep(Message):
    """Give the GPU's memory back, between requests; answered by a Done. level 1 keeps the weights in the host's memory,
    2 forgets them."""

    level: int = 1


class Wake(Message):
    """Take the memory again; answered by a Done."""


class CellBegins(Message):
    """A measured cell begins: of its first steps all are told, however many came before. There is no answer."""


class ReadClock(Message):
    """Say what the clock reads, at once; to a client on another machine. Answered by a Clock of the same number."""

    number: int


class Close(Message):
    """Shut the engine down and leave."""


ToEngine = (
    Build
    | Submit
    | Abort
    | ResetPrefixCache
    | Reschedule
    | Warm
    | MakeMasks
    | Stats
    | Sleep
    | Wake
    | CellBegins
    | ReadClock
    | Close
)

# ---------------------------------------------------------------- engine -> flow


class Hello(Message):
    """The process is up and vLLM is imported. phases: process_start_s and import_s. host: the name of its machine,
    where that is another one than the flow's."""

    pid: int
    versions: dict[str, str]
    phases: dict[str, float]
    host: str | None = None


class Built(Message):
    """The engine is ready.

    resolved: the settings that vLLM ended up with, by the names of Build.options where they have one, and more.
    phases: seconds by name; a phase that this set-up cannot tell apart is missing. sizes: bytes by name, likewise (see
    tasks/engine/worker/memory.py).
    """

    resolved: dict[str, Any]
    phases: dict[str, float]
    sizes: dict[str, int]


class WireResult(msgspec.Struct, kw_only=True):
    """What came of one request. error: why there is no answer; refused: the engine did not take the request.

    sent_at, first_token_at, first_text_at, last_token_at: the worker's clock. gaps_ms and gap_tokens: the time between
    consecutive arrivals and the tokens that each brought (the first arrival is no gap); gap_tokens is empty where that
    is not known. queued_ms, prefill_ms and decode_ms: the engine's own account. prefill_steps: scheduler steps that
    computed its prompt; draft_tokens and accepted_tokens: what was speculated for it; the three are None where the
    scheduler is in another process.

    Of a server alone: output_tokens and prompt_tokens, as it counted them, where token_ids is empty because it does not
    name them; reasoning, which it keeps apart from the text; tries: how often the request was sent.

    Of several clients of one server, set by the flow's end: client, the one that sent it; handed_ms, how long it took
    to reach that one; clock_error_ms, by how much the times can be wrong where its clock is another machine's.
    """

    request_id: str
    token_ids: list[int]
    text: str
    finish_reason: str | None
    stop_reason: str | None
    sent_at: float
    finished_at: float
    refused: bool = False
    error: str | None = None
    logprobs: list[float] | None = None
    cached_tokens: int | None = None
    preemptions: int | None = None
    prefill_steps: int | None = None
    draft_tokens: int | None = None
    accepted_tokens: int | None = None
    first_token_at: float | None = None
    first_text_at: float | None = None
    last_token_at: float | None = None
    gaps_ms: list[float] = msgspec.field(default_factory=list)
    gap_tokens: list[int] = msgspec.field(default_factory=list)
    queued_ms: float | None = None
    prefill_ms: float | None = None
    decode_ms: float | None = None
    output_tokens: int | None = None
    prompt_tokens: int | None = None
    reasoning: str | None = None
    tries: int | None = None
    client: str | None = None
    handed_ms: float | None = None
    clock_error_ms: float | None = None


class Results(Message):
    """Requests that finished since the last message."""

    results: list[WireResult]


class Progress(Message):
    """Sent about twice a second while there is work. Token counts are since the engine was built."""

    output_tokens: int
    prompt_tokens: int
    unfinished: int
    steps: int


class WireStep(msgspec.Struct, array_like=True, kw_only=True):
    """One step of vLLM's scheduler. None: this set-up does not tell it.

    step: its number since the engine was built, from 0. stands_for: steps that it stands for, itself among them (not
    every step is sent of a long run, see tasks/engine/worker/step_log.py). ended_at: the worker's clock. decode_tokens:
    tokens computed of requests past their prompt, with speculation one and its drafts each; prompt_tokens: all others.
    graph_mode: full, piecewise or none; graph_size and padded_tokens: tokens of the graph, and how many filled it up.
    prefix_queries and prefix_hits: tokens looked up in the prefix cache, and found."""

    ended_at: float
    running: int
    step: int = 0
    stands_for: int = 1
    step_ms: float | None = None
    waiting: int | None = None
    prompt_tokens: int | None = None
    decode_tokens: int | None = None
    kv_usage: float | None = None
    preempted: int | None = None
    graph_mode: str | None = None
    graph_size: int | None = None
    padded_tokens: int | None = None
    prefix_queries: int = 0
    prefix_hits: int = 0


class WireGraphUse(msgspec.Struct, array_like=True, kw_only=True):
    """Steps that ran in one graph mode at one size, the tokens that they computed, and what filled the graph up.

    size is None without a graph."""

    mode: str
    size: int | None
    steps: int
    tokens: int
    padded_tokens: int


class WireTotals(msgspec.Struct, kw_only=True):
    """Sums over all steps since the last message, also those that are not sent one by one.

    timed: steps whose time is known, and timed_ms their sum. counted: steps whose tokens are known. kv_usage_sum is
    over kv_read steps. preempted is None where no step tells it. accepted_by_position and drafted_by_position: tokens,
    the first drafted one first. prompt_steps: prompts by the number of steps that computed them."""

    steps: int = 0
    sent: int = 0
    timed: int = 0
    timed_ms: float = 0.0
    counted: int = 0
    prompt_tokens: int = 0
    decode_tokens: int = 0
    kv_read: int = 0
    kv_usage_sum: float = 0.0
    kv_usage_max: float = 0.0
    preempted: int | None = None
    prefix_queries: int = 0
    prefix_hits: int = 0
    graphs: list[WireGraphUse] = msgspec.field(default_factory=list)
    drafts: int = 0
    draft_tokens: int = 0
    accepted_tokens: int = 0
    accepted_by_position: list[int] = msgspec.field(default_factory=list)
    drafted_by_position: list[int] = msgspec.field(default_factory=list)
    prompt_steps: dict[int, int] = msgspec.field(default_factory=dict)


class Steps(Message):
    """The scheduler's steps since the last message of this kind; sent about twice a second while there is work, and
    before the results that leave it without. source: the id of the process that numbers the steps; another one counts
    from 0."""

    source: int
    steps: list[WireStep]
    totals: WireTotals


class Warmed(Message):
    """How many of the grammars are compiled, and the seconds that it took."""

    grammars: int
    seconds: float


class Clock(Message):
    """What the clock read when the question of this number came, in seconds."""

    number: int
    at: float


class StatsReply(Message):
    counters: dict[str, float]


class Done(Message):
    """The command of this name was carried out."""

    command: str


class Refused(Message):
    """The command of this name cannot be carried out; the engine goes on as it was."""

    command: str
    reason: str


class Failed(Message):
    """The engine cannot go on. where: the command or `step`; message: one line; traceback: the whole of it."""

    where: str
    message: str
    traceback: str


FromEngine = Hello | Built | Results | Progress | Steps | Warmed | Clock | StatsReply | Done | Refused | Failed

_encoder = msgspec.msgpack.Encoder()
_to_engine = msgspec.msgpack.Decoder(ToEngine)
_from_engine = msgspec.msgpack.Decoder(FromEngine)


def encode(message: ToEngine | FromEngine) -> bytes:
    """The message as msgpack."""
    return _encoder.encode(message)


def decode_to_engine(data: bytes) -> ToEngine:
    """A message for the engine. Raises msgspec.ValidationError on anything else."""
    return _to_engine.decode(data)


def decode_from_engine(data: bytes) -> FromEngine:
    """A message from the engine. Raises msgspec.ValidationError on anything else."""
    return _from_engine.decode(data)
