"""Runs that come and go as one: a sweep, an ablation or a tuning with the runs that it made, and the runs of a noise
band."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warehouse.parquet import read_rows

_NOISE = "noise"
"""The tag of the runs that a band was measured with, and the beginning of its metrics' names."""

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """head: the row in `runs` of the run that stands for all; members: the rows of those that it made, by run id. A run
    of its own has none."""

    head: Row
    members: tuple[Row, ...] = ()

    @property
    def head_id(self) -> str:
        """The head's run."""
        return str(self.head["run_id"])

    @property
    def rows(self) -> tuple[Row, ...]:
        """All of them, the head first."""
        return (self.head, *self.members)

    @property
    def run_ids(self) -> tuple[str, ...]:
        """All of them, the head first."""
        return tuple(str(row["run_id"]) for row in self.rows)


def families(home: Path, rows: Sequence[Row]) -> list[Family]:
    """Every run once, in the order of the heads' ids. rows: of `runs`, with run_id, parent_run_id and tags.

    A run whose parent is not among them (it was imported without it) is a run of its own."""
    known = {str(row["run_id"]): row for row in rows}
    above = {run_id: str(row["parent_run_id"]) for run_id, row in known.items() if row["parent_run_id"] in known}
    above |= {run_id: head for run_id, head in _of_bands(home, rows) if run_id in known and run_id not in above}
    members: dict[str, list[Row]] = {run_id: [] for run_id in sorted(known)}
    for run_id in sorted(known):
        head = _head(run_id, above)
        if head != run_id:
            members[head].append(known[run_id])
    below = {str(row["run_id"]) for found in members.values() for row in found}
    return [Family(head=known[run_id], members=tuple(members[run_id])) for run_id in members if run_id not in below]


def _head(run_id: str, above: Mapping[str, str]) -> str:
    """The run above all. Rows that came from elsewhere may lead round in a circle: the lowest id is then the head."""
    seen = [run_id]
    while (upper := above.get(seen[-1])) is not None:
        if upper in seen:
            return min(seen[seen.index(upper) :])
        seen.append(upper)
    return seen[-1]


def _of_bands(home: Path, rows: Sequence[Row]) -> Iterator[tuple[str, str]]:
    """Each run that a noise band was measured with, beside the one that has the band."""
    for row in rows:
        if _NOISE not in (row["tags"] or {}):
            continue
        head = str(row["run_id"])
        for metric in read_rows(home, "metrics", head, columns=["scope", "name", "arm", "cell_id", "details"]):
            if str(metric["name"]).startswith(f"{_NOISE}."):
                details = json.loads(metric["details"] or "{}")
                yield from ((str(run_id), head) for run_id in details.get("runs") or () if run_id != head)
