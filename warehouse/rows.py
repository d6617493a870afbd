"""Rows of plain Python values as Arrow tables: what is converted, what is refused."""

import json
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from pathlib import PurePath
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from warehouse.schema import SCHEMA_VERSION, Table
from warehouse.schema.changes import METADATA_KEY
from warehouse.schema.table import Column

_SURROGATE = re.compile("[\ud800-\udfff]")


def arrow_schema(*, table: Table) -> pa.Schema:
    """The table's Arrow schema, with the schema version in its metadata."""
    fields = [pa.field(column.name, column.type) for column in table]
    return pa.schema(fields, metadata={METADATA_KEY: str(SCHEMA_VERSION).encode()})


def arrow_table(*, table: Table, run_id: str, revision: int, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """The rows as an Arrow table. A column that a row lacks is NULL; run_id and revision are set here.

    A NaN becomes NULL (it is no number), a surrogate in text becomes U+FFFD, bytes stay as they are. A value of a JSON
    column is dumped, but text that is JSON already is taken as it is. Raises ValueError for a column that the table
    does not have or a row of another run, TypeError for a value that does not fit its column (a time must know its
    zone).
    """
    known = set(table.names)
    for row in rows:
        if unknown := sorted(row.keys() - known):
            raise ValueError(f"{table.name} has no column {', '.join(unknown)}; it has {', '.join(table.names)}")
        if row.get("run_id", run_id) != run_id:
            raise ValueError(f"{table.name}: a row of run {row['run_id']} was given to run {run_id}")
    arrays = []
    for column in table:
        if column.name == "run_id":
            arrays.append(pa.array([run_id] * len(rows), column.type))
        elif column.name == "revision":
            arrays.append(pa.array([revision] * len(rows), column.type))
        else:
            arrays.append(_array(table=table, column=column, rows=rows))
    return pa.Table.from_arrays(arrays, schema=arrow_schema(table=table))


def fitted_table(*, table: Table, run_id: str, revision: int, arrow: pa.Table | pa.RecordBatch) -> pa.Table:
    """Rows that are in Arrow already, as the table's columns in order. What `warehouse.parquet.write_table` says."""
    if unknown := sorted(set(arrow.schema.names) - set(table.names)):
        raise ValueError(f"{table.name} has no column {', '.join(unknown)}; it has {', '.join(table.names)}")
    if len(set(arrow.schema.names)) < len(arrow.schema.names):
        raise ValueError(f"{table.name}: a column is there twice")
    given = pa.Table.from_batches([arrow]) if isinstance(arrow, pa.RecordBatch) else arrow
    if "run_id" in given.schema.names:
        others = [each for each in pc.unique(given["run_id"]).to_pylist() if each != run_id]
        if others:
            raise ValueError(f"{table.name}: a row of run {others[0]} was given to run {run_id}")
    rows = given.num_rows
    columns = []
    for column in table:
        if column.name == "run_id":
            columns.append(pa.repeat(pa.scalar(run_id, column.type), rows))
        elif column.name == "revision":
            columns.append(pa.repeat(pa.scalar(revision, column.type), rows))
        elif column.name in given.schema.names:
            columns.append(_fitted(table=table, column=column, values=given[column.name]))
        else:
            columns.append(pa.nulls(rows, column.type))
    return pa.Table.from_arrays(columns, schema=arrow_schema(table=table))


def json_text(value: Any) -> str:
    """A value as JSON text without NaN, infinity or surrogates. Raises TypeError for what JSON cannot hold."""
    return _clean_text(json.dumps(_jsonable(value), ensure_ascii=False, allow_nan=False, default=_dump_other))


def _fitted(*, table: Table, column: Column, values: pa.ChunkedArray) -> pa.ChunkedArray:
    try:
        cast = values if values.type == column.type else values.cast(column.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise TypeError(f"{table.name}.{column.name} ({column.sql_type}): {error}") from error
    try:
        cast.validate(full=True)
    except pa.ArrowInvalid as error:
        raise ValueError(f"{table.name}.{column.name}: {error}") from error
    return pa.chunked_array([_without_nan(chunk) for chunk in cast.chunks], column.type)


def _without_nan(values: pa.Array) -> pa.Array:
    kind = values.type
    if pa.types.is_floating(kind):
        nan = pc.is_nan(values)
        return pc.if_else(nan, pa.scalar(None, kind), values) if pc.any(nan).as_py() else values
    if pa.types.is_list(kind) and pa.types.is_floating(kind.value_type) and pc.any(pc.is_nan(values.values)).as_py():
        whole = values.take(pa.array(range(len(values)), pa.int64()))  # a slice does not start at its first value
        return pa.ListArray.from_arrays(whole.offsets, _without_nan(whole.values), type=kind, mask=whole.is_null())
    return values


def _array(*, table: Table, column: Column, rows: Sequence[Mapping[str, Any]]) -> pa.Array:
    convert = _json_value if column.json else _converter(column.type)
    try:
        return pa.array([None if (v := row.get(column.name)) is None else convert(v) for row in rows], column.type)
    except (TypeError, ValueError, OverflowError, AttributeError) as error:
        # Arrow's own errors are ValueErrors and TypeErrors that do not say which column they speak of.
        raise TypeError(f"{table.name}.{column.name} ({column.sql_type}): {error}") from error


def _converter(kind: pa.DataType) -> Callable[[Any], Any]:
    """What makes a value fit for Arrow's own conversion to this type."""
    for is_of, clean in _SIMPLE:
        if is_of(kind):
            return clean
    if pa.types.is_map(kind):
        return lambda value: [(_clean_text(str(key)), _map_text(item)) for key, item in value.items()]
    if pa.types.is_list(kind):
        item = _converter(kind.value_type)
        return lambda value: [None if each is None else item(each) for each in value]
    if pa.types.is_struct(kind):
        parts = {kind.field(index).name: _converter(kind.field(index).type) for index in range(kind.num_fields)}
        return lambda value: _struct(value=value, parts=parts)
    return lambda value: value


def _struct(*, value: Mapping[str, Any], parts: Mapping[str, Callable[[Any], Any]]) -> dict[str, Any]:
    if unknown := sorted(value.keys() - parts.keys()):
        raise TypeError(f"no part {', '.join(unknown)}; there are {', '.join(parts)}")
    return {name: None if value.get(name) is None else clean(value[name]) for name, clean in parts.items()}


def _clean_text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"text was expected, not {type(value).__name__}")
    if value.isascii():
        return value
    return _SURROGATE.sub("\ufffd", value)


def _map_text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return None if value is None else _clean_text(value)
    return json_text(value)


def _clean_number(value: Any) -> float | None:
    if isinstance(value, str | bytes | bool):
        raise TypeError(f"a number was expected, not {type(value).__name__}")
    number = float(value)
    return None if math.isnan(number) else number


def _clean_integer(value: Any) -> int:
    if isinstance(value, bool):
        raise TypeError("a whole number was expected, not bool")
    return operator.index(value)


def _clean_flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"True or False was expected, not {type(value).__name__}")
    return value


def _clean_time(value: Any) -> datetime:
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise TypeError("a datetime that knows its time zone was expected")
    return value


_SIMPLE: tuple[tuple[Callable[[pa.DataType], bool], Callable[[Any], Any]], ...] = (
    (pa.types.is_string, _clean_text),
    (pa.types.is_floating, _clean_number),
    (pa.types.is_timestamp, _clean_time),
    (pa.types.is_integer, _clean_integer),
    (pa.types.is_boolean, _clean_flag),
)


def _json_value(value: Any) -> str:
    if isinstance(value, str):
        try:
            json.loads(value, parse_constant=_refuse_constant)
        except (ValueError, RecursionError):
            return json_text(value)
        return _clean_text(value)
    return json_text(value)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _jsonable(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_jsonable(item) for item in value]
    return value


def _dump_other(value: Any) -> Any:
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, PurePath):
        return str(value)
    raise TypeError(f"JSON cannot hold a {type(value).__name__}")
