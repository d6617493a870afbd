"""A row as it lies in its source, and the canonical JSON that gives a row its identity."""

import base64
import datetime
import decimal
import hashlib
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasks.config.nearest import nearest as nearest_name


@dataclass(frozen=True, slots=True, kw_only=True)
class RawRow:
    """One row. index counts from 0, through all files of the source; raw is the row's own bytes for JSONL and JSON,
    else its canonical JSON in UTF-8; line counts from 1, None where the source has no lines; file is where it lies."""

    index: int
    raw: bytes
    fields: dict[str, Any]
    line: int | None
    file: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A row that a run uses. sample_id is `<dataset>:<the row's own id, or its hash and occurrence number>`."""

    sample_id: str
    row_index: int
    raw: bytes
    fields: dict[str, Any]


def canonical_json(value: Any) -> str:
    """The one text of a JSON value: keys sorted, no white space, ASCII only, so that lone surrogates survive."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def sha256_hex(data: bytes | str) -> str:
    """sha256 in hex; text is hashed as UTF-8, lone surrogates included."""
    return hashlib.sha256(data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data).hexdigest()


def jsonable(value: Any) -> Any:
    """An Arrow value as JSON can hold it: times as ISO 8601, decimals as text, bytes as base64, NaN as null
    (which is how a data frame writes a missing number), infinities as text."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None if math.isnan(value) else str(value)
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, dict):
        return {str(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(item) for item in value]
    return _scalar_text(value)


def _scalar_text(value: Any) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, datetime.timedelta | decimal.Decimal):
        return str(value)
    raise TypeError(f"a value of type {type(value).__name__} has no JSON form")


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that `name` was most likely meant to be; else all of them, if they are few."""
    names = [str(item) for item in known]
    close = nearest_name(name, names)
    if close is not None:
        return f"did you mean {close!r}?"
    if not names:
        return None
    shown = ", ".join(sorted(names)[:20])
    return f"the columns are {shown}" + (", …" if len(names) > 20 else "")
