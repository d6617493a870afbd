"""Which rows are kept: the first ones, a random part of them, and those that few-shot examples are chosen from."""

import hashlib
import heapq
from pathlib import Path
from typing import Protocol

from schemas.dataset import NamedDataset, SampleOf
from schemas.errors import ConfigError
from tasks.dataset.rows import Row, canonical_json, nearest

_KNOWN_IDS = 1000
"""How many ids are remembered to suggest one of them."""


class Picked(Protocol):
    """Is offered every row of a pass, and keeps some."""

    def offer(self, row: Row) -> None:
        """One more row, in the order of the source."""

    def rows(self) -> list[Row]:
        """The rows kept, in the order of the source."""


def picked(*, limit: int | None, sample: SampleOf | None) -> Picked:
    """The first `limit` rows (all without it); with a sample, its rows, and with both, the first of its draw, so that a
    smaller sample is a part of the larger one."""
    if sample is None:
        return _First(limit)
    return _Drawn(sample.n if limit is None else min(sample.n, limit), seed=sample.seed)


class _First:
    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self._rows: list[Row] = []

    def offer(self, row: Row) -> None:
        if self._limit is None or len(self._rows) < self._limit:
            self._rows.append(row)

    def rows(self) -> list[Row]:
        return self._rows


class _Drawn:
    """The n rows with the least sha256 of seed and sample id: no more than those are held."""

    def __init__(self, n: int, *, seed: int) -> None:
        self._n = n
        self._seed = seed
        self._heap: list[tuple[int, int, Row]] = []  # the greatest of them first; row_index differs for every row

    def offer(self, row: Row) -> None:
        place = draw_of(row.sample_id, seed=self._seed)
        if len(self._heap) < self._n:
            heapq.heappush(self._heap, (-place, -row.row_index, row))
        elif -place > self._heap[0][0]:
            heapq.heapreplace(self._heap, (-place, -row.row_index, row))

    def rows(self) -> list[Row]:
        return sorted((row for _, _, row in self._heap), key=lambda row: row.row_index)


def draw_of(sample_id: str, *, seed: int) -> int:
    """A sample's place in the draw of a seed: sha256 of both, as a number."""
    text = f"{seed}\0{sample_id}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.sha256(text).digest(), "big")


class ShotPool:
    """The rows that a dataset's few-shot examples are chosen from: no more of them than can be chosen.

    `first`: the first rows, as many as hold one content more than there are examples (a row is never its own example,
    nor its copy's). `fixed`: the rows of the list. `random`: all that are offered."""

    def __init__(self, dataset: NamedDataset) -> None:
        self._few = dataset.config.few_shot
        self._dataset = dataset
        self.from_dataset = self._few.n > 0 and self._few.source is None and self._few.examples is None
        self._rows: list[Row] = []
        self._contents: set[str] = set()
        self._wanted = {f"{dataset.name}:{own}": place for place, own in enumerate(self._few.ids or [])}
        self._known: list[str] = []

    def offer(self, row: Row) -> None:
        """One more row of the source of the examples."""
        if self._few.pick == "fixed":
            if row.sample_id in self._wanted:
                self._rows.append(row)
            if len(self._known) < _KNOWN_IDS:
                self._known.append(row.sample_id.removeprefix(f"{self._dataset.name}:"))
        elif self._few.pick == "random":
            self._rows.append(row)
        elif len(self._contents) <= self._few.n:
            self._rows.append(row)
            self._contents.add(canonical_json(row.fields))

    def rows(self) -> list[Row]:
        """The pool: in the order of the source, of a list in its own. Raises ConfigError for an id that no row has."""
        name = self._dataset.name
        if self._few.n > 0 and self._few.examples is not None:
            return [
                Row(sample_id=f"{name}:few_shot.examples.{place}", row_index=place, raw=b"", fields=fields)
                for place, fields in enumerate(self._few.examples)
            ]
        if self._few.pick != "fixed":
            return self._rows
        missing = self._wanted.keys() - {row.sample_id for row in self._rows}
        if missing:
            sample_id = min(missing, key=self._wanted.__getitem__)
            own = sample_id.removeprefix(f"{name}:")
            hint = nearest(own, self._known)
            raise ConfigError.one(
                f"no row has the id {own!r}",
                file=Path(self._dataset.path) if self._dataset.path else None,
                key=f"few_shot.ids.{self._wanted[sample_id]}",
                suggestion=hint if hint is None or hint.startswith("did you") else None,
            )
        return sorted(self._rows, key=lambda row: self._wanted[row.sample_id])
