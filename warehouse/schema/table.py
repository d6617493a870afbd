"""What a table and a column of the warehouse are."""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa  # type: ignore[import-untyped]

TEXT = pa.string()
FLAG = pa.bool_()
COUNT = pa.int64()
NUMBER = pa.float64()
TIME = pa.timestamp("us", tz="UTC")
MAP = pa.map_(pa.string(), pa.string())
TEXTS = pa.list_(pa.string())
COUNTS = pa.list_(pa.int64())

_SQL_NAMES: dict[pa.DataType, str] = {
    pa.string(): "VARCHAR",
    pa.binary(): "BLOB",
    pa.bool_(): "BOOLEAN",
    pa.int16(): "SMALLINT",
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    TIME: "TIMESTAMP WITH TIME ZONE",
}


def quoted(name: str) -> str:
    """A name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A text as an SQL string."""
    return "'" + text.replace("'", "''") + "'"


def sql_type(kind: pa.DataType) -> str:
    """The SQL name of an Arrow type. Raises KeyError for a type that no table uses."""
    if pa.types.is_map(kind):
        return f"MAP({sql_type(kind.key_type)}, {sql_type(kind.item_type)})"
    if pa.types.is_list(kind):
        return f"{sql_type(kind.value_type)}[]"
    if pa.types.is_struct(kind):
        fields = (kind.field(index) for index in range(kind.num_fields))
        return "STRUCT(" + ", ".join(f"{quoted(each.name)} {sql_type(each.type)}" for each in fields) + ")"
    return _SQL_NAMES[kind]


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column. unit is empty where the value has none; json marks text that is one JSON document."""

    name: str
    type: pa.DataType
    unit: str
    doc: str
    json: bool = False

    @property
    def sql_type(self) -> str:
        """The type as SQL spells it."""
        return sql_type(self.type)

    @property
    def comment(self) -> str:
        """What the database says of the column: its meaning, then its unit."""
        kind = " JSON text." if self.json else ""
        unit = f" Unit: {self.unit}." if self.unit else ""
        return f"{self.doc}{kind}{unit}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One table. key: the columns that name a row, of whose revisions the highest counts.

    small tables are copied into the database file, the others stay in Parquet behind a view. stored: rows of it are
    written as Parquet (all tables but schema_version, which the build itself fills).
    """

    name: str
    doc: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]
    small: bool = True
    stored: bool = True

    def __post_init__(self) -> None:
        names = [column.name for column in self.columns]
        if len(set(names)) != len(names) or not set(self.key) <= set(names):
            raise ValueError(f"{self.name}: a column is there twice, or the key names one that is not there")

    def __iter__(self) -> Iterator[Column]:
        return iter(self.columns)

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names, in order."""
        return tuple(column.name for column in self.columns)

    def column(self, name: str) -> Column:
        """One column. Raises KeyError for a name that the table does not have."""
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(name)


def text(name: str, doc: str) -> Column:
    """A column of text."""
    return Column(name=name, type=TEXT, unit="", doc=doc)


def json(name: str, doc: str) -> Column:
    """A column of JSON documents."""
    return Column(name=name, type=TEXT, unit="", doc=doc, json=True)


def flag(name: str, doc: str) -> Column:
    """A column of truth values."""
    return Column(name=name, type=FLAG, unit="", doc=doc)


def count(name: str, unit: str, doc: str) -> Column:
    """A column of whole numbers."""
    return Column(name=name, type=COUNT, unit=unit, doc=doc)


def number(name: str, unit: str, doc: str) -> Column:
    """A column of real numbers."""
    return Column(name=name, type=NUMBER, unit=unit, doc=doc)


def time(name: str, doc: str) -> Column:
    """A column of moments."""
    return Column(name=name, type=TIME, unit="UTC", doc=doc)


def texts(name: str, doc: str) -> Column:
    """A column of lists of texts."""
    return Column(name=name, type=TEXTS, unit="", doc=doc)


def mapping(name: str, doc: str) -> Column:
    """A column of text by text."""
    return Column(name=name, type=MAP, unit="", doc=doc)


def listed(name: str, item: pa.DataType, unit: str, doc: str) -> Column:
    """A column of lists."""
    return Column(name=name, type=pa.list_(item), unit=unit, doc=doc)


RUN_ID = text("run_id", "The run that the row belongs to; sorts by start time.")
REVISION = Column(
    name="revision", type=pa.int32(), unit="", doc="Number of the row's version; of one key the highest counts."
)
