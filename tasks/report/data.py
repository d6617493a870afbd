"""What a report is made of: one run's rows, read back from the warehouse."""

import json
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from schemas.arm import Arm, arm_kind, arm_name, compared_arms, stored_arms
from schemas.errors import RunError

Row = dict[str, Any]
Made = TypeVar("Made")

KEYS: dict[str, tuple[str, ...]] = {
    "runs": ("run_id",),
    "datasets": ("dataset",),
    "profiles": ("dataset", "arm"),
    "plans": ("engine_id", "option"),
    "engines": ("engine_id",),
    "engine_starts": ("start_id",),
    "cells": ("cell_id",),
    "samples": ("dataset", "sample_id"),
    "requests": ("request_id",),
    "scores": ("dataset", "sample_id", "arm", "repeat", "metric", "metric_version"),
    "metrics": ("scope", "name", "arm", "cell_id"),
    "comparisons": ("baseline_run_id", "dataset", "metric", "candidate_arm", "baseline_arm", "cell_id"),
    "gates": ("gate", "against"),
    "telemetry": ("ts", "device"),
    "steps": ("engine_id", "step"),
    "grammars": ("grammar_id", "backend"),
}
"""What identifies a row within its run, by table."""

_JSON: dict[str, tuple[str, ...]] = {
    "runs": ("config",),
    "plans": ("value", "default_value"),
    "engines": ("requested", "resolved", "predicted"),
    "cells": ("load",),
    "samples": ("target",),
    "metrics": ("details",),
}
_UNREAD: dict[str, frozenset[str]] = {
    "samples": frozenset({"raw", "input", "messages", "prompt_hash", "tags", "cluster", "run_id"}),
    "requests": frozenset(
        {"output_token_ids", "logprobs", "encoded_apart", "gaps_ms", "gap_tokens", "request_key", "sampling",
         "adapter", "validator", "stop_reason", "client_queue_ms", "ttft_text_ms", "prefill_steps",
         "draft_tokens", "accepted_tokens", "engine_id", "reasoning_tokens", "preemptions",
         "energy_allocated_j", "run_id"}
    ),
    "scores": frozenset({"scored_at", "ties", "request_id", "run_id"}),
    "steps": frozenset({"run_id", "graph_mode", "graph_size", "padded_tokens"}),
}  # fmt: skip
"""Columns that no section shows; left behind so that the process that writes the report stays small."""
_OF_LOAD: dict[str, frozenset[str]] = {
    "requests": frozenset({"cell_id", "planned_at"}),
    "steps": frozenset({"cell_id", "prefix_queries", "prefix_hits"}),
}
"""Columns that are shown of measured loads alone."""
_MEASURED = ("request_id", "cell_id", "phase", "arm", "status", "error", "dataset", "prompt_tokens", "output_tokens",
             "planned_at", "sent_at", "ttft_ms", "tpot_ms", "e2e_ms", "queued_ms")  # fmt: skip
"""What is kept of a measured request."""
_PHASES = frozenset({"warmup", "measure", "cooldown"})
_SHORT = 32
"""Texts shorter than this (arms, states, ids) are kept once, however many rows have them."""


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
    engine_starts: list[Row] = field(default_factory=list)
    cells: list[Row] = field(default_factory=list)
    samples: list[Row] = field(default_factory=list)
    requests: list[Row] = field(default_factory=list)
    scores: list[Row] = field(default_factory=list)
    metrics: list[Row] = field(default_factory=list)
    comparisons: list[Row] = field(default_factory=list)
    gates: list[Row] = field(default_factory=list)
    gate_flips: list[Row] = field(default_factory=list)
    """Of other runs than this one: the samples whose value changed since a run that a gate was held against."""
    gate_trend: list[Row] = field(default_factory=list)
    """The gated metrics over the runs of this experiment and model, the oldest first."""
    telemetry: list[Row] = field(default_factory=list)
    steps: list[Row] = field(default_factory=list)
    grammars: list[Row] = field(default_factory=list)
    measured: list[Row] = field(default_factory=list)
    """The requests of measured loads, warm-up and cool-down with them. `requests` has none of these."""
    measured_steps: list[Row] = field(default_factory=list)
    """The engine's steps while a load was measured or warmed up. `steps` has none of these."""
    gaps: dict[str, list[float]] = field(default_factory=dict)
    """Milliseconds between the arrivals of each answer of the one measured cell that is shown over time, by request."""
    earlier_points: list[Row] = field(default_factory=list)
    """Of earlier runs than this one: numbers of the same measured points, and what their answers scored."""

    @property
    def run_id(self) -> str:
        """The run's id."""
        return str(self.run["run_id"])

    def once(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """What `make` gives, made once for these rows: a section, its figure and its table need the same sums."""
        if key not in self._made:
            self._made[key] = make()
        made: Made = self._made[key]
        return made

    @cached_property
    def _made(self) -> dict[Hashable, Any]:
        return {}

    @property
    def load_cells(self) -> list[Row]:
        """The cells of measured loads and of searches for the knee; what was abandoned is none."""
        return [row for row in self.cells if row.get("point_id") is not None]

    @property
    def benchmark(self) -> Mapping[str, Any]:
        """The block `benchmark` as the run had it; empty without one."""
        config = self.run.get("config")
        block = config.get("benchmark") if isinstance(config, dict) else None
        return block if isinstance(block, dict) else {}

    @cached_property
    def positions(self) -> dict[tuple[str, str], int]:
        """The place of each sample in the page's browser, from 0, by (dataset, sample_id)."""
        return {(row["dataset"], row["sample_id"]): index for index, row in enumerate(self.samples)}

    @cached_property
    def dataset_names(self) -> list[str]:
        """Datasets in the order in which the run has them."""
        named = [row["dataset"] for row in self.datasets] + [row["dataset"] for row in self.samples]
        return list(dict.fromkeys(named))

    @cached_property
    def arms(self) -> list[str]:
        """Arms that made requests, `free` first, then `guided`, then others."""
        found = {row["arm"] for row in self.requests if row.get("arm")}
        return sorted(found, key=arm_order)

    @cached_property
    def arm_kinds(self) -> dict[str, str]:
        """`free` or `guided` by arm: what an arm of a name of its own is like."""
        return {"free": "free", "guided": "guided"} | {arm_name(arm): arm_kind(arm) for arm in self._config_arms}

    @cached_property
    def pair(self) -> tuple[str, str] | None:
        """The two arms whose answers the page holds against each other, the baseline first; None with one arm."""
        pairs = [("guided", "free"), *compared_arms(self._config_arms)]
        return next(((two, one) for one, two in pairs if {one, two} <= set(self.arms)), None)

    @cached_property
    def _config_arms(self) -> list[Arm]:
        config = self.run.get("config")
        return stored_arms(config.get("arms") or []) if isinstance(config, dict) else []

    @cached_property
    def generated(self) -> list[Row]:
        """The quality phase's requests that generate text."""
        return [row for row in self.requests if row.get("kind") == "generate" and row.get("phase") == "quality"]


def arm_order(arm: str | None) -> tuple[int, str]:
    """The sort key that puts `free` first, then `guided`, the control, `repair`, and every other arm behind them."""
    known = ("free", "guided", "free_matched", "repair")
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
    unread, decoded = _UNREAD.get(table, frozenset()), _JSON.get(table, ())
    known: dict[str, str] = {}
    for raw in rows:
        row = {}
        for name, value in raw.items():
            if name in unread:
                continue
            if name in decoded:
                row[name] = _decoded(value)
            elif type(value) is str and len(value) < _SHORT:
                row[name] = known.setdefault(value, value)
            else:
                row[name] = value
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
    measured = _take_measured(read)
    return ReportData(run=runs[-1], **read, **measured)


def _take_measured(read: dict[str, list[Row]]) -> dict[str, Any]:
    """Takes what is of measured loads out of `requests` and `steps`, so that nothing about answers can count it."""
    names: dict[Any, Any] = {}
    kept: list[Row] = []
    for row in read["requests"]:
        if row.get("phase") in _PHASES:
            own = {name: row.get(name) for name in _MEASURED}
            kept.append(own | {"cell_id": names.setdefault(own["cell_id"], own["cell_id"])})
    read["requests"] = _without("requests", (row for row in read["requests"] if row.get("phase") not in _PHASES))
    spans = [
        (row.get("warmup_started_at") or row["started_at"], row["ended_at"])
        for row in read["cells"]
        if row.get("kind") not in (None, "quality") and row.get("started_at") and row.get("ended_at")
    ]
    cells = {row["cell_id"] for row in read["cells"] if row.get("kind") not in (None, "quality")}

    def is_measured(row: Row) -> bool:
        # A step of the warm-up names no cell.
        moment = row.get("ts")
        return row.get("cell_id") in cells or (
            moment is not None and any(begin <= moment <= end for begin, end in spans)
        )

    steps = [(is_measured(row), row) for row in read["steps"]]
    read["steps"] = _without("steps", (row for measured, row in steps if not measured))
    return {"measured": kept, "measured_steps": [row for measured, row in steps if measured]}


def _without(table: str, rows: Iterable[Row]) -> list[Row]:
    return [{name: value for name, value in row.items() if name not in _OF_LOAD[table]} for row in rows]


def load_report_data(*, home: Path, run_id: str) -> ReportData:
    """Read one run from the warehouse's Parquet under `home`. Raises RunError if there is no such run."""
    from warehouse.parquet import read_rows  # noqa: PLC0415 - brings pyarrow, which drawing a report does not need
    from warehouse.schema import TABLES  # noqa: PLC0415 - the same

    def read(table: str) -> list[Row]:
        unread = _UNREAD.get(table, frozenset())
        columns = [name for name in TABLES[table].names if name not in unread]
        return read_rows(home, table, run_id, columns=columns)

    data = from_tables(tables=_Reader(read), run_id=run_id)
    if data.measured:
        from tasks.report.benchmark_read import earlier_points, gaps  # noqa: PLC0415 - asks the database

        data = replace(data, gaps=gaps(home, data))
        data = replace(data, earlier_points=earlier_points(home, data))
    if not data.gates:
        return data
    from tasks.report.gates import flips, trend  # noqa: PLC0415 - asks the database, for runs with gates only

    return replace(data, gate_flips=flips(home, data), gate_trend=trend(home, data))


class _Reader(Mapping[str, list[Row]]):
    """Tables that are read when they are asked for, so that no two are held as they came."""

    def __init__(self, read: Callable[[str], list[Row]]) -> None:
        self._read = read

    def __getitem__(self, table: str) -> list[Row]:
        return self._read(table)

    def __iter__(self) -> Iterator[str]:
        return iter(KEYS)

    def __len__(self) -> int:
        return len(KEYS)
