"""A dataset: where its rows lie, how a row becomes a prompt, how an answer is judged."""

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from schemas.base import Config
from schemas.document import Document
from schemas.engine import Sampling

Overflow = Literal["fail", "drop_shots", "cut_middle", "skip"]
METRIC_NAME = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"
"""Without a dot, so that `<dataset>.<metric>` comes apart in one way."""


class Join(Config):
    """A second JSON Lines file whose rows complete those of the first."""

    path: str
    """The file, from the YAML file's own folder."""
    on: str
    """The column that names a row in both: the second file's other columns are added to the row of the same value."""


class JsonlSource(Config):
    """One JSON object a line, UTF-8."""

    kind: Literal["jsonl"]
    """JSON Lines."""
    path: str
    """The file, from the YAML file's own folder; `*` and `**` stand for several. It may end with .gz or .zst."""
    join: Join | None = None
    """A second file with more columns of the same rows, as where answers lie apart from questions."""
    revision: str | None = None
    """`sha256:<hex>` of the file: a file that differs is refused."""


class JsonSource(Config):
    """A JSON list of objects, or an object that has such a list in one of its fields."""

    kind: Literal["json"]
    """JSON."""
    path: str
    """The file, from the YAML file's own folder; `*` and `**` stand for several. It may end with .gz or .zst."""
    field: str | None = None
    """The field that holds the list, of a file that is an object."""
    revision: str | None = None
    """`sha256:<hex>` of the file: a file that differs is refused."""


class CsvSource(Config):
    """Comma-separated values with a header line; every field arrives as text."""

    kind: Literal["csv"]
    """CSV."""
    path: str
    """The file, from the YAML file's own folder; `*` and `**` stand for several. It may end with .gz or .zst."""
    revision: str | None = None
    """`sha256:<hex>` of the file: a file that differs is refused."""


class ParquetSource(Config):
    """A Parquet file, or several."""

    kind: Literal["parquet"]
    """Parquet."""
    path: str
    """The file, from the YAML file's own folder; `*` and `**` stand for several."""
    revision: str | None = None
    """`sha256:<hex>` of the file: a file that differs is refused."""


class ArrowSource(Config):
    """An Arrow IPC file (Feather version 2) or stream, or several."""

    kind: Literal["arrow"]
    """Arrow."""
    path: str
    """The file, from the YAML file's own folder; `*` and `**` stand for several."""
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
    folder: str | None = None
    """A local copy of the repository, from the YAML file's own folder: read in place of the hub, without network."""


class QuerySource(Config):
    """What one SELECT gives, run by DuckDB over local files or over a DuckDB database file, which it cannot change."""

    kind: Literal["duckdb"]
    """A DuckDB query."""
    path: str
    """The folder of the files that the query reads, or the database file; from the YAML file's own folder."""
    query: str
    """One SELECT. A file stands in it as a table: `FROM 'rows.parquet'`. ORDER BY makes the order of rows certain."""
    revision: str | None = None
    """`sha256:<hex>` of the rows that the query gives: other rows are refused."""


class TextSource(Config):
    """Plain text in which a regular expression finds rows: each match is one, its named groups are the columns."""

    kind: Literal["text"]
    """Rows in plain text."""
    path: str
    """The file, from the YAML file's own folder; `*` and `**` stand for several. It may end with .gz or .zst."""
    pattern: str
    """A regular expression (Python's syntax) with named groups, as `Q: (?P<question>.*)`."""
    revision: str | None = None
    """`sha256:<hex>` of the file: a file that differs is refused."""


class NeedleSource(Config):
    """Pages that assay itself writes, with one fact hidden among facts much like it, and what is asked of it: the
    columns `id`, `text`, `place`, `code`, `length`, `depth`. The same numbers give the same rows everywhere."""

    kind: Literal["needle"]
    """Made: a fact hidden in a long text."""
    tokens: Annotated[int, Field(ge=200, le=1_000_000)]
    """About how many tokens a text has, at 5.25 characters each."""
    n: Annotated[int, Field(ge=1, le=10_000)] = 50
    """How many rows."""
    seed: int = 0
    """What the texts are drawn by."""
    revision: str | None = None
    """`sha256:<hex>` of the rows: others are refused."""


FileSource = TextSource | JsonlSource | JsonSource | CsvSource | ParquetSource | ArrowSource
"""The sources that are a file, or several by a pattern."""

DatasetSource = Annotated[
    JsonlSource
    | JsonSource
    | CsvSource
    | ParquetSource
    | ArrowSource
    | TextSource
    | SavedSource
    | QuerySource
    | HubDatasetSource
    | NeedleSource,
    Field(discriminator="kind"),
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
    system: str | None = None
    """The system message that goes before `messages`: Jinja over the row's fields."""
    prefix: str | None = None
    """What stands once before all else, the examples too (in a chat: of what the user says): Jinja over the row."""
    suffix: str | None = None
    """What stands once behind the question (in a chat: the last thing that the user says): Jinja over the row."""

    @model_validator(mode="after")
    def _one_of_two(self) -> "Prompt":
        if (self.messages is None) == (self.text is None):
            raise ValueError("give either `messages` or `text`")
        if self.system is not None and self.messages is None:
            raise ValueError("`system` goes with `messages`; a `text` prompt has a `prefix`")
        if self.system is not None and any(message.role == "system" for message in self.messages or []):
            raise ValueError("the system message stands here twice: in `system` and in `messages`")
        return self


class FewShot(Config):
    """Examples put before the question, rendered with the dataset's own prompt and target."""

    n: Annotated[int, Field(ge=0, le=100)] = 0
    """Examples before the question. With `pick: fixed` it may be left out: all of the list."""
    source: DatasetSource | None = None
    """Where the examples come from; without it, the dataset itself (a sample is never its own example)."""
    pick: Literal["first", "random", "fixed"] = "first"
    """`random` draws by hash(seed, sample id), so that a sample's examples never depend on the others; `fixed` takes
    `ids` or `examples`."""
    seed: int = 0
    """What `pick: random` draws by."""
    ids: list[str | int] | None = None
    """With `pick: fixed`: the rows by their id (see `id_field`), in the order in which they stand in the prompt."""
    examples: list[dict[str, Any]] | None = None
    """With `pick: fixed`: the rows themselves, each with the fields that the prompt and the target use."""
    answer: str | None = None
    """What an example answers: Jinja over its row. Without it, the dataset's `target`, which for an option's index or a
    program's tests is not what a model should write."""

    @model_validator(mode="before")
    @classmethod
    def _all_of_the_list(cls, value: Any) -> Any:
        if isinstance(value, dict) and value.get("pick") == "fixed" and "n" not in value:
            given = value.get("ids") if value.get("ids") is not None else value.get("examples")
            if isinstance(given, list):
                return {**value, "n": len(given)}
        return value

    @model_validator(mode="after")
    def _fixed_has_a_list(self) -> "FewShot":
        given = [name for name in ("ids", "examples") if getattr(self, name) is not None]
        if self.pick != "fixed":
            if given:
                raise ValueError(f"`{given[0]}` goes with `pick: fixed`")
            return self
        if len(given) != 1:
            raise ValueError("`pick: fixed` needs either `ids` or `examples`")
        listed = self.ids if self.ids is not None else self.examples or []
        if not listed:
            raise ValueError(f"`{given[0]}` is an empty list: leave `few_shot` out")
        if self.n > len(listed):
            raise ValueError(f"`n` asks for {self.n} examples, `{given[0]}` has {len(listed)}")
        if self.ids is not None and len({str(each) for each in self.ids}) != len(self.ids):
            raise ValueError("`ids` names a row twice")
        if self.examples is not None and self.source is not None:
            raise ValueError("`examples` are the rows themselves: leave `source` out")
        return self


class SampleOf(Config):
    """A random part of the rows. Whether a row is in it depends on the seed and the row's identity alone."""

    n: Annotated[int, Field(ge=1)]
    """How many rows."""
    seed: int = 0
    """What they are drawn by: a row's place in the draw is hash(seed, sample id)."""


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
