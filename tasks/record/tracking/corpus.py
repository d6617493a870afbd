"""What MLflow is to know of a run over a corpus of schemas: one run, with a backend's shares and times as metrics."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tasks.record.tracking import names
from tasks.record.tracking.publication import RUN_PAGE, TrackedFile, TrackedRun

Row = Mapping[str, Any]
_TOLD = ("declared_coverage", "right", "over", "under", "timeout", "crashed", "compile_ms.p50", "compile_ms.p99")
_OF_MASKS = ("mask_us.mean", "mask_us.p99")
_MOST = 49
"""MLflow's compare page freezes with many."""
_PARAMS = (
    "corpus",
    "fingerprint",
    "backends",
    "splits",
    "limit",
    "seed",
    "tokenizer",
    "python",
    "jobs",
    "limit_s",
    "schemas",
)


def corpus_run(run: Row, metrics: Sequence[Row], *, tags: Mapping[str, str], prefect_page: str | None) -> TrackedRun:
    """Its run in MLflow. Splits stay in the warehouse: together they would be hundreds of metrics."""
    ended = run["status"] != "running"
    return TrackedRun(
        key="",
        name=f"{run['name']} {run['run_id']}",
        started_ms=int(run["started_at"].timestamp() * 1000),
        ended_ms=None if run["ended_at"] is None else int(run["ended_at"].timestamp() * 1000),
        tags={**tags, "assay.kind": "grammars", "mlflow.note.content": _note(run, prefect_page=prefect_page)},
        params=_params(run["config"]),
        metrics=_metrics(run["config"]["backends"], metrics) if ended else {},
        datasets=[],
    )


def corpus_files(run: Row, folder: Path) -> list[TrackedFile]:
    """Its page and its warnings."""
    if run["warnings"]:
        (folder / "warnings.txt").write_text("\n".join(run["warnings"]) + "\n", encoding="utf-8")
    return [TrackedFile(file=name) for name in ("report.html", "warnings.txt")]


def _metrics(backends: Sequence[str], rows: Sequence[Row]) -> dict[str, float]:
    values = {row["name"]: row["value"] for row in rows if row["value"] is not None}
    wanted = [f"grammars.{name}.{figure}" for figure in (*_TOLD, *_OF_MASKS) for name in backends]
    found = {names.safe_key(name): float(values[name]) for name in wanted if name in values}
    return dict(list(found.items())[:_MOST])


def _params(config: Mapping[str, Any]) -> dict[str, str]:
    told = {name: config.get(name) for name in _PARAMS}
    return {
        name: names.short(", ".join(value) if isinstance(value, list) else str(value))
        for name, value in told.items()
        if value not in (None, [])
    }


def _note(run: Row, *, prefect_page: str | None) -> str:
    shown = [f"**{run['status']}**"]
    shown.append(
        "its page comes when it ends" if run["status"] == "running" else f"[report]({RUN_PAGE}/artifacts/report.html)"
    )
    shown += [] if prefect_page is None else [f"[Prefect]({prefect_page})"]
    parts = [" · ".join(shown), f"SQL: `assay sql \"FROM corpus_schemas WHERE run_id = '{run['run_id']}'\"`"]
    if run["status"] not in ("running", "finished"):
        parts.append(f"Why: {run['error'] or 'no reason was written'}")
        parts.append(f"Go on where it stopped: `assay grammars --resume {run['run_id']}`.")
    return "\n\n".join(parts)
