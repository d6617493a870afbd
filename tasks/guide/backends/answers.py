"""What the child process says of a grammar and of a text."""

from dataclasses import dataclass, field
from typing import Literal

Status = Literal["accepted", "refused", "timed out", "crashed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendFacts:
    """A backend as it is installed.

    version: of its package; None where that is unknown. engine_fault: why an engine of the installed vLLM could not use
    it at all; None if it can. usable: whether it can be asked here nevertheless."""

    name: str
    version: str | None
    engine_fault: str | None
    usable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A grammar for one backend. kind and content as in tasks.guide.backends.known. whitespace: whether white space
    between JSON's parts is allowed, as the engine's `grammar.whitespace`."""

    backend: str
    kind: str
    content: str
    whitespace: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """What came of compiling.

    backend: the one that took it, which differs from the one asked for only with `auto`. words: what vLLM or the
    backend says of a grammar that it does not take, or how it ended. stage: `check` (vLLM's own look at the request,
    before any engine has it) or `compile`; None if accepted. check_s, compile_s: wall-clock seconds of the two; None
    where that was not reached or not come back from. grown_bytes: resident memory that compiling added."""

    status: Status
    source: Source
    backend: str
    words: str | None = None
    stage: Literal["check", "compile"] | None = None
    check_s: float | None = None
    compile_s: float | None = None
    grown_bytes: int | None = None
    peak_bytes: int | None = None
    handle: int = -1
    """Its name in the child."""
    timeout_s: float = 30.0
    """What it was given, and gets again where a new child has to compile it anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """Whether a text is a whole answer of a grammar.

    accepted: None where that is not known (`status` says why). why: what stopped it: `mask` (the token is not allowed),
    `token` (allowed, but the grammar does not follow), `end` (the answer may not end there). rest: the text from
    there on, cut. mask_us: microseconds of each token's mask, if asked for; the last one is the end's. spaced:
    separators that needed a space, which xgrammar writes in places."""

    status: Literal["answered", "timed out", "crashed"]
    accepted: bool | None
    why: Literal["mask", "token", "end"] | None = None
    rest: str = ""
    tokens: int | None = None
    mask_us: list[float] = field(default_factory=list)
    spaced: int = 0
