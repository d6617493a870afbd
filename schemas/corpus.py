"""A corpus of JSON Schemas: the file that names one, one schema of it, and what comes of asking the backends."""

from typing import Annotated, Any, Literal

from pydantic import Field

from schemas.base import Config
from schemas.experiment import Name


class CorpusFields(Config):
    """What the keys of a line are called."""

    schema_: Annotated[str, Field(alias="schema")] = "schema"
    """The JSON Schema: an object, or a text that holds one."""
    name: str = "name"
    """What the schema is called; a line without one is called by its number."""
    split: str = "split"
    """Which part of the corpus it belongs to; without one, what stands before `---` in its name."""
    tests: str = "tests"
    """A list of instances with the right verdict; may be missing."""
    data: str = "data"
    """An instance, within `tests`."""
    valid: str = "valid"
    """Whether the schema allows that instance, within `tests`."""


class CorpusFile(Config):
    """The YAML file of a corpus in configs/corpora."""

    name: Name | None = None
    """What the corpus is called; without it, the name of its file."""
    description: str | None = None
    """Recorded with the run, for the reader."""
    license: str | None = None
    """Of the schemas."""
    path: str
    """The file: JSON Lines, one schema a line, or one JSON list. Relative to this file."""
    revision: Annotated[str, Field(pattern="^sha256:[0-9a-f]{64}$")] | None = None
    """What the file must be; another content is refused."""
    fields: CorpusFields = CorpusFields()
    """What the keys of a line are called."""


class Instance(Config):
    """An instance of a schema, and the corpus's word on it."""

    data: Any
    valid: bool


class Case(Config):
    """One schema of a corpus. case_id: its place in the file and the first hex digits of its content's hash."""

    case_id: str
    split: str
    name: str
    content: Any
    """The schema."""
    tests: tuple[Instance, ...] = ()


class BackendFigures(Config):
    """What one backend made of a corpus, or of one of its splits. A share is None where it rests on nothing."""

    backend: str
    split: str | None = None
    """None: the whole corpus."""
    schemas: int
    accepted: int
    refused: int
    timeout: int
    crashed: int
    error: int
    """Could not be asked at all."""
    right: int
    """Schemas that it took and whose instances it told apart without a fault."""
    over: int
    """Schemas of which it rejects a valid instance."""
    under: int
    """Schemas of which it takes an invalid instance."""
    with_tests: int
    """Schemas that have instances whose verdict is known, whether it took them or not."""
    untested: int
    """Schemas that it took and of which nothing is known: no instance had a verdict."""
    tests: int
    over_tests: int
    under_tests: int
    reordered: int
    """Valid instances that it takes only with their keys in another order."""
    unjudged: int
    disputed: int
    compile_ms: dict[str, float] = Field(default_factory=dict)
    """Of vLLM's check and the backend together, over the schemas that it took: p50, p95, p99, max."""
    mask_us: dict[str, float] = Field(default_factory=dict)
    """Of each token's mask: mean, p50, p95, p99, max."""
    mask_tokens: int = 0
    peak_bytes: int | None = None
    asked: int = 0
    """Schemas to be answered by a model: those whose prompt fits it, whether the backend takes them or not. 0 without a
    model, and where no engine can use the backend."""
    skipped: int = 0
    """Schemas whose prompt is too long for the model, or for the run."""
    valid: int = 0
    """Of those asked: the backend takes the schema, and the answer obeys it."""
    ended: int = 0
    """Answers that ended by themselves."""
    ended_valid: int = 0
    """Those of them that obey their schema."""
    cut: int = 0
    """Answers that ended at the most tokens."""
    failed: int = 0
    """Requests for schemas that the backend takes which the engine refused or failed on."""
    no_answer: int = 0
    """Schemas without an answer, as the backend's run was cut or no engine can use it."""


class CorpusResult(Config):
    """How a run over a corpus ended."""

    run_id: str
    name: str
    status: Literal["finished", "failed", "cancelled"]
    exit_code: int
    report: str | None
    cases: int
    """Schemas that were asked."""
    backends: dict[str, str | None]
    """The version of each backend."""
    figures: list[BackendFigures]
    """By backend: the whole, then each split."""
    warnings: list[str] = Field(default_factory=list)
