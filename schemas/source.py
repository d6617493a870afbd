"""Where a dataset's rows lie: files, folders, the hub, a query, or assay itself, which makes them."""

from typing import Annotated, Literal

from pydantic import Field

from schemas.base import Config


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
