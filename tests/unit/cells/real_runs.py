"""Runs of a real engine, kept small, written into a home of the test's own: as they were, or with a change."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from schemas.sweep import CellResult, CellSpec, CellState
from warehouse.parquet import read_rows, write_rows

KEPT = Path(__file__).parents[2] / "data/warehouse/v2"
FIRST = "20261128T124658-2a50ac"
SECOND = "20261128T125414-120c25"
Row = dict[str, Any]
Change = Callable[[Row], Row | None]

_TABLES = ("runs", "datasets", "engines", "samples", "requests", "scores", "metrics", "telemetry")


def written(home: Path, run_id: str, *, of: str = FIRST, changes: Mapping[str, Change] | None = None) -> str:
    """A kept run under an id of its own. changes: by table, what becomes of each row; None leaves it out.

    A row keeps its revision unless it is changed."""
    for table in _TABLES:
        by_revision: dict[int, list[Row]] = {}
        for row in read_rows(KEPT, table, of):
            changed = (changes or {}).get(table, lambda row: row)(row)
            if changed is not None:
                own = {name: value for name, value in changed.items() if name not in ("run_id", "revision")}
                by_revision.setdefault(changed["revision"], []).append(own)
        for revision, rows in by_revision.items():
            write_rows(home=home, table=table, run_id=run_id, rows=rows, part=f"p{revision}", revision=revision)
    return run_id


def generated(of: str = FIRST) -> list[Row]:
    """The answers of a kept run that were generated."""
    return [row for row in read_rows(KEPT, "requests", of) if row["kind"] == "generate"]


def result(
    index: int, *, repeat: int = 0, run_id: str | None = None, state: CellState = "finished", **more: Any
) -> CellResult:
    """How a cell ended. more: further fields of the result, and of its cell those that only it has."""
    settings = more.pop("settings", {"engine.max_num_seqs": index})
    cell = CellSpec(
        index=index,
        name=more.pop("name", f"max_num_seqs={index}"),
        settings=settings,
        overrides=[f"{key}={value}" for key, value in settings.items()],
        role=more.pop("role", "cell"),
    )
    return CellResult(
        cell=cell, repeat=repeat, order_index=index, run_id=run_id, state=state, **({"seconds": 20.0} | more)
    )
