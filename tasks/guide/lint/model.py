"""What the lint of a schema finds."""

from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal["under-constrained", "over-constrained", "closed", "typed", "order", "tokens", "slow"]
FAULTS: tuple[Kind, ...] = ("under-constrained", "over-constrained")
"""Silently wrong. The others are notes: what a backend does on purpose, and what a schema costs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """A change of the schema that was tried and helped.

    words: what to do. schema: the whole schema after it. exact: whether it allows just what the old one did on every
    probe; if not, it allows more, and the answers must be validated afterwards by the old one."""

    words: str
    schema: dict[str, Any]
    exact: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One way in which a backend departs from a schema.

    path: JSON pointer of the keyword responsible; empty for the whole schema. instance: the smallest JSON text found
    that shows it: one that the schema rejects and the backend takes (under-constrained), or the other way round; None
    where no instance shows it (slow). rewrite: None where none was found that helps."""

    kind: Kind
    path: str
    words: str
    instance: str | None
    rewrite: Rewrite | None = None

    @property
    def is_fault(self) -> bool:
        """Whether it is silently wrong, not a note."""
        return self.kind in FAULTS


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendLint:
    """What one backend makes of a schema.

    status: `accepted`, `refused`, `timed out`, `crashed`. words: its own, where it does not take it. engine_fault: why
    no engine of the installed vLLM could use it. valid, invalid: how many probes of each it was asked. unknown: probes
    that could not be answered (time, crash). mask_us: mean, p50, p99 and the largest over the tokens of some valid
    probes. cut: the lint ran out of its time, so there may be more to find. avoid: a rewrite that it takes, where it
    does not take the schema as it is."""

    backend: str
    version: str | None
    status: Literal["accepted", "refused", "timed out", "crashed"]
    words: str | None = None
    engine_fault: str | None = None
    check_s: float | None = None
    compile_s: float | None = None
    valid: int = 0
    invalid: int = 0
    unknown: int = 0
    mask_us: dict[str, float] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    avoid: Rewrite | None = None
    cut: bool = False

    @property
    def verdict(self) -> str:
        """In a word or two: `right`, `silently wrong`, or the status."""
        if self.status != "accepted":
            return self.status
        return "silently wrong" if any(finding.is_fault for finding in self.findings) else "right"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lint:
    """A schema's report. seed: the same seed, schema and versions give the same report."""

    vllm: str | None
    tokenizer: str | None
    seed: int
    backends: list[BackendLint]

    @property
    def is_clean(self) -> bool:
        """Whether every backend that an engine can use takes the schema, and none is silently wrong."""
        return all(backend.verdict == "right" for backend in self.backends if backend.engine_fault is None)
