"""What a comparison reads of a run."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
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
class RunRows:
    """One run's rows; of `run`, `config` is parsed."""

    run: Row
    scores: list[Score]
    samples: dict[SampleKey, Row]
    datasets: dict[str, Row]
    engines: list[Row]
    metrics: list[Row]

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
    def arms(self) -> list[str]:
        """The arms with scores."""
        return list(dict.fromkeys(score.arm for score in self.scores))

    @cached_property
    def _aggregates(self) -> dict[str, Row]:
        return {row["name"]: row for row in self.metrics if row["scope"] == "dataset"}

    def aggregate(self, name: str) -> Row | None:
        """What the run recorded of `<dataset>.<metric>`, in whichever arm."""
        return self._aggregates.get(name)


def read_run(home: Path, run_id: str) -> RunRows:
    """Reads it. Raises ConfigError for a run that has no scores, AssayError for files that cannot be read."""
    [run] = read_rows(home, "runs", run_id, parse_json=True)
    scores = [Score(**row) for row in read_rows(home, "scores", run_id, columns=_SCORE)]
    if not scores:
        why = "it has not ended" if run["status"] == "running" else f"it is {run['status']}"
        raise ConfigError.one(f"run {run_id} has no scores to compare ({why})", suggestion="`assay runs` lists others")
    samples = read_rows(home, "samples", run_id, columns=_SAMPLE, parse_json=True)
    return RunRows(
        run=run,
        scores=scores,
        samples={(row["dataset"], row["sample_id"]): row for row in samples},
        datasets={row["dataset"]: row for row in read_rows(home, "datasets", run_id)},
        engines=read_rows(home, "engines", run_id),
        metrics=read_rows(home, "metrics", run_id, parse_json=True),
    )


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
