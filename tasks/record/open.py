"""Beginning a run, or going on with one that was interrupted."""

import datetime
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from schemas.errors import ConfigError
from schemas.experiment import Experiment
from schemas.run import MADE_OF_RUNS, CellContext, RunContext
from tasks.config.document import config_hash, to_yaml
from tasks.config.nearest import did_you_mean
from tasks.config.resolve import load_experiment
from tasks.record.git import git_state
from warehouse.ids import new_run_id
from warehouse.parquet import read_rows

MIN_FREE_BYTES = 512 << 20
"""A run writes tens of megabytes; below this the disk is about to be full for everything else too."""


def open_run(
    *,
    home: Path,
    file: str | None,
    overrides: Sequence[str] = (),
    limit: int | None = None,
    max_time_s: float | None = None,
    resume: str | None = None,
    prefect_flow_run_id: str | None = None,
    cell: CellContext | None = None,
) -> RunContext:
    """The context of a new run of `file`, or of the run `resume`, whose config is the one that it began with.

    Raises ConfigError for bad config, an unknown run, or a full disk."""
    check_disk(home)
    before = None if resume is None else resumable_run(home, resume)
    if before is not None:
        experiment = Experiment.model_validate(json.loads(before["config"]))
    elif file:
        experiment = load_experiment(file, overrides=overrides, limit=limit)
    else:
        raise ConfigError.one("name an experiment file, or a run to resume")
    run_id = str(before["run_id"]) if before is not None else new_run_id()
    folder = home / "runs" / run_id
    folder.mkdir(parents=True, exist_ok=True)
    commit, dirty = git_state(Path.cwd())
    run = RunContext(
        run_id=run_id,
        home=home,
        folder=folder,
        revision=0 if before is None else before["revision"] + 1,
        resumed=before is not None,
        started_at=datetime.datetime.now(datetime.UTC) if before is None else before["started_at"],
        experiment=experiment,
        max_time_s=max_time_s,
        git_commit=commit,
        git_dirty=dirty,
        prefect_flow_run_id=prefect_flow_run_id,
        cell=cell or _cell_of(before),
    )
    run.resolved_file.write_text(to_yaml(experiment), encoding="utf-8")
    return run


def check_same_config(home: Path, run_id: str, *, experiment: Experiment, file: Path) -> None:
    """Raises ConfigError, with the keys that differ, if the run began with another config than this one."""
    before = stored_run(home, run_id)
    if config_hash(experiment) != before["config_hash"]:
        stored = Experiment.model_validate(json.loads(before["config"]))
        raise ConfigError.one(
            f"run {run_id} began with another config; what differs: {_differences(stored, experiment)}",
            file=file,
            suggestion="start a new run, or resume without naming a file",
        )


def begun_by(home: Path, *, prefect_flow_run_id: str) -> str | None:
    """The unfinished run that this flow run of Prefect began; None if there is none."""
    latest = {row["run_id"]: row for row in read_rows(home, "runs")}
    mine = [
        row["run_id"]
        for row in latest.values()
        if row["prefect_flow_run_id"] == prefect_flow_run_id and row["status"] != "finished"
    ]
    return max(mine) if mine else None


def stored_run(home: Path, run_id: str) -> dict[str, Any]:
    """The latest row of `runs` for this run. Raises ConfigError, with the nearest id, if there is none."""
    rows = {row["run_id"]: row for row in read_rows(home, "runs")}
    if run_id == "last" and rows:
        return rows[max(rows)]
    if run_id not in rows:
        raise ConfigError.one(
            f"there is no run {run_id} under {home}",
            suggestion=did_you_mean(run_id, rows) or "`assay runs` lists them",
        )
    return rows[run_id]


def resumable_run(home: Path, run_id: str) -> dict[str, Any]:
    """The same, of a run that answers. Raises ConfigError for that of a sweep, which has a command of its own."""
    row = stored_run(home, run_id)
    if row["flow"] in MADE_OF_RUNS:
        raise ConfigError.one(
            f"run {row['run_id']} is made of other runs, by `assay {row['flow']}`",
            suggestion=f"assay {row['flow']} --resume {row['run_id']}",
        )
    return row


def _cell_of(before: dict[str, Any] | None) -> CellContext | None:
    """The sweep that a run belongs to, which goes on outside of it."""
    parent = None if before is None else before["parent_run_id"]
    return None if parent is None else CellContext(parent_run_id=parent)


def check_disk(home: Path) -> None:
    """Raises ConfigError if the disk under ASSAY_HOME is nearly full, or cannot be written."""
    if "?" in str(home):
        raise ConfigError.one(f"ASSAY_HOME is {home}: DuckDB opens no file whose path holds a question mark")
    try:
        home.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(home).free
    except OSError as error:
        raise ConfigError.one(
            f"ASSAY_HOME cannot be used: {error}", suggestion="set ASSAY_HOME to a folder of yours"
        ) from error
    if free < MIN_FREE_BYTES:
        raise ConfigError.one(
            f"the disk under {home} has {free / 1e6:,.0f} MB free, a run needs {MIN_FREE_BYTES / 1e6:,.0f} MB",
            suggestion="make room, or set ASSAY_HOME to a folder on another disk",
        )


def _differences(stored: Experiment, given: Experiment) -> str:
    """The dotted keys whose values differ."""
    found: list[str] = []

    def walk(a: Any, b: Any, at: str) -> None:
        if isinstance(a, dict) and isinstance(b, dict):
            for key in sorted(set(a) | set(b)):
                walk(a.get(key), b.get(key), f"{at}.{key}" if at else str(key))
        elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
            for index, (one, other) in enumerate(zip(a, b, strict=True)):
                walk(one, other, f"{at}[{index}]")
        elif a != b:
            found.append(at)

    walk(stored.model_dump(mode="json"), given.model_dump(mode="json"), "")
    return ", ".join(found)
