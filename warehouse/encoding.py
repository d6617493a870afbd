"""How Parquet files are laid out: compression, encodings, sizes of row groups. What reads them need not know."""

from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]

from warehouse.schema import Table

_OWN_TEXT = frozenset(
    {
        *("request_id", "request_key", "sample_id", "output", "reasoning", "error", "prompt", "prompt_hash", "raw"),
        *("input", "messages", "target", "extracted", "details", "config", "requested", "resolved", "schema"),
    }
)
"""Text that differs from row to row: a dictionary of it costs time and saves nothing."""
_SEARCHED_TEXT = frozenset({"output", "reasoning"})
"""Most of a request's size, and read whole by whoever looks for some answers: packed so that it is unpacked fast."""
_GROUP_BYTES = 96 << 20
_GROUP_ROWS = 122_880
"""The most rows that DuckDB reads as one piece of work."""


def writer_options(table: Table) -> dict[str, Any]:
    """Keywords for pyarrow's Parquet writers.

    Numbers that differ in each row are split by bytes, so that the bytes that hardly change lie together: that is
    smaller and quicker under zstd than the plain values. Only text that repeats gets a dictionary.
    """
    split = {}
    for column in table:
        kind = column.type.value_type if pa.types.is_list(column.type) else column.type
        if pa.types.is_floating(kind) or (kind != column.type and pa.types.is_int32(kind)):
            split[f"{column.name}.list.element" if kind != column.type else column.name] = "BYTE_STREAM_SPLIT"
    packed = {
        leaf: "lz4" if column.name in _SEARCHED_TEXT else "zstd"
        for column in table
        for leaf in _leaves(pa.field(column.name, column.type))
    }
    repeating = [
        column.name
        for column in table
        if (pa.types.is_string(column.type) and column.name not in _OWN_TEXT) or pa.types.is_nested(column.type)
    ]
    dictionary = [
        leaf for name in repeating for leaf in _leaves(pa.field(name, table.column(name).type)) if leaf not in split
    ]
    return {"compression": packed, "use_dictionary": dictionary, "column_encoding": split}


def rows_a_group(*, rows: int, size_bytes: int) -> int:
    """How many rows make a row group, for rows that take size_bytes in all. Bounds what a writer and a reader hold at
    once: a prompt may be 100 KB."""
    each = max(1, size_bytes // max(1, rows))
    return max(1, min(_GROUP_ROWS, _GROUP_BYTES // each))


def _leaves(field: pa.Field) -> list[str]:
    """The paths of a field's values as Parquet spells them."""
    kind = field.type
    if pa.types.is_list(kind):
        return _under(field.name, "list", _leaves(pa.field("element", kind.value_type)))
    if pa.types.is_map(kind):
        return [f"{field.name}.key_value.key", f"{field.name}.key_value.value"]
    if pa.types.is_struct(kind):
        parts = [leaf for index in range(kind.num_fields) for leaf in _leaves(kind.field(index))]
        return [f"{field.name}.{leaf}" for leaf in parts]
    return [field.name]


def _under(name: str, middle: str, leaves: list[str]) -> list[str]:
    return [f"{name}.{middle}.{leaf}" for leaf in leaves]
