"""Runs that were never made: scores, answers, samples, engine, as few rows as a comparison reads."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from warehouse.parquet import write_rows

FIRST = "20261120T080000-aaaaaa"
SECOND = "20261121T080000-bbbbbb"
THIRD = "20261122T080000-cccccc"
_START = datetime(2026, 11, 20, 8, tzinfo=UTC)
HOSTILE = "<script>alert(1)</script> ![x](http://evil) | `b` @team #1 $a$ www.evil \x1b[31m \u202e _a_\nnext"

Values = Mapping[str, float | Sequence[float | None] | None]
"""By sample: one value, or one for each repeat; None where it has no score."""


@dataclass(kw_only=True)
class Made:
    """A run. values: by (dataset, metric, arm). targets, prompts, choices, clusters: by sample, over the defaults."""

    run_id: str
    values: Mapping[tuple[str, str, str], Values]
    name: str = "nightly"
    status: str = "finished"
    version: int = 1
    targets: Mapping[str, Any] = field(default_factory=dict)
    prompts: Mapping[str, str] = field(default_factory=dict)
    choices: Mapping[str, list[str]] = field(default_factory=dict)
    clusters: Mapping[str, str] = field(default_factory=dict)
    outputs: Mapping[str, str] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    engine: Mapping[str, Any] = field(default_factory=dict)
    aggregates: Sequence[Mapping[str, Any]] = ()
    tags: Mapping[str, str] = field(default_factory=dict)
    reused: bool = False


def config(**changes: Any) -> dict[str, Any]:
    """A resolved config, as much of it as is compared."""
    dataset = {"name": "d", "config": {"prompt": {"text": "{{ q }}"}}, "sampling": {"temperature": 0.0}}
    return {"name": "nightly", "model": {"name": "tiny"}, "datasets": [dataset], "tags": {}} | changes


def write(home: Path, made: Made) -> str:
    """Writes it; gives its id."""
    ids = sorted({(dataset, sample_id) for (dataset, _, _), values in made.values.items() for sample_id in values})
    started = _START + timedelta(days=(FIRST, SECOND, THIRD).index(made.run_id))
    tables: dict[str, list[dict[str, Any]]] = {
        "runs": [
            {
                "name": made.name,
                "flow": "experiment",
                "status": made.status,
                "started_at": started,
                "ended_at": None if made.status == "running" else started + timedelta(minutes=5),
                "config": config() | dict(made.config),
                "packages": {"vllm": "1", "prefect": "3"},
                "tags": dict(made.tags),
                "host": "h",
                "assay_version": "0.1.0",
            }
        ],
        "datasets": [{"dataset": dataset, "fingerprint": "f", "rows_used": 1} for dataset in {each for each, _ in ids}],
        "engines": [{"engine_id": "e", "kind": "vllm", "model": "tiny", "engine_version": "1.0"} | dict(made.engine)],
        "samples": [_sample(made, *key) for key in ids],
        "scores": list(_scores(made)),
        "requests": list(_requests(made)),
        "metrics": [dict(row) for row in made.aggregates],
    }
    for table, rows in tables.items():
        if rows:
            write_rows(home=home, table=table, run_id=made.run_id, rows=rows, part="p", revision=1)
    return made.run_id


def binary(*, n: int, right: int, flipped_up: int = 0, flipped_down: int = 0) -> dict[str, float]:
    """n samples of which the first `right` are right; then so many of the wrong made right, and of the right wrong."""
    values = {f"s{index:04}": float(index < right) for index in range(n)}
    for index in range(flipped_down):
        values[f"s{index:04}"] = 0.0
    for index in range(right, right + flipped_up):
        values[f"s{index:04}"] = 1.0
    return values


def timing(name: str, value: float | None, *, arm: str | None = "free") -> dict[str, Any]:
    """A timing metric."""
    row = {"scope": "run", "name": f"timing.{name}", "arm": arm, "value": value, "unit": "ms", "direction": "lower"}
    return row | {"n": 3, "n_failed": 0}


def _sample(made: Made, dataset: str, sample_id: str) -> dict[str, Any]:
    prompt = made.prompts.get(sample_id, f"What is {sample_id}?")
    return {
        "dataset": dataset,
        "sample_id": sample_id,
        "prompt": prompt,
        "prompt_hash": f"h{hash(prompt):x}",
        "target": made.targets.get(sample_id, sample_id),
        "choices": made.choices.get(sample_id),
        "cluster": made.clusters.get(sample_id),
    }


def _repeats(value: float | Sequence[float | None] | None) -> Sequence[float | None]:
    return value if isinstance(value, list | tuple) else [value]  # type: ignore[list-item]


def _scores(made: Made) -> Any:
    for (dataset, metric, arm), values in made.values.items():
        for sample_id, value in values.items():
            for repeat, one in enumerate(_repeats(value)):
                yield {
                    "dataset": dataset,
                    "sample_id": sample_id,
                    "arm": arm,
                    "repeat": repeat,
                    "metric": metric,
                    "metric_version": made.version,
                    "request_id": f"{dataset}/{sample_id}/{arm}/{repeat}",
                    "value": one,
                    "extracted": made.outputs.get(sample_id, f"taken {one}"),
                    "reason": "it failed" if one is None else None,
                }


def _requests(made: Made) -> Any:
    asked = {
        (dataset, sample_id, arm, repeat)
        for (dataset, _, arm), values in made.values.items()
        for sample_id, value in values.items()
        for repeat, _ in enumerate(_repeats(value))
    }
    for dataset, sample_id, arm, repeat in sorted(asked):
        yield {
            "request_id": f"{dataset}/{sample_id}/{arm}/{repeat}",
            "attempt": 0,
            "dataset": dataset,
            "sample_id": sample_id,
            "arm": arm,
            "repeat": repeat,
            "kind": "generate",
            "phase": "quality",
            "status": "ok",
            "reused": made.reused,
            "output": made.outputs.get(sample_id, f"{made.run_id} says {sample_id}"),
        }
