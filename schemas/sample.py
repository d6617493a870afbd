"""A sample and the requests made of it, as they travel between the steps of a run.

Plain dataclasses, not pydantic: there may be millions, and every one was made by assay itself.
"""

from dataclasses import dataclass, field
from typing import Any, Literal

RequestKind = Literal["generate", "loglikelihood"]

ANSWERED = ("ok", "invalid", "truncated")
"""The states of a request that the engine answered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grammar:
    """One grammar, as text. `content` is a canonical JSON schema, a regex, or a JSON list of the options of a choice;
    `grammar_id` is the first 16 hex digits of sha256 over kind and content."""

    grammar_id: str
    kind: Literal["json_schema", "json_object", "regex", "choice"]
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One option of a multiple choice, encoded as the continuation of its sample's prompt.

    text: the raw option, without any delimiter. token_ids: context and continuation, encoded together.
    start: index of the continuation's first token in token_ids. encoded_apart: the joint encoding gave the continuation
    no token of its own, so it was encoded by itself."""

    text: str
    token_ids: list[int]
    start: int
    encoded_apart: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One row of a dataset, rendered and encoded for one model."""

    dataset: str
    sample_id: str
    row_index: int
    raw: bytes
    input: dict[str, Any]
    prompt: str
    prompt_hash: str
    prompt_token_ids: list[int]
    messages: list[dict[str, str]] | None = None
    target: Any = None
    choices: list[Choice] = field(default_factory=list)
    grammar: Grammar | None = None
    grammar_error: str | None = None
    """Why this sample's own schema or pattern is no valid one: its guided request is refused, the rest of it runs."""
    replaced_characters: int = 0
    cut_tokens: int = 0
    shots_dropped: int = 0
    cluster: str | None = None
    max_tokens: int = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """What came of one request: one row of `requests`, as scores and reports read it back.

    status: ok; invalid (it ended by itself and does not obey the dataset's guide, in whichever arm); truncated (its
    token budget ended it); refused (the engine did not take it); error; cancelled."""

    request_id: str
    dataset: str
    sample_id: str
    arm: str
    kind: RequestKind
    status: Literal["ok", "invalid", "truncated", "refused", "error", "cancelled"]
    repeat: int = 0
    choice_index: int | None = None
    output: str | None = None
    logprob_sum: float | None = None
    finish_reason: str | None = None
    valid: bool | None = None
    error: str | None = None
    output_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One thing to ask of the engine.

    request_id: stable within a run (dataset, sample, arm, kind, choice, repeat). continuation_start: where in the
    prompt the part to score begins, for a log-likelihood request. refused: why it need not be sent at all."""

    request_id: str
    dataset: str
    sample_id: str
    arm: str
    kind: RequestKind
    prompt_token_ids: list[int]
    max_tokens: int
    stop: list[str]
    repeat: int = 0
    choice_index: int | None = None
    continuation_start: int | None = None
    encoded_apart: bool = False
    grammar: Grammar | None = None
    """What the engine is to follow: only in a guided arm."""
    check: Grammar | None = None
    """What the answer is validated against, in every arm."""
    refused: str | None = None
