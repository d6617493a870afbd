"""A run's publication, made from its rows in the warehouse and the files in its folder.

Nothing but these is read, so that the copy of a run can be made when the process that ran it is long gone.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from schemas.arm import NamedArm, stored_arms
from schemas.errors import RunError
from schemas.run import MADE_OF_RUNS
from tasks.gate.keep import gates_word
from tasks.record.tracking import names
from tasks.record.tracking.cells import above_cells, cell_of, experiment_of, files_of_cells
from tasks.record.tracking.corpus import corpus_files, corpus_run
from tasks.record.tracking.note import describe, plan_page
from tasks.record.tracking.publication import PARENT, Publication, TrackedDataset, TrackedFile, TrackedRun
from warehouse.parquet import read_rows

STATUS = {"running": "RUNNING", "finished": "FINISHED", "failed": "FAILED", "cancelled": "KILLED", "crashed": "KILLED"}
"""MLflow's word for each status of the warehouse."""
PREFECT_PAGE = "prefect_page"
"""The file in a run's folder that holds the address of its Prefect page: whoever closes a run later has no other way
to know which server it reported to."""
_FILES = ("report.html", "experiment.yaml", "plan.md", "plan.json", "engine.log", "warnings.txt")
_GATE_FILES = ("gates.md", "gates.xml")
_SOURCE_TYPES = {"hf": "hf"}
_COMMANDS = {flow: flow for flow in ("score", "import", *MADE_OF_RUNS)}
"""The command by the flow, where it is not `run`."""
_DIGEST = 16

Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class RunRows:
    """The rows that a publication is made of; `run` with its config parsed."""

    run: Row
    datasets: list[Row]
    profiles: list[Row]
    plans: list[Row]
    engine: Row | None
    cells: list[Row]
    metrics: list[Row]
    gates: list[Row]

    @property
    def ended(self) -> bool:
        return self.run["status"] != "running"


def read_run(home: Path, run_id: str) -> RunRows:
    """Reads them. Raises RunError where there is no such run."""
    runs = read_rows(home, "runs", run_id, parse_json=True)
    if not runs:
        raise RunError(f"there is no run {run_id} under {home}")
    engines = read_rows(home, "engines", run_id, parse_json=True)
    latest = max(engines, key=lambda row: row["revision"], default=None)
    plans = read_rows(home, "plans", run_id, parse_json=True)
    return RunRows(
        run=runs[0],
        datasets=read_rows(home, "datasets", run_id),
        profiles=read_rows(home, "profiles", run_id),
        plans=[row for row in plans if latest is None or row["engine_id"] == latest["engine_id"]],
        engine=latest,
        cells=read_rows(home, "cells", run_id),
        metrics=read_rows(home, "metrics", run_id),
        gates=read_rows(home, "gates", run_id),
    )


def build_publication(home: Path, run_id: str) -> Publication:
    """What MLflow is to know of the run now. While it runs that is little: its numbers come with its end.

    Writes plan.md and warnings.txt into the run's folder, for the artifacts. Raises RunError for an unknown run,
    OSError where the folder cannot be written."""
    rows = read_run(home, run_id)
    folder = home / "runs" / run_id
    folder.mkdir(parents=True, exist_ok=True)
    run = rows.run
    if run["flow"] == "grammars":
        return _of_corpus(rows, folder)
    if run["flow"] in MADE_OF_RUNS:
        return _above_cells(home, rows, folder)
    return Publication(
        run_id=run_id,
        below=run["parent_run_id"],
        experiment=run["name"],
        status=STATUS[run["status"]],
        step=max((row["revision"] for row in rows.metrics), default=0),
        metrics_ms=_ms(run["ended_at"] or run["started_at"]),
        parent=_parent(rows, folder, cell=cell_of(home, run)),
        children=_children(rows) if rows.ended else [],
        files=_files(rows, folder) if rows.ended else [],
    )


def _above_cells(home: Path, rows: RunRows, folder: Path) -> Publication:
    run = rows.run
    cells = read_rows(home, "sweep_cells", run["run_id"])
    return Publication(
        run_id=run["run_id"],
        experiment=experiment_of(run),
        status=STATUS[run["status"]],
        step=run["revision"],
        metrics_ms=_ms(run["ended_at"] or run["started_at"]),
        parent=above_cells(run, cells, tags=_tags(rows), prefect_page=_prefect_page(folder)),
        children=[],
        files=files_of_cells(run, folder) if rows.ended else [],
    )


def _of_corpus(rows: RunRows, folder: Path) -> Publication:
    run = rows.run
    return Publication(
        run_id=run["run_id"],
        experiment=experiment_of(run),
        status=STATUS[run["status"]],
        step=run["revision"],
        metrics_ms=_ms(run["ended_at"] or run["started_at"]),
        parent=corpus_run(run, rows.metrics, tags=_tags(rows), prefect_page=_prefect_page(folder)),
        children=[],
        files=corpus_files(run, folder) if rows.ended else [],
    )


def _prefect_page(folder: Path) -> str | None:
    page = folder / PREFECT_PAGE
    return page.read_text().strip() if page.exists() else None


def _parent(rows: RunRows, folder: Path, *, cell: str | None) -> TrackedRun:
    run = rows.run
    note = describe(run, rows.metrics, prefect_page=_prefect_page(folder))
    above = {} if run["parent_run_id"] is None else {PARENT: str(run["parent_run_id"])}
    return TrackedRun(
        key="",
        # The experiment has its name; a list shows the first twenty characters.
        name=run["run_id"] if cell is None else f"{cell} {run['run_id']}",
        started_ms=_ms(run["started_at"]),
        ended_ms=None if run["ended_at"] is None else _ms(run["ended_at"]),
        tags=_tags(rows) | above | {"assay.kind": run["flow"] or "experiment", "mlflow.note.content": note},
        params=names.parent_params(config=run["config"], datasets=rows.datasets, engine=rows.engine, plans=rows.plans),
        metrics=names.parent_metrics(rows.metrics, engine=rows.engine) if rows.ended else {},
        datasets=[_dataset(row, rows) for row in rows.datasets],
    )


def _children(rows: RunRows) -> list[TrackedRun]:
    """One for each cell. An arm's quality phase is one cell, even where a resumed run had another engine."""
    cells: dict[str, Row] = {}
    for cell in sorted(
        rows.cells, key=lambda row: (row["revision"], row["order_index"] is not None, row["order_index"])
    ):
        if cell["kind"] in ("probe", "abandoned"):
            continue  # what a search tried, and what no number is made of
        cells[_cell_key(cell)] = cell
    return [_child(rows, key, cell) for key, cell in cells.items()]


def _cell_key(cell: Row) -> str:
    """All repeats of a measured point are one child."""
    return f"quality.{cell['arm']}" if cell["kind"] == "quality" else str(cell.get("point_id") or cell["cell_id"])


def _child(rows: RunRows, key: str, cell: Row) -> TrackedRun:
    run, arm = rows.run, cell["arm"]
    has_arm = {row["dataset"] for row in rows.profiles if row["arm"] == arm}
    used = [row for row in rows.datasets if row["dataset"] in has_arm]
    load = {name: cell[name] for name in ("concurrency", "rate", "burstiness") if cell[name] is not None}
    params = {"model": names.model_of(run["config"]), "arm": arm, "datasets": names.rows_of(used), **load}
    for each in stored_arms(run["config"]["arms"]):
        if isinstance(each, NamedArm) and each.name == arm:
            params["adapter"] = each.adapter
    if cell["kind"] != "quality":
        params["load"] = cell["kind"]
    what = [arm or "all arms", *([] if cell["kind"] == "quality" else [cell["kind"]])]
    what += [f"{name} {value}" for name, value in load.items()]
    return TrackedRun(
        key=key,
        name=f"{', '.join(what)} {run['run_id']}",
        started_ms=_ms(cell["started_at"] or run["started_at"]),
        ended_ms=_ms(cell["ended_at"] or run["ended_at"] or run["started_at"]),
        tags=_tags(rows)
        | {"assay.kind": "cell", "assay.cell": key, "assay.arm": arm or "all", "assay.load": cell["kind"]},
        params={names.safe_key(name): names.short(value) for name, value in params.items() if value},
        metrics=names.child_metrics(rows.metrics, arm=arm, cell_id=None if cell["kind"] == "quality" else key),
        datasets=[_dataset(row, rows) for row in used],
    )


def _tags(rows: RunRows) -> dict[str, str]:
    """What a run is found by. What is not known is left out, so that a search for it finds what has it."""
    run, engine = rows.run, rows.engine
    dirty = run["git_dirty"]
    found: dict[str, Any] = {
        "assay.run_id": run["run_id"],
        "assay.status": run["status"],
        "assay.config_hash": run["config_hash"],
        "assay.model": names.model_of(run["config"]),
        "assay.git_commit": run["git_commit"],
        "assay.git_dirty": None if dirty is None else str(dirty).lower(),
        "assay.version": run["assay_version"],
        "assay.host": run["host"],
        "assay.prefect_flow_run_id": run["prefect_flow_run_id"],
        "mlflow.user": run["user"],
        "mlflow.source.name": f"assay {_COMMANDS.get(run['flow'], 'run')} {run['name']}",
        "mlflow.source.type": "LOCAL",
        "mlflow.source.git.commit": run["git_commit"],
    }
    if rows.datasets:
        found["assay.datasets"] = ", ".join(row["dataset"] for row in rows.datasets)
        found |= {f"assay.dataset.{row['dataset']}": row["fingerprint"] for row in rows.datasets}
    if engine is not None:
        found |= {
            "assay.model_fingerprint": engine["model_fingerprint"],
            "assay.engine": f"{engine['kind']} {engine['engine_version']}",
            "assay.engine_id": engine["engine_id"],
            "assay.device": engine["device"],
        }
    if rows.plans:
        found["assay.plan_hash"] = plan_hash(rows.plans)
    if rows.gates:
        found["assay.gates"] = gates_word(rows.gates)
    own = {names.safe_key(name): value for name, value in (run["tags"] or {}).items()}
    return {names.safe_key(name): names.short(value) for name, value in {**own, **found}.items() if value is not None}


def plan_hash(plans: Sequence[Mapping[str, Any]]) -> str:
    """sha256 over the plan's options and values; two runs with equal ones asked for the same engine settings."""
    values = {row["option"]: row["value"] for row in plans}
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def _dataset(row: Row, rows: RunRows) -> TrackedDataset:
    listed = rows.run["config"].get("datasets") or []
    config = next((each for each in listed if each["name"] == row["dataset"]), None)
    kind = "local" if config is None else _SOURCE_TYPES.get(config["config"]["source"]["kind"], "local")
    where = {"path": row["source"]} if kind == "hf" else {"uri": row["source"]}
    profile: dict[str, Any] = {"rows_used": row["rows_used"], "rows_total": row["rows_total"]}
    counted = next((each for each in rows.profiles if each["dataset"] == row["dataset"]), None)
    if counted is not None:
        profile |= {name: counted[name] for name in ("tokens_p50", "tokens_p95", "tokens_max", "tokens_total")}
    return TrackedDataset(
        name=row["dataset"],
        digest=row["fingerprint"][:_DIGEST],
        source_type=kind,
        source=json.dumps({**where, "revision": row["source_revision"]}),
        profile=json.dumps(profile),
        context="evaluation",
    )


def _files(rows: RunRows, folder: Path) -> list[TrackedFile]:
    """References: a file that is not there yet (the report is written last) is looked for when it is sent."""
    if rows.plans:
        (folder / "plan.md").write_text(plan_page(rows.run, rows.plans), encoding="utf-8")
    if rows.run["warnings"]:
        (folder / "warnings.txt").write_text("\n".join(rows.run["warnings"]) + "\n", encoding="utf-8")
    figures = sorted((folder / "figures").glob("*.png"))
    gates = [*_GATE_FILES, *sorted(page.name for page in folder.glob("compare-*.html"))] if rows.gates else []
    logs = sorted(log.name for log in folder.glob("engine.*.log"))  # of engines that took over from the first
    return [TrackedFile(file=name) for name in (*_FILES, *logs, *gates)] + [
        TrackedFile(file=f"figures/{figure.name}", folder="figures") for figure in figures
    ]


def _ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)
