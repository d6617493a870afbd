"""What a report is made of: one run's rows, read back from the warehouse."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from schemas.errors import RunError

Row = dict[str, Any]

KEYS: dict[str, tuple[str, ...]] = {
    "runs": ("run_id",),
    "datasets": ("dataset",),
    "profiles": ("dataset", "arm"),
    "plans": ("engine_id", "option"),
    "engines": ("engine_id",),
    "cells": ("cell_id",),
    "samples": ("dataset", "sample_id"),
    "requests": ("request_id",),
    "scores": ("dataset", "sample_id", "arm", "repeat", "metric", "metric_version"),
    "metrics": ("scope", "name", "arm", "cell_id"),
    "comparisons": ("baseline_run_id", "dataset", "metric", "candidate_arm", "baseline_arm", "cell_id"),
    "telemetry": ("ts", "device"),
    "grammars": ("grammar_id", "backend"),
}
"""What identifies a row within its run, by table."""

_JSON: dict[str, tuple[str, ...]] = {
    "runs": ("config",),
    "plans": ("value", "default_value"),
    "engines": ("requested", "resolved"),
    "samples": ("input", "messages", "target"),
    "requests": ("sampling",),
    "metrics": ("details",),
}
_UNREAD = ("raw", "output_token_ids", "gaps_ms", "gap_tokens")
"""Long columns that no section shows; left behind so that the process that writes the report stays small."""


@dataclass(frozen=True, kw_only=True)
class ReportData:
    """One run's rows by table, each row once (its last revision; of a request, its last attempt).

    JSON columns are decoded, MAP columns are dicts. Raises nothing by itself: a table without rows is an empty list.
    """

    run: Row
    datasets: list[Row] = field(default_factory=list)
    profiles: list[Row] = field(default_factory=list)
    plans: list[Row] = field(default_factory=list)
    engines: list[Row] = field(default_factory=list)
    cells: list[Row] = field(default_factory=list)
    samples: list[Row] = field(default_factory=list)
    requests: list[Row] = field(default_factory=list)
    scores: list[Row] = field(default_factory=list)
    metrics: list[Row] = field(default_factory=list)
    comparisons: list[Row] = field(default_factory=list)
    telemetry: list[Row] = field(default_factory=list)
    grammars: list[Row] = field(default_factory=list)

    @property
    def run_id(self) -> str:
        """The run's id."""
        return str(self.run["run_id"])

    @property
    def dataset_names(self) -> list[str]:
        """Datasets in the order in which the run has them."""
        named = [row["dataset"] for row in self.datasets] + [row["dataset"] for row in self.samples]
        return list(dict.fromkeys(named))

    @property
    def arms(self) -> list[str]:
        """Arms that made requests, `free` first, then `guided`, then others."""
        found = {row["arm"] for row in self.requests if row.get("arm")}
        return sorted(found, key=arm_order)

    @property
    def generated(self) -> list[Row]:
        """The quality phase's requests that generate text."""
        return [row for row in self.requests if row.get("kind") == "generate" and row.get("phase") == "quality"]


def arm_order(arm: str | None) -> tuple[int, str]:
    """The sort key that puts `free` before `guided` before every other arm."""
    known = ("free", "guided")
    return (known.index(arm) if arm in known else len(known), arm or "")


def outcome(row: Row) -> str:
    """A request's status, but `invalid` where the engine was content and the validator was not (as in a free arm)."""
    return "invalid" if row["status"] == "ok" and row.get("valid") is False else str(row["status"])


def _decoded(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except json.JSONDecodeError:
        return value


def _rank(row: Row) -> tuple[int, int]:
    revision, attempt = row.get("revision"), row.get("attempt")
    return (attempt if isinstance(attempt, int) else 0, revision if isinstance(revision, int) else 0)


def _rows(table: str, rows: Iterable[Row]) -> list[Row]:
    last: dict[tuple[Any, ...], Row] = {}
    for raw in rows:
        row = {name: value for name, value in raw.items() if name not in _UNREAD}
        for name in _JSON.get(table, ()):
            if name in row:
                row[name] = _decoded(row[name])
        key = tuple(row.get(name) for name in KEYS[table])
        if key not in last or _rank(row) >= _rank(last[key]):
            last[key] = row
    return list(last.values())


def from_tables(*, tables: Mapping[str, Iterable[Row]], run_id: str) -> ReportData:
    """The report's data from rows in the shape of the data dictionary, by table name. Raises RunError without a run."""
    runs = [row for row in _rows("runs", tables.get("runs", ())) if row.get("run_id") == run_id]
    if not runs:
        raise RunError(f"the warehouse has no run {run_id}")
    read = {table: _rows(table, tables.get(table, ())) for table in KEYS if table != "runs"}
    names = list(dict.fromkeys(row["dataset"] for row in [*read["datasets"], *read["samples"]]))
    read["samples"].sort(key=lambda row: (names.index(row["dataset"]), row.get("row_index") or 0))
    read["telemetry"] = sorted((row for row in read["telemetry"] if row.get("ts")), key=lambda row: row["ts"])
    return ReportData(run=runs[-1], **read)


def load_report_data(*, home: Path, run_id: str) -> ReportData:
    """Read one run from the warehouse's Parquet under `home`. Raises RunError if there is no such run."""
    from warehouse.parquet import read_rows  # noqa: PLC0415 - brings pyarrow, which drawing a report does not need
    from warehouse.schema import TABLES  # noqa: PLC0415 - the same

    def read(table: str) -> list[Row]:
        columns = [name for name in TABLES[table].names if name not in _UNREAD]
        return read_rows(home, table, run_id, columns=columns)

    return from_tables(tables={table: read(table) for table in KEYS}, run_id=run_id)
