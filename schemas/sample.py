"""A sample and the requests made of it, as they travel between the steps of a run.

Plain dataclasses, not pydantic: there may be millions, and every one was made by assay itself.
"""

from dataclasses import dataclass, field
from typing import Any, Literal

from schemas.guide import GuideKind

RequestKind = Literal["generate", "loglikelihood"]

ANSWERED = ("ok", "invalid", "truncated")
"""The states of a request that the engine answered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grammar:
    """One grammar, as text. `content` is a canonical JSON schema, a regex, a JSON list of the options of a choice, the
    grammar's text (python, math, sql), or JSON: {flavour, grammar} of an ebnf, {tools, parallel, calls, tool_choice} of
    tool_calls. `grammar_id` is the first 16 hex digits of sha256 over kind and content."""

    grammar_id: str
    kind: GuideKind
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
class Window:
    """A stretch of a document that is read at once: tokens begin to end (exclusive) of its sample's `prompt_token_ids`,
    of which those from `start` on are predicted."""

    begin: int
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One row of a dataset, rendered and encoded for one model.

    windows: of a document, whose `prompt_token_ids` are the token it begins after, and its own. window: the most tokens
    that one of them predicts. counted: the text whose words and bytes a document's log-likelihood is divided by."""

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
    windows: list[Window] = field(default_factory=list)
    window: int | None = None
    counted: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """What came of one request: one row of `requests`, as scores and reports read it back.

    status: ok; invalid (it ended by itself and does not obey the dataset's guide, in whichever arm); truncated (its
    token budget ended it, or its reasoning never ended: then there is no answer and output is None); refused (the
    engine did not take it); error; cancelled (never sent: `free_matched` without a guided answer to match)."""

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

    request_id: stable within a run (dataset, sample, arm, kind, choice, repeat). choice_index: of a log-likelihood
    request, which choice it scores, or which window of a document. continuation_start: where in the prompt the part to
    score begins. refused: why it need not be sent at all."""

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
    grammar_after: str | None = None
    """The text that ends what is free before the guided part; None: the engine follows the grammar from the start."""
    reasoning_parser: str | None = None
    """What tells the reasoning from the answer; None: all of the text is the answer."""
    reasoning_begun: bool = False
    """The prompt ends within the reasoning, so that what the engine gives goes on with it."""
    adapter: str | None = None
    """The LoRA adapter that answers; None: the model itself."""
    matches: str | None = None
    """In the arm `free_matched`, the request of the guided answer whose length it gets; max_tokens is a bound until
    that is known, and then `exactly` is set."""
    exactly: bool = False
    """The answer has max_tokens tokens, whatever the model would end with."""
    repair_try: int | None = None
    """In the arm `repair`: 0, the free answer; 1 and up, a guided one in place of one that was not valid."""
    instead_of: str | None = None
    """The request whose answer a retry takes the place of, where that is not valid."""
    temperature: float | None = None
    """What is drawn with in place of the dataset's own; None: that."""
    seed_shift: int = 0
    """Added to the dataset's seed, where it has one."""

    @property
    def engine_stop(self) -> list[str]:
        """The stop strings as the engine gets them. With a reasoning parser none: they would end the reasoning. The
        answer behind it is cut at the first of them once it is here."""
        return [] if self.reasoning_parser is not None else self.stop

    @property
    def follows(self) -> bool:
        """Whether it waits for another answer: its length, or whether it is needed at all, hangs on that."""
        return self.matches is not None or self.instead_of is not None
