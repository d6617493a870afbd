"""A dataset: where its rows lie, how a row becomes a prompt, how an answer is judged."""

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from schemas.base import Config
from schemas.document import Document
from schemas.engine import Sampling
from schemas.few_shot import FewShot
from schemas.guide import Guide
from schemas.prompt import Prompt
from schemas.source import DatasetSource

Overflow = Literal["fail", "drop_shots", "cut_middle", "skip"]
METRIC_NAME = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"
"""Without a dot, so that `<dataset>.<metric>` comes apart in one way."""


class SampleOf(Config):
    """A random part of the rows. Whether a row is in it depends on the seed and the row's identity alone."""

    n: Annotated[int, Field(ge=1)]
    """How many rows."""
    seed: int = 0
    """What they are drawn by: a row's place in the draw is hash(seed, sample id)."""


class MetricUse(Config):
    """A metric by name, with its options where it has any."""

    use: str
    """The metric's name."""
    as_: Annotated[str, Field(pattern=METRIC_NAME)] | None = Field(default=None, alias="as")
    """A name of one's own for its numbers, so that a metric can stand in a dataset several times, with other options:
    letters, digits, `_` and `-`. Without it, the metric's."""
    options: dict[str, Any] = Field(default_factory=dict)
    """The metric's options; each metric lists its own."""

    @property
    def name(self) -> str:
        """What its scores and numbers are called."""
        return self.use if self.as_ is None else self.as_


class Dataset(Config):
    """configs/datasets/<name>.yaml"""

    source: DatasetSource
    """Where the rows are."""
    id_field: str | None = None
    """The column that names a row; without it, the hash of the row and its occurrence number."""
    prompt: Prompt | None = None
    """What is asked. Either this or `document`."""
    document: Document | None = None
    """What is measured, for perplexities: a template, or `{text, window, …}`. Nothing is asked then."""
    target: str | None = None
    """What a right answer is: Jinja over the row. A lone `{{ field }}` keeps the field's type (number, object)."""
    choices: str | list[str] | None = None
    """The options of a multiple choice: a lone `{{ field }}` that holds a list, or a list of templates."""
    continuation: str | None = None
    """What follows every choice: Jinja over the row. The choices then stand right at the end of the prompt, and the
    log-likelihood is that of this text behind each of them (Winogrande's partial scoring)."""
    guide: Guide | None = None
    """Without it the dataset has no guided arm, and the plan says so."""
    metrics: list[MetricUse]
    """What is computed of each answer: names, or `{use, as, options}`."""
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    """The most tokens an answer may have; without it, the experiment's `sampling.max_tokens`."""
    stop: list[str] = Field(default_factory=list)
    """Texts that end an answer, in place of the experiment's `sampling.stop`."""
    reasoning_parser: str | None = None
    """In place of the model's; `none`: the whole text of an answer is the answer."""
    adapter: str | None = None
    """The LoRA adapter that answers: a name of the engine's `adapters`. Without it, or with `none`: the model."""
    few_shot: FewShot = FewShot()
    bos: Literal["auto", "always", "never"] = "auto"
    """The BOS token before a prompt. `auto`: as the model does it (its chat template, or its tokenizer before a text);
    `always`: exactly one, put in where the model puts none; `never`: none before a `text` prompt."""
    on_overflow: Overflow = "fail"
    """What happens to a prompt that does not fit the model: see docs/datasets.md."""
    cluster: str | None = None
    """A column; rows with the same value are not independent, and error bars say so."""
    limit: Annotated[int, Field(ge=1)] | None = None
    """The most rows, the first ones; an experiment can ask for fewer. With `sample`: the first ones of the draw."""
    sample: SampleOf | None = None
    """A random part of the rows in place of all of them."""
    license: str | None = None
    """For the reader."""
    description: str | None = None
    """For the reader; `assay datasets` shows it."""

    @property
    def said(self) -> Prompt:
        """The prompt; of a document, its text as it stands."""
        if self.prompt is not None:
            return self.prompt
        return Prompt(text="" if self.document is None else self.document.text)

    @field_validator("document", mode="before")
    @classmethod
    def _short_document(cls, value: Any) -> Any:
        return {"text": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _asked_or_measured(self) -> "Dataset":
        if (self.prompt is None) == (self.document is None):
            raise ValueError("give either a `prompt`, which is answered, or a `document`, which is measured")
        if self.document is None:
            return self
        for key in ("target", "choices", "guide"):
            if getattr(self, key) is not None:
                raise ValueError(f"a `document` is not answered: leave `{key}` out")
        if self.few_shot.n:
            raise ValueError("a `document` has no examples before it: leave `few_shot` out")
        if self.on_overflow != "fail":
            raise ValueError("a `document` is read in windows, so that none is too long: leave `on_overflow` out")
        if self.bos == "never":
            raise ValueError(
                "a `document` begins after BOS, or its first token could not be predicted: leave `bos` out"
            )
        return self

    @model_validator(mode="after")
    def _chat_has_its_own_bos(self) -> "Dataset":
        if self.bos == "never" and self.prompt is not None and self.prompt.messages is not None:
            raise ValueError(
                "`bos: never` goes with a `text` prompt: in a chat it is the chat template that writes BOS"
            )
        return self

    @field_validator("metrics", mode="before")
    @classmethod
    def _short_metrics(cls, value: Any) -> Any:
        if isinstance(value, list):
            return [{"use": item} if isinstance(item, str) else item for item in value]
        return value

    @field_validator("metrics")
    @classmethod
    def _some_metrics(cls, value: list[MetricUse]) -> list[MetricUse]:
        if not value:
            raise ValueError("a dataset needs at least one metric")
        names = [metric.name for metric in value]
        if len(names) != len(set(names)):
            raise ValueError("the same metric stands here twice: with `as` each has a name of its own")
        return value


class NamedDataset(Config):
    """A dataset as one run uses it, complete: its name, and the experiment's changes (limit) already in it."""

    name: str
    config: Dataset
    sampling: Sampling
    """The experiment's sampling with this dataset's `max_tokens` and `stop` in it."""
    reasoning_parser: str | None = None
    """The dataset's own, else the model's; None where the whole text of an answer is the answer."""
    path: str | None = None
    """The YAML it came from; relative paths inside it are resolved already."""
