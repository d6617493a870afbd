"""A dataset's rows with their identity: what the rest of a run joins by."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from schemas.dataset import DatasetSource, HubDatasetSource, NamedDataset
from schemas.errors import ConfigError
from tasks.config.locate import relative_to_here
from tasks.dataset.rows import RawRow, canonical_json, nearest, sha256_hex
from tasks.dataset.sources import file_fingerprint, read_rows
from tasks.dataset.unicode import valid_unicode


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A row that a run uses. sample_id is `<dataset>:<the row's own id, or its hash and occurrence number>`."""

    sample_id: str
    row_index: int
    raw: bytes
    fields: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedDataset:
    """rows: the first `limit` of them; rows_total: all that the source has; fingerprint: sha256 of the content;
    columns: every field that any row has, in the order they first come; shot_pool: the rows that few-shot examples are
    chosen from, all of them whatever `limit` says, so that a sample's examples do not move with it."""

    rows: list[Row]
    rows_total: int
    fingerprint: str
    columns: list[str]
    warnings: list[str]
    shot_pool: list[Row] = field(default_factory=list)
    shot_columns: list[str] = field(default_factory=list)


def load_rows(dataset: NamedDataset) -> LoadedDataset:
    """Reads a dataset whole, keeps its first `limit` rows, and the rows for its few-shot examples.

    The examples' rows are named like the dataset's own, so that a row that lies in both is never its own example.
    Raises ConfigError: a broken source (see read_rows), no rows, an id column that is missing or names two rows.
    """
    config, shots = dataset.config, dataset.config.few_shot
    own_pool = shots.n > 0 and shots.source is None
    whole = _load(dataset, config.source, limit=None if own_pool else config.limit, key="source")
    if own_pool:
        return replace(whole, rows=whole.rows[: config.limit], shot_pool=whole.rows, shot_columns=whole.columns)
    if shots.n > 0 and shots.source is not None:
        pool = _load(dataset, shots.source, limit=None, key="few_shot.source")
        return replace(whole, shot_pool=pool.rows, shot_columns=pool.columns)
    return whole


def _load(dataset: NamedDataset, source: DatasetSource, *, limit: int | None, key: str) -> LoadedDataset:
    name, id_field = dataset.name, dataset.config.id_field
    file = Path(dataset.path) if dataset.path else None
    data_file = None if isinstance(source, HubDatasetSource) else Path(source.path)
    rows: list[Row] = []
    columns: dict[str, None] = {}
    named: dict[str, tuple[int, int | None]] = {}
    seen: dict[str, int] = {}
    repeated = total = 0
    for raw in read_rows(source, file=file, key=key):
        total += 1
        columns.update(dict.fromkeys(raw.fields))
        if id_field is not None:
            own = _own_id(raw, id_field=id_field, file=file, data_file=data_file)
            if own in named:
                second = (raw.index, raw.line)
                raise _twice(own, id_field=id_field, first=named[own], second=second, file=data_file or file)
            named[own] = (raw.index, raw.line)
        else:
            digest = sha256_hex(canonical_json(raw.fields))[:16]
            occurrence = seen.get(digest, 0)
            seen[digest] = occurrence + 1
            repeated += occurrence > 0
            own = f"{digest}-{occurrence}"
        if limit is None or len(rows) < limit:
            rows.append(Row(sample_id=f"{name}:{own}", row_index=raw.index, raw=raw.raw, fields=raw.fields))
    if not rows:
        what = "its source" if data_file is None else str(relative_to_here(data_file))
        raise ConfigError.one(
            f"the dataset {name} is empty: {what} has no rows",
            file=file,
            key=key if data_file is None else f"{key}.path",
            suggestion="is it the one you meant?",
        )
    warnings = [f"{name}: {repeated} of {total} rows repeat an earlier row word for word"] if repeated else []
    return LoadedDataset(
        rows=rows,
        rows_total=total,
        fingerprint=file_fingerprint(source, file=file, key=key),
        columns=list(columns),
        warnings=warnings,
    )


def _own_id(raw: RawRow, *, id_field: str, file: Path | None, data_file: Path | None) -> str:
    where = f"row {raw.index}" + (f" (line {raw.line})" if raw.line else "")
    if id_field not in raw.fields:
        at_fault = (
            file if raw.index == 0 or data_file is None else data_file
        )  # other rows have it: then the row lacks it
        raise ConfigError.one(
            f"{where} has no column {id_field!r}",
            file=at_fault,
            line=None if at_fault is file else raw.line,
            key="id_field",
            suggestion=nearest(id_field, raw.fields),
        )
    value = raw.fields[id_field]
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise ConfigError.one(
            f"{where} has {value!r} in its id column {id_field!r}",
            file=data_file or file,
            line=None if data_file is None else raw.line,
            key="id_field",
            suggestion="an id is a text or a whole number",
        )
    return valid_unicode(str(value))[0]


def _twice(
    own: str, *, id_field: str, first: tuple[int, int | None], second: tuple[int, int | None], file: Path | None
) -> ConfigError:
    places = [f"row {index}" + (f" (line {line})" if line else "") for index, line in (first, second)]
    return ConfigError.one(
        f"{places[0]} and {places[1]} have the same {id_field}: {own!r}",
        file=file,
        line=second[1],
        key="id_field",
        suggestion="make the ids unique, or leave `id_field` out: rows are then named by their content",
    )
