"""What the flow process and the engine process say to each other: msgspec structs, as msgpack, over one ZeroMQ pair.

Only msgspec and the standard library are imported here, so that the engine process stays free of everything else.
Times are seconds of CLOCK_MONOTONIC, which both processes share.
"""

from typing import Any

import msgspec


class Message(msgspec.Struct, kw_only=True, tag=True):
    """The base of all messages; the tag on the wire is the class's name."""


# ---------------------------------------------------------------- flow -> engine


class Build(Message):
    """Build the engine. options: by assay's own names (see tasks/engine/settings.py); model: a Hugging Face folder."""

    model: str
    options: dict[str, Any]


class WireSampling(msgspec.Struct, kw_only=True):
    temperature: float
    max_tokens: int
    top_p: float = 1.0
    top_k: int = 0
    seed: int | None = None
    stop: list[str] = msgspec.field(default_factory=list)


class WireGrammar(msgspec.Struct, kw_only=True):
    """kind: json_schema, json_object, regex or choice; content: see schemas.sample.Grammar."""

    kind: str
    content: str


class WireRequest(msgspec.Struct, kw_only=True):
    """One request. continuation_start: for a log-likelihood request, where in the prompt the scored part begins."""

    request_id: str
    prompt_token_ids: list[int]
    sampling: WireSampling
    grammar: WireGrammar | None = None
    continuation_start: int | None = None


class Submit(Message):
    requests: list[WireRequest]


class Abort(Message):
    """Stop these requests; an empty list means all."""

    request_ids: list[str] = msgspec.field(default_factory=list)


class ResetPrefixCache(Message):
    """Forget every cached prefix; answered by a Done."""


class Stats(Message):
    """Ask for the engine's counters; answered by a StatsReply."""


class Close(Message):
    """Shut the engine down and leave."""


ToEngine = Build | Submit | Abort | ResetPrefixCache | Stats | Close

# ---------------------------------------------------------------- engine -> flow


class Hello(Message):
    """The process is up and vLLM is imported. phases: process_start_s and import_s."""

    pid: int
    versions: dict[str, str]
    phases: dict[str, float]


class Built(Message):
    """The engine is ready.

    resolved: the settings that vLLM ended up with, by the names of Build.options where they have one, and more.
    phases: seconds by name; a phase that this set-up cannot tell apart is missing.
    """

    resolved: dict[str, Any]
    phases: dict[str, float]
    sizes: dict[str, int]


class WireResult(msgspec.Struct, kw_only=True):
    """What came of one request. error: why there is no answer; refused: the engine did not take the request.

    sent_at, first_token_at, first_text_at, last_token_at: the worker's clock. gaps_ms and gap_tokens: the time between
    consecutive arrivals and the tokens that each brought (the first arrival is no gap). queued_ms, prefill_ms and
    decode_ms: the engine's own account.
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
    first_token_at: float | None = None
    first_text_at: float | None = None
    last_token_at: float | None = None
    gaps_ms: list[float] = msgspec.field(default_factory=list)
    gap_tokens: list[int] = msgspec.field(default_factory=list)
    queued_ms: float | None = None
    prefill_ms: float | None = None
    decode_ms: float | None = None


class Results(Message):
    """Requests that finished since the last message."""

    results: list[WireResult]


class Progress(Message):
    """Sent about twice a second while there is work. Token counts are since the engine was built."""

    output_tokens: int
    prompt_tokens: int
    unfinished: int
    steps: int


class StatsReply(Message):
    counters: dict[str, float]


class Done(Message):
    """The command of this name was carried out."""

    command: str


class Failed(Message):
    """The engine cannot go on. where: the command or `step`; message: one line; traceback: the whole of it."""

    where: str
    message: str
    traceback: str


FromEngine = Hello | Built | Results | Progress | StatsReply | Done | Failed

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
