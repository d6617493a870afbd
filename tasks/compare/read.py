"""What a comparison reads of a run."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

from schemas.errors import ConfigError
from schemas.metric import Score
from tasks.score.registry import MetricError, metric
from warehouse.parquet import read_rows
from warehouse.query import query
from warehouse.schema.table import literal

Row = dict[str, Any]
SampleKey = tuple[str, str]
"""(dataset, sample_id)."""

PERF = "perf."
"""What the names of measured speed begin with."""
SATURATE = "saturate"
"""The point of a search for the knee: it has no cells of its own, its probes have."""

_SCORE = [
    "dataset",
    "sample_id",
    "arm",
    "repeat",
    "metric",
    "metric_version",
    "request_id",
    "value",
    "extracted",
    "ties",
    "reason",
    "base_metric",
    "numerator",
    "denominator",
]
_SAMPLE = ["dataset", "sample_id", "target", "choices", "prompt_hash", "cluster", "window_tokens"]
_IDS_AT_ONCE = 200


@dataclass(frozen=True, kw_only=True)
class RecordedRun:
    """One run's rows without its samples. Columns with JSON are parsed."""

    run: Row
    datasets: dict[str, Row]
    engines: list[Row]
    metrics: list[Row]
    cells: list[Row] = field(default_factory=list)

    @property
    def run_id(self) -> str:
        return str(self.run["run_id"])

    @property
    def config(self) -> Mapping[str, Any]:
        """The resolved config; empty where none was recorded."""
        config = self.run["config"]
        return config if isinstance(config, dict) else {}

    @property
    def model(self) -> str | None:
        """The model's name, of the config or of the engine."""
        model = self.config.get("model")
        if isinstance(model, dict) and model.get("name"):
            return str(model["name"])
        return next((str(row["model"]) for row in self.engines if row["model"]), None)

    @cached_property
    def measured(self) -> dict[str, list[Row]]:
        """The rows of `metrics` over the repeats of each measured point, by its point_id."""
        points = {row["point_id"] for row in self.cells} - {None}
        found: dict[str, list[Row]] = {}
        for row in self.metrics:
            own = row["cell_id"]
            if own is not None and row["name"].startswith(PERF) and (own in points or own.endswith(f"-{SATURATE}")):
                found.setdefault(own, []).append(row)
        return found


@dataclass(frozen=True, kw_only=True)
class RunRows(RecordedRun):
    """All of one run that two are compared by."""

    scores: list[Score]
    samples: dict[SampleKey, Row]

    @cached_property
    def arms(self) -> list[str]:
        """The arms with scores, then those that were measured only."""
        measured = (row["arm"] for rows in self.measured.values() for row in rows if row["arm"] is not None)
        return list(dict.fromkeys((*(score.arm for score in self.scores), *measured)))

    @cached_property
    def _aggregates(self) -> dict[str, Row]:
        return {row["name"]: row for row in self.metrics if row["scope"] == "dataset"}

    def aggregate(self, name: str) -> Row | None:
        """What the run recorded of `<dataset>.<metric>`, in whichever arm."""
        return self._aggregates.get(name)


def read_run(home: Path, run_id: str) -> RunRows:
    """Reads it. Raises ConfigError for a run that has neither scores nor measured load, AssayError for files that
    cannot be read."""
    scores = [Score(**row) for row in read_rows(home, "scores", run_id, columns=_SCORE)]
    samples = read_rows(home, "samples", run_id, columns=_SAMPLE, parse_json=True) if scores else []
    found = RunRows(
        **_recorded(home, run_id),
        scores=scores,
        samples={(row["dataset"], row["sample_id"]): row for row in samples},
    )
    if not scores and not found.measured:
        status = found.run["status"]
        why = "it has not ended" if status == "running" else f"it is {status}"
        raise ConfigError.one(f"run {run_id} has no scores to compare ({why})", suggestion="`assay runs` lists others")
    return found


def read_recorded(home: Path, run_id: str) -> RecordedRun:
    """Reads it without its samples. Raises AssayError for files that cannot be read."""
    return RecordedRun(**_recorded(home, run_id))


def _recorded(home: Path, run_id: str) -> dict[str, Any]:
    [run] = read_rows(home, "runs", run_id, parse_json=True)
    return {
        "run": run,
        "datasets": {row["dataset"]: row for row in read_rows(home, "datasets", run_id)},
        "engines": read_rows(home, "engines", run_id),
        "metrics": read_rows(home, "metrics", run_id, parse_json=True),
        "cells": read_rows(home, "cells", run_id, parse_json=True),
    }


class Kind(NamedTuple):
    """How a metric is read. over_samples: see `schemas.metric.MetricInfo`."""

    unit: str
    direction: Literal["higher", "lower"]
    over_samples: str


def kind_of(name: str, *, base: str, sides: Iterable[RunRows], dataset: str) -> Kind:
    """A metric's unit and direction: as a run recorded them, so that a metric which is not installed here can still be
    compared; else as the metric itself says. base: the metric behind a name of one's own. Raises ConfigError where
    neither knows it."""
    for side in sides:
        row = side.aggregate(f"{dataset}.{name}")
        if row is not None and row["direction"] in ("higher", "lower"):
            over_samples = (row["details"] or {}).get("over_samples", "mean")
            return Kind(str(row["unit"] or ""), "lower" if row["direction"] == "lower" else "higher", over_samples)
    try:
        info = metric(base).info
    except MetricError as error:
        raise ConfigError.one(
            f"{dataset}.{name}: neither run says whether more is better, and no such metric is installed here",
            suggestion=error.suggestion,
        ) from error
    return Kind(info.unit, info.direction, info.over_samples)


def answer_counts(home: Path, run_id: str, *, arms: Iterable[str]) -> tuple[int, int]:
    """(requests of these arms in the quality phase, those of them whose answer was taken from an earlier run)."""
    chosen = ", ".join(literal(arm) for arm in arms)
    sql = f"""SELECT count(*), count(*) FILTER (WHERE reused) FROM requests
WHERE run_id = {literal(run_id)} AND arm IN ({chosen}) AND (phase IS NULL OR phase = 'quality')"""  # noqa: S608 - quoted
    [(answers, reused)] = query(home=home, sql=sql).rows
    return int(answers), int(reused)


def outputs(home: Path, run_id: str, *, request_ids: Sequence[str]) -> dict[str, str]:
    """The texts of these answers, by request."""
    found: dict[str, str] = {}
    for start in range(0, len(request_ids), _IDS_AT_ONCE):
        ids = ", ".join(literal(each) for each in request_ids[start : start + _IDS_AT_ONCE])
        sql = f"""SELECT request_id, output FROM requests
WHERE run_id = {literal(run_id)} AND request_id IN ({ids}) AND output IS NOT NULL"""  # noqa: S608 - quoted
        found.update(query(home=home, sql=sql).rows)
    return found


def prompt(home: Path, run_id: str, *, key: SampleKey) -> str | None:
    """One sample's prompt as it was rendered."""
    dataset, sample_id = (literal(each) for each in key)
    sql = f"""SELECT prompt FROM samples
WHERE run_id = {literal(run_id)} AND dataset = {dataset} AND sample_id = {sample_id}"""  # noqa: S608 - quoted
    rows = query(home=home, sql=sql).rows
    return None if not rows or rows[0][0] is None else str(rows[0][0])
