"""SQL that reads Parquet files as the tables of today, whatever version wrote them."""

# ruff: noqa: S608 - every name and text that goes into SQL here is quoted first
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from schemas.errors import AssayError
from warehouse.schema import Table
from warehouse.schema.changes import check_version
from warehouse.schema.table import literal, quoted

_PLACE = "file_index, file_row_number"
_FOLDER = "run"


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


def straight(*, table: Table, paths: Sequence[Path], columns: Callable[[Path], frozenset[str]] = columns_of) -> str:
    """A SELECT of all rows of the files. A condition on run_id opens the files of those runs only, as the folder's name
    is the run's id."""
    groups: dict[frozenset[str], list[Path]] = {}
    for path in paths:
        groups.setdefault(columns(path), []).append(path)
    # Files with the same columns are read together: DuckDB opens all of them only where it must compare them.
    selects = [
        _read(table=table, paths=alike, there=there, by_folder=all(_is_first_run(path) for path in alike))
        for there, alike in groups.items()
    ]
    return " UNION ALL ".join(selects)


def newest(
    *,
    table: Table,
    paths: Sequence[Path],
    last_of: str | None = None,
    columns: Callable[[Path], frozenset[str]] = columns_of,
) -> str:
    """A SELECT of the highest revision of each key; of equal revisions, that of the later file and row.

    last_of: keep only the rows with the highest value of this key column, per rest of the key.
    """
    names = ", ".join(quoted(name) for name in table.names)
    source = _placed(table=table, paths=paths, columns=columns)
    inner = f"SELECT {names} FROM ({source}) QUALIFY {_wins(table)}"
    return inner if last_of is None else f"SELECT * FROM ({inner}) QUALIFY {_last(table, last_of)}"


def outdone(*, table: Table, paths: Sequence[Path], last_of: str | None = None) -> str:
    """A SELECT of the places (file_index, file_row_number) of the rows that `newest` leaves out, and of each whether it
    is the newest of its key all the same (earlier), only not the last.

    Few rows share a key with another, so these are found by a hash first, and only they are compared.
    """
    source = _placed(table=table, paths=paths, columns=columns_of)
    short = ", ".join(quoted(name) for name in table.key if name != last_of)
    shared = f"SELECT hash({short}) AS h FROM ({source}) GROUP BY h HAVING count(*) > 1"
    keys = ", ".join(quoted(name) for name in dict.fromkeys((*table.key, "revision")))
    some = f"SELECT {keys}, {_PLACE} FROM ({source}) WHERE hash({short}) IN (SELECT h FROM ({shared}))"
    if last_of is None:
        return f"SELECT {_PLACE}, false AS earlier FROM ({some}) QUALIFY NOT ({_wins(table)})"
    ranked = f"SELECT *, {_wins(table)} AS wins FROM ({some})"
    last = f"row_number() OVER (PARTITION BY {short}, wins ORDER BY {quoted(last_of)} DESC NULLS LAST) = 1"
    return f"SELECT {_PLACE}, wins AS earlier FROM ({ranked}) QUALIFY NOT (wins AND {last})"


def winners(*, table: Table, paths: Sequence[Path]) -> str:
    """The rows of `newest` by way of their places, so that few keys, and no other column, are held in memory."""
    names = ", ".join(quoted(name) for name in table.names)
    source = _placed(table=table, paths=paths, columns=columns_of)
    left_out = f"SELECT ({_PLACE}) FROM ({outdone(table=table, paths=paths)})"
    return f"SELECT {names} FROM ({source}) WHERE ({_PLACE}) NOT IN ({left_out})"


def _placed(*, table: Table, paths: Sequence[Path], columns: Callable[[Path], frozenset[str]]) -> str:
    """A SELECT of all rows with their places, where the files' order counts."""
    each = [columns(path) for path in paths]
    there = frozenset().union(*each)
    differ = any(names != there for names in each)
    return _read(table=table, paths=paths, there=there, differ=differ, more=_PLACE)


def _read(
    *,
    table: Table,
    paths: Sequence[Path],
    there: frozenset[str],
    differ: bool = False,
    by_folder: bool = False,
    more: str = "",
) -> str:
    columns = [
        f"CAST({quoted(column.name)} AS {column.sql_type}) AS {quoted(column.name)}"
        if column.name in there
        else _null(table, column.name)
        for column in table
    ]
    if by_folder:
        columns[table.names.index("run_id")] = f"{quoted(_FOLDER)} AS run_id"
    files = ", ".join(literal(exact_pattern(path)) for path in paths)
    hive = f"true, hive_types = {{{quoted(_FOLDER)}: VARCHAR}}" if by_folder else "false"
    return (
        f"SELECT {', '.join([*columns, *([more] if more else [])])} FROM read_parquet([{files}],"
        f" union_by_name = {'true' if differ else 'false'}, hive_partitioning = {hive})"
    )


def _is_first_run(path: Path) -> bool:
    """Whether the file lies in a run's folder, below no other that has such a name (DuckDB would take that one's)."""
    runs = [part for part in path.parts[:-1] if part.startswith(f"{_FOLDER}=")]
    return len(runs) == 1 and path.parent.name == runs[0]


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
