"""SQL that reads Parquet files as the tables of today, whatever version wrote them."""

# ruff: noqa: S608 - every name and text that goes into SQL here is quoted first
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from schemas.errors import AssayError
from warehouse.schema import Table
from warehouse.schema.changes import check_version
from warehouse.schema.table import literal, quoted

_PLACE = "file_index, file_row_number"


def columns_of(path: Path) -> frozenset[str]:
    """The columns of a Parquet file. Raises AssayError for one that assay did not write, or a newer assay wrote,
    FileNotFoundError for one that is not there."""
    try:
        with pq.ParquetFile(path) as file:
            check_version(metadata=file.metadata.metadata, source=str(path))
            return frozenset(file.schema_arrow.names)
    except pa.ArrowInvalid as error:
        raise AssayError(f"{path}: no Parquet file: {error} (move it away; the other rows stay)") from error


def exact_pattern(path: Path) -> str:
    """A path that stands for itself alone where patterns are understood."""
    return "".join(f"[{each}]" if each in "[*?" else each for each in str(path))


def empty(table: Table) -> str:
    """A SELECT without rows, with the table's columns and types."""
    return f"SELECT {', '.join(_null(table, name) for name in table.names)} WHERE false"


def straight(*, table: Table, paths: Sequence[Path]) -> str:
    """A SELECT of all rows of the files."""
    return _select(table=table, paths=paths, more="")


def newest(*, table: Table, paths: Sequence[Path], last_of: str | None = None) -> str:
    """A SELECT of the highest revision of each key; of equal revisions, that of the later file and row.

    last_of: keep only the rows with the highest value of this key column, per rest of the key.
    """
    names = ", ".join(quoted(name) for name in table.names)
    inner = f"SELECT {names} FROM ({_select(table=table, paths=paths, more=_PLACE)}) QUALIFY {_wins(table)}"
    return inner if last_of is None else f"SELECT * FROM ({inner}) QUALIFY {_last(table, last_of)}"


def winners(*, table: Table, paths: Sequence[Path], last_of: str | None = None, earlier: bool = False) -> str:
    """The same rows by way of their places, so that only the keys are held in memory while choosing.

    earlier: the rows that last_of leaves out.
    """
    names = ", ".join(quoted(name) for name in table.names)
    keys = ", ".join(quoted(name) for name in dict.fromkeys((*table.key, "revision")))
    chosen = f"SELECT {keys}, {_PLACE} FROM ({_select(table=table, paths=paths, more=_PLACE)}) QUALIFY {_wins(table)}"
    if last_of is not None:
        test = f"NOT ({_last(table, last_of)})" if earlier else _last(table, last_of)
        chosen = f"SELECT * FROM ({chosen}) QUALIFY {test}"
    source = _select(table=table, paths=paths, more=_PLACE)
    return f"SELECT {names} FROM ({source}) WHERE ({_PLACE}) IN (SELECT ({_PLACE}) FROM ({chosen}))"


def _select(*, table: Table, paths: Sequence[Path], more: str) -> str:
    each = [columns_of(path) for path in paths]
    there = frozenset().union(*each)
    columns = [
        f"CAST({quoted(column.name)} AS {column.sql_type}) AS {quoted(column.name)}"
        if column.name in there
        else _null(table, column.name)
        for column in table
    ]
    files = ", ".join(literal(exact_pattern(path)) for path in paths)
    union = "true" if any(names != there for names in each) else "false"
    return (
        f"SELECT {', '.join([*columns, *([more] if more else [])])}"
        f" FROM read_parquet([{files}], union_by_name = {union}, hive_partitioning = false)"
    )


def _null(table: Table, name: str) -> str:
    return f"CAST(NULL AS {table.column(name).sql_type}) AS {quoted(name)}"


def _wins(table: Table) -> str:
    keys = ", ".join(quoted(name) for name in table.key)
    return (
        f"row_number() OVER (PARTITION BY {keys}"
        " ORDER BY revision DESC NULLS LAST, file_index DESC, file_row_number DESC) = 1"
    )


def _last(table: Table, name: str) -> str:
    keys = ", ".join(quoted(each) for each in table.key if each != name)
    return f"row_number() OVER (PARTITION BY {keys} ORDER BY {quoted(name)} DESC NULLS LAST) = 1"
