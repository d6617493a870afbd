"""A judge: a language model that grades answers. Where it runs, what it is shown, what it may say; and what it said."""

import math
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from schemas.address import checked_address
from schemas.base import Config

JudgementStatus = Literal["ok", "invalid", "truncated", "refused", "timeout", "error"]
_MOST_STEPS = 100
_LONGEST_LABEL = 64


class Endpoint(Config):
    """A server that speaks OpenAI's chat completions, with `response_format: json_schema`."""

    url: str
    """The address of its API, as in http://localhost:8000/v1."""
    model: str
    """The model's name there."""
    api_key_env: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] | None = None
    """The environment variable that holds the key. The key itself is never written anywhere."""
    timeout_s: Annotated[float, Field(gt=0, le=3600)] = 120.0
    """Seconds that one call may take."""
    concurrency: Annotated[int, Field(ge=1, le=256)] = 8
    """Calls at once."""
    retries: Annotated[int, Field(ge=0, le=20)] = 4
    """How often a call is made again that was refused for load (429), failed on the server's side or took too long."""
    body: dict[str, Any] = Field(default_factory=dict)
    """More fields of a call's body, for what a server has of its own."""

    @field_validator("url")
    @classmethod
    def _an_address(cls, value: str) -> str:
        return checked_address(value)

    @field_validator("body")
    @classmethod
    def _not_ours(cls, value: dict[str, Any]) -> dict[str, Any]:
        ours = {"model", "messages", "response_format", "max_tokens", "temperature", "stream", "n"}
        if taken := sorted(ours & value.keys()):
            raise ValueError(f"assay sets `{taken[0]}` itself")
        return value


class Scale(Config):
    """What a judge may say: one of some labels, or a whole number."""

    labels: dict[str, float] | None = None
    """What each label counts, as in {CORRECT: 1, INCORRECT: 0}."""
    min: int | None = None
    """The lowest number."""
    max: int | None = None
    """The highest number."""

    @model_validator(mode="after")
    def _one_of_two(self) -> "Scale":
        if (self.labels is None) == (self.min is None and self.max is None):
            raise ValueError("a scale is either `labels`, or `min` and `max`")
        if self.labels is not None:
            self._check_labels(self.labels)
        elif self.min is None or self.max is None or not 0 < self.max - self.min <= _MOST_STEPS:
            raise ValueError(f"`min` is below `max`, by at most {_MOST_STEPS}")
        return self

    @staticmethod
    def _check_labels(labels: dict[str, float]) -> None:
        if len(labels) < 2:
            raise ValueError("a scale has two labels or more")
        for label, value in labels.items():
            if not label.strip() or len(label) > _LONGEST_LABEL or not label.isprintable():
                raise ValueError(f"`{label!s:.80}` is no label: 1 to {_LONGEST_LABEL} characters that can be printed")
            if not math.isfinite(value):
                raise ValueError(f"`{label}` counts {value}, which is no number")

    @property
    def verdicts(self) -> list[str] | list[int]:
        """What may be said, in its order."""
        if self.labels is not None:
            return list(self.labels)
        return list(range(self.min or 0, (self.max or 0) + 1))

    def value(self, verdict: str) -> float | None:
        """What a verdict counts; None for one that the scale does not have."""
        if self.labels is not None:
            return self.labels.get(verdict)
        return float(verdict) if verdict in map(str, self.verdicts) else None


class JudgeOptions(Config):
    """Who judges, what the judge is shown, and what it may say."""

    endpoint: Endpoint | None = None
    """A server to ask."""
    model: str | dict[str, Any] | None = None
    """In place of `endpoint`: a model by name, path or hub id (or written out), which assay runs itself once the
    answers are there."""
    prompt: str | None = None
    """What the judge is shown: Jinja over the row's fields and `prompt`, `target`, `output`, `tag`, `instructions`,
    `row`. Without it, assay's own."""
    system: str | None = None
    """The system message: text. Without it, assay's own."""
    scale: Scale = Scale(labels={"CORRECT": 1.0, "INCORRECT": 0.0})
    """What the judge may say: `labels` with what each counts, or the whole numbers from `min` to `max`. Without it,
    CORRECT (1) or INCORRECT (0)."""
    reasoning: bool = True
    """Whether a `reason` is asked for before the verdict."""
    reason_chars: Annotated[int, Field(ge=20, le=10_000)] | None = None
    """The most characters of the reason, as the schema says it; some servers do not take such a bound."""
    max_tokens: Annotated[int, Field(ge=8)] = 512
    """The most tokens of the judge's answer. One that is cut is no verdict."""

    @model_validator(mode="after")
    def _one_judge(self) -> "JudgeOptions":
        if (self.endpoint is None) == (self.model is None):
            raise ValueError("a judge has either an `endpoint` or a `model`")
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What came of one answer's judging, as scores read it back: a part of a row of `judgements`.

    status: only ok has a verdict; invalid (its answer does not obey the schema), truncated (its budget ended it),
    refused (by the model or its server's filter), timeout, error. answer_hash: of the answer that was judged."""

    request_id: str
    metric: str
    status: JudgementStatus
    answer_hash: str
    verdict: str | None = None
    reason: str | None = None
    error: str | None = None
