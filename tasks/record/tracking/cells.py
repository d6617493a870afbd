"""What MLflow is to know of a sweep, an ablation or a tuning: one run, above those of its cells.

It lies in the experiment that its cells' runs lie in: MLflow shows runs below another one within one experiment only.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tasks.record.tracking import names
from tasks.record.tracking.note import describe_cells
from tasks.record.tracking.publication import TrackedFile, TrackedRun
from warehouse.parquet import read_rows

_FILES = ("report.html", "cells.csv", "engine.yaml", "warnings.txt")
_SETTINGS = ("sweep", "tuning")
"""Keys of the config that hold the file's own content; an ablation has its keys beside each other."""
_LEFT_OUT = ("tags", "cells", "experiments", "experiment", "path", "name", "samples", "experiment_name")
"""Long, or told by tags and name."""

Row = Mapping[str, Any]


def experiment_of(run: Row) -> str:
    """The MLflow experiment of a sweep's run: that of its cells, whose name its config has."""
    return str(run["config"].get("experiment_name") or run["name"])


def cell_of(home: Path, run: Row) -> str | None:
    """What a sweep calls the cell that a run is of, with the number of a further repeat; None for a run of its own."""
    if run["parent_run_id"] is None:
        return None
    columns = ["cell_index", "repeat", "name", "cell_run_id", "revision"]
    cells = read_rows(home, "sweep_cells", run["parent_run_id"], columns=columns)
    own = next((row for row in cells if row["cell_run_id"] == run["run_id"]), None)
    if own is None:
        return None
    return f"{own['name']} ({own['repeat'] + 1})" if own["repeat"] else str(own["name"])


def above_cells(run: Row, cells: Sequence[Row], *, tags: Mapping[str, str], prefect_page: str | None) -> TrackedRun:
    """Its run in MLflow, without children: those are runs of their own, which say below whom they are."""
    return TrackedRun(
        key="",
        name=f"{run['name']} {run['run_id']}",
        started_ms=int(run["started_at"].timestamp() * 1000),
        ended_ms=None if run["ended_at"] is None else int(run["ended_at"].timestamp() * 1000),
        tags={
            **tags,
            "assay.kind": str(run["flow"]),
            "mlflow.note.content": describe_cells(run, cells, prefect_page=prefect_page),
        },
        params=_params(run),
        metrics=_metrics(cells) if run["status"] != "running" else {},
        datasets=[],
    )


def files_of_cells(run: Row, folder: Path) -> list[TrackedFile]:
    """Its page, the table of its cells, the engine that a tuning found, its warnings."""
    if run["warnings"]:
        (folder / "warnings.txt").write_text("\n".join(run["warnings"]) + "\n", encoding="utf-8")
    return [TrackedFile(file=name) for name in _FILES]


def _params(run: Row) -> dict[str, str]:
    """What it was told, by the keys of its file: `matrix.engine.prefill.policy`, `repeats`, `tune.trials`."""
    config = run["config"]
    own = next((config[key] for key in _SETTINGS if isinstance(config.get(key), Mapping)), config)
    told = {key: value for key, value in {"base": config.get("base"), **own}.items() if key not in _LEFT_OUT}
    flat = {}
    for key, value in told.items():
        block = value if isinstance(value, Mapping) else {"": value}
        flat |= {f"{key}.{name}" if name else key: each for name, each in block.items() if each not in (None, [], {})}
    return {names.safe_key(name): names.short(_text(value)) for name, value in flat.items()}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _metrics(cells: Sequence[Row]) -> dict[str, float]:
    """How much of it ran. A cell's own numbers are on its own run."""
    states = [row["state"] for row in cells]
    return {
        "runs": float(len(states)),
        "runs.finished": float(states.count("finished")),
        "runs.failed": float(states.count("failed") + states.count("timeout")),
        "runs.engines_built": float(sum(row["built"] is True for row in cells)),
    }
