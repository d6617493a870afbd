"""A dataset's rows with their identity: what the rest of a run joins by. Only what is asked for is held in memory."""

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from schemas.dataset import NamedDataset
from schemas.errors import ConfigError
from schemas.source import DatasetSource
from tasks.config.locate import relative_to_here
from tasks.dataset.pick import ShotPool, picked
from tasks.dataset.rows import RawRow, Row, canonical_json, nearest, sha256_hex
from tasks.dataset.sources import file_fingerprint, read_rows
from tasks.dataset.unicode import valid_unicode

__all__ = ["LoadedDataset", "Row", "load_rows", "survey_rows", "used_rows"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedDataset:
    """rows: the first `limit` of them, or the `sample`; rows_total: all that the source has; fingerprint: sha256 of the
    content; columns: every field that any row has, in the order they first come; shot_pool: the rows that few-shot
    examples are chosen from, whatever `limit` says, so that a sample's examples do not move with it; shot_columns:
    their fields, None where that is `columns`."""

    rows: list[Row]
    rows_total: int
    fingerprint: str
    columns: list[str]
    warnings: list[str]
    shot_pool: list[Row] = field(default_factory=list)
    shot_columns: list[str] = field(default_factory=list)


def load_rows(dataset: NamedDataset) -> LoadedDataset:
    """Reads a dataset once; keeps the rows that it uses, and those for its few-shot examples.

    The examples' rows are named like the dataset's own, so that a row that lies in both is never its own example.
    Raises ConfigError: a broken source (see read_rows), no rows, an id column that is missing or names two rows, an
    example that is not there.
    """
    return _load(dataset, keep=True)


def survey_rows(dataset: NamedDataset) -> LoadedDataset:
    """As load_rows, and raises the same, but `rows` is empty: `used_rows` reads them again, one by one."""
    return _load(dataset, keep=False)


def used_rows(dataset: NamedDataset) -> Iterator[Row]:
    """The rows that load_rows would keep, in their order, read anew and held one at a time (with `sample`, all of the
    sample). For a dataset that load_rows or survey_rows has found in order."""
    config = dataset.config
    kept = picked(limit=config.limit, sample=config.sample)
    reading = _Reading(dataset, config.source, key="source")
    if config.sample is not None:
        for row in reading:
            kept.offer(row)
        yield from kept.rows()
        return
    for count, row in enumerate(reading):
        if config.limit is not None and count == config.limit:
            return
        yield row


def _load(dataset: NamedDataset, *, keep: bool) -> LoadedDataset:
    config, shots = dataset.config, dataset.config.few_shot
    pool = ShotPool(dataset)
    kept = picked(limit=config.limit, sample=config.sample)
    reading = _Reading(dataset, config.source, key="source")
    for row in reading:
        if keep:
            kept.offer(row)
        if pool.from_dataset:
            pool.offer(row)
    reading.check_ids()
    shot_columns = list(reading.columns) if pool.from_dataset else []
    if shots.n > 0 and shots.source is not None:
        examples = _Reading(dataset, shots.source, key="few_shot.source")
        for row in examples:
            pool.offer(row)
        examples.check_ids()
        shot_columns = list(examples.columns)
    shot_rows = pool.rows()
    if shots.n > 0 and shots.examples is not None:
        shot_columns = [name for name in shot_rows[0].fields if all(name in row.fields for row in shot_rows)]
    return LoadedDataset(
        rows=kept.rows(),
        rows_total=reading.total,
        fingerprint=file_fingerprint(config.source, file=reading.file, key="source"),
        columns=list(reading.columns),
        warnings=reading.warnings(),
        shot_pool=shot_rows,
        shot_columns=shot_columns,
    )


class _Reading:
    """One pass over a source's rows, giving each its identity. Of the rows it holds nothing but, for each, the hash of
    its id or of its content. Iterating raises ConfigError for what is wrong with a row, and in the end for no rows."""

    def __init__(self, dataset: NamedDataset, source: DatasetSource, *, key: str) -> None:
        self.file = Path(dataset.path) if dataset.path else None
        self.total = 0
        self.columns: dict[str, None] = {}
        self._dataset = dataset
        self._source = source
        self._key = key
        self._id_hashes = array("q")
        self._seen: dict[int, int] = {}
        self._repeated = 0

    def __iter__(self) -> Iterator[Row]:
        name, id_field = self._dataset.name, self._dataset.config.id_field
        for raw in self._raw_rows():
            self.total += 1
            if not raw.fields.keys() <= self.columns.keys():
                self.columns.update(dict.fromkeys(raw.fields))
            if id_field is None:
                own = self._own_content(raw)
            else:
                own = _own_id(raw, id_field=id_field, file=self.file)
                self._id_hashes.append(hash(own))
            yield Row(sample_id=f"{name}:{own}", row_index=raw.index, raw=raw.raw, fields=raw.fields)
        if not self.total:
            raise self._empty()

    def _raw_rows(self) -> Iterator[RawRow]:
        return read_rows(self._source, file=self.file, key=self._key)

    def _own_content(self, raw: RawRow) -> str:
        """The hash of what stands in the row, and how many such rows came before."""
        digest = sha256_hex(canonical_json(raw.fields))[:16]
        number = int(digest, 16)
        occurrence = self._seen.get(number, 0)
        self._seen[number] = occurrence + 1
        self._repeated += occurrence > 0
        return f"{digest}-{occurrence}"

    def check_ids(self) -> None:
        """Raises ConfigError where two of the rows read have the same id. Equal hashes are looked up in the source, so
        that no id has to be held while it is read."""
        hashes = np.frombuffer(self._id_hashes, dtype=np.int64)
        if len(hashes) == len(unique := np.unique(hashes)):
            return
        del unique
        ordered = np.sort(hashes)
        suspects = set(ordered[1:][ordered[1:] == ordered[:-1]].tolist())
        id_field = str(self._dataset.config.id_field)
        first: dict[str, RawRow] = {}
        for raw in self._raw_rows():
            own = _own_id(raw, id_field=id_field, file=self.file)
            if hash(own) not in suspects:
                continue
            if own in first:
                raise _twice(own, id_field=id_field, first=first[own], second=raw, config=self.file)
            first[own] = raw

    def warnings(self) -> list[str]:
        """What is odd about the rows read."""
        if not self._repeated:
            return []
        return [f"{self._dataset.name}: {self._repeated} of {self.total} rows repeat an earlier row word for word"]

    def _empty(self) -> ConfigError:
        path = getattr(self._source, "path", None)
        of_hub = path is None
        what = "its source" if path is None else str(relative_to_here(Path(path)))
        return ConfigError.one(
            f"the dataset {self._dataset.name} is empty: {what} has no rows",
            file=self.file,
            key=self._key if of_hub else f"{self._key}.path",
            suggestion="is it the one you meant?",
        )


def _own_id(raw: RawRow, *, id_field: str, file: Path | None) -> str:
    where = f"row {raw.index}" + (f" (line {raw.line})" if raw.line else "")
    if id_field not in raw.fields:
        # Where the first row lacks it, the name is at fault; where only another one does, that row is.
        at_fault = file if raw.index == 0 or raw.file is None else raw.file
        raise ConfigError.one(
            f"{where} has no column {id_field!r}",
            file=at_fault,
            line=None if at_fault is file else raw.line,
            key="id_field",
            suggestion=nearest(id_field, raw.fields),
        )
    value: Any = raw.fields[id_field]
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise ConfigError.one(
            f"{where} has {value!r} in its id column {id_field!r}",
            file=raw.file or file,
            line=raw.line,
            key="id_field",
            suggestion="an id is a text or a whole number",
        )
    return valid_unicode(str(value))[0]


def _twice(own: str, *, id_field: str, first: RawRow, second: RawRow, config: Path | None) -> ConfigError:
    def place(row: RawRow) -> str:
        in_file = f" of {row.file.name}" if row.file is not None and row.file != second.file else ""
        return f"row {row.index}" + (f" (line {row.line}{in_file})" if row.line else in_file)

    return ConfigError.one(
        f"{place(first)} and {place(second)} have the same {id_field}: {own!r}",
        file=second.file or config,
        line=second.line,
        key="id_field",
        suggestion="make the ids unique, or leave `id_field` out: rows are then named by their content",
    )
