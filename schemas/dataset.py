"""A dataset: where its rows lie, how a row becomes a prompt, how an answer is judged."""

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from schemas.base import Config
from schemas.engine import Sampling

Overflow = Literal["fail", "drop_shots", "cut_middle", "skip"]


class JsonlSource(Config):
    """One JSON object a line, UTF-8."""

    kind: Literal["jsonl"]
    """JSON Lines."""
    path: str
    """The file, from the YAML file's own folder."""
    revision: str | None = None
    """`sha256:<hex>` of the file: a file that differs is refused."""


class CsvSource(Config):
    """Comma-separated values with a header line; every field arrives as text."""

    kind: Literal["csv"]
    """CSV."""
    path: str
    """The file, from the YAML file's own folder."""
    revision: str | None = None
    """`sha256:<hex>` of the file: a file that differs is refused."""


class ParquetSource(Config):
    """One Parquet file."""

    kind: Literal["parquet"]
    """Parquet."""
    path: str
    """The file, from the YAML file's own folder."""
    revision: str | None = None
    """`sha256:<hex>` of the file: a file that differs is refused."""


class SavedSource(Config):
    """A folder written by `datasets.Dataset.save_to_disk` (or a `DatasetDict` of them, with `split`)."""

    kind: Literal["saved"]
    """A saved `datasets` folder."""
    path: str
    """The folder, from the YAML file's own folder."""
    split: str | None = None
    """Which dataset of a saved `DatasetDict`."""
    revision: str | None = None
    """`sha256:<hex>` of the folder's files: a folder that differs is refused."""


class HubDatasetSource(Config):
    """A dataset on the Hugging Face hub, read from its Parquet or JSONL files. Needs network at first use."""

    kind: Literal["hf"]
    """A dataset on the hub."""
    id: str
    """The repository, as `owner/name`."""
    split: str = "test"
    """Which part of it."""
    subset: str | None = None
    """The configuration, of a dataset that has several."""
    revision: str = "main"
    """A branch, a tag or a commit; a commit is what cannot change."""


DatasetSource = Annotated[
    JsonlSource | CsvSource | ParquetSource | SavedSource | HubDatasetSource, Field(discriminator="kind")
]


class Message(Config):
    """One chat message; `content` is a Jinja template over the row's fields."""

    role: Literal["system", "user", "assistant"]
    """Who speaks."""
    content: str
    """The text: Jinja over the row's fields."""


class Prompt(Config):
    """Either `messages` (rendered through the model's chat template) or `text` (sent as it is). Jinja over the row."""

    messages: list[Message] | None = None
    """A chat, rendered through the model's chat template."""
    text: str | None = None
    """The prompt as it is sent, without a chat template: Jinja over the row's fields."""

    @model_validator(mode="after")
    def _one_of_two(self) -> "Prompt":
        if (self.messages is None) == (self.text is None):
            raise ValueError("give either `messages` or `text`")
        return self


class FewShot(Config):
    """Examples put before the question, rendered with the dataset's own prompt and target."""

    n: Annotated[int, Field(ge=0, le=100)] = 0
    """Examples before the question."""
    source: DatasetSource | None = None
    """Where the examples come from; without it, the dataset itself (a sample is never its own example)."""
    pick: Literal["first", "random"] = "first"
    """`random` draws by hash(seed, sample id), so that a sample's examples never depend on the others."""
    seed: int = 0
    """What `pick: random` draws by."""


class Guide(Config):
    """The grammar of a guided answer. Exactly one of the ways to give it that its kind takes.

    json_schema: `schema` (inline, or the path of a JSON file) or `schema_field` (a column, one per row);
    json_object: nothing; regex: `pattern` or `pattern_field`; choice: nothing (the dataset's `choices`), or `options`.
    """

    kind: Literal["json_schema", "json_object", "regex", "choice"]
    """What an answer must be."""
    schema_: dict[str, Any] | str | None = Field(default=None, alias="schema")
    """The JSON Schema of every row: written out, or the path of a JSON file."""
    schema_field: str | None = None
    """The column that holds each row's own JSON Schema."""
    pattern: str | None = None
    """The regular expression of every row."""
    pattern_field: str | None = None
    """The column that holds each row's own regular expression."""
    options: list[str] | None = None
    """The texts of which the answer must be one; without it, the dataset's `choices`."""

    @model_validator(mode="after")
    def _ways(self) -> "Guide":
        given = {
            name
            for name, value in (
                ("schema", self.schema_),
                ("schema_field", self.schema_field),
                ("pattern", self.pattern),
                ("pattern_field", self.pattern_field),
                ("options", self.options),
            )
            if value is not None
        }
        takes: dict[str, tuple[set[str], bool]] = {
            "json_schema": ({"schema", "schema_field"}, True),
            "json_object": (set(), False),
            "regex": ({"pattern", "pattern_field"}, True),
            "choice": ({"options"}, False),
        }
        allowed, needed = takes[self.kind]
        if given - allowed:
            raise ValueError(f"a {self.kind} guide takes no {', '.join(sorted(given - allowed))}")
        if needed and len(given) != 1:
            raise ValueError(f"a {self.kind} guide needs exactly one of {', '.join(sorted(allowed))}")
        return self


class MetricUse(Config):
    """A metric by name, with its options where it has any."""

    use: str
    """The metric's name."""
    options: dict[str, Any] = Field(default_factory=dict)
    """The metric's options; each metric lists its own."""


class Dataset(Config):
    """configs/datasets/<name>.yaml"""

    source: DatasetSource
    """Where the rows are."""
    id_field: str | None = None
    """The column that names a row; without it, the hash of the row and its occurrence number."""
    prompt: Prompt
    target: str | None = None
    """What a right answer is: Jinja over the row. A lone `{{ field }}` keeps the field's type (number, object)."""
    choices: str | list[str] | None = None
    """The options of a multiple choice: a lone `{{ field }}` that holds a list, or a list of templates."""
    guide: Guide | None = None
    """Without it the dataset has no guided arm, and the plan says so."""
    metrics: list[MetricUse]
    """What is computed of each answer: names, or `{use, options}`."""
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    """The most tokens an answer may have; without it, the experiment's `sampling.max_tokens`."""
    stop: list[str] = Field(default_factory=list)
    """Texts that end an answer, in place of the experiment's `sampling.stop`."""
    few_shot: FewShot = FewShot()
    on_overflow: Overflow = "fail"
    """What happens to a prompt that does not fit the model: see docs/datasets.md."""
    cluster: str | None = None
    """A column; rows with the same value are not independent, and error bars say so."""
    limit: Annotated[int, Field(ge=1)] | None = None
    """The most rows, the first ones; an experiment can ask for fewer."""
    license: str | None = None
    """For the reader."""
    description: str | None = None
    """For the reader; `assay datasets` shows it."""

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
        names = [metric.use for metric in value]
        if len(names) != len(set(names)):
            raise ValueError("the same metric stands here twice")
        return value


class NamedDataset(Config):
    """A dataset as one run uses it, complete: its name, and the experiment's changes (limit) already in it."""

    name: str
    config: Dataset
    sampling: Sampling
    """The experiment's sampling with this dataset's `max_tokens` and `stop` in it."""
    path: str | None = None
    """The YAML it came from; relative paths inside it are resolved already."""
