"""Writes what was scored outside of `assay run` as a run of its own, whole, so that it is compared and asked like any
other. What nobody measured is NULL: times, tokens, the engine.
"""

import datetime
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tasks.predictions.imported import Imported
from tasks.predictions.offline import Answer, Offline
from tasks.record.git import git_state
from tasks.record.host import written_by
from tasks.record.rows import metric_rows, sample_rows, score_rows
from warehouse.build import ensure_fresh
from warehouse.ids import new_run_id
from warehouse.parquet import read_rows, write_rows

DETAILS = "details.jsonl.gz"
"""The file in an imported run's folder with what no table has a column for."""
_PACKAGES = ("assay", "duckdb", "pyarrow", "pydantic")

Row = dict[str, Any]


def record_offline(offline: Offline, *, home: Path, name: str, started_at: datetime.datetime) -> str:
    """Writes the run of `assay score`; gives its id. Raises OSError where the disk is full."""
    dataset, asked = offline.dataset, offline.asked
    config = {
        "name": name,
        "datasets": [dataset.model_dump(mode="json", by_alias=True)],
        "arms": [asked.arm],
        "predictions": {
            "file": str(asked.predictions),
            "sha256": offline.predictions.sha256,
            "id_field": asked.id_field,
            "output_field": asked.output_field,
            "reasoning_parser": dataset.reasoning_parser,
            "answers": len(offline.predictions.items),
            "missing": len(offline.joined.missing),
            "unknown": len(offline.joined.unknown),
        },
    }
    tables = {
        "datasets": [_dataset_row(offline)],
        "samples": [
            row | {"prompt_hash": None, "prompt_tokens": None, "cut_tokens": None, "shots_dropped": None}
            for row in sample_rows(offline.samples)
        ],
        "requests": [answer_row(answer) for answer in offline.answers],
        "judgements": offline.judgements,
        "scores": score_rows(offline.scores, scored_at=datetime.datetime.now(datetime.UTC)),
        "metrics": metric_rows(offline.metrics),
    }
    row = run_row(flow="score", config=config, started_at=started_at, warnings=offline.warnings)
    return write_run(home=home, run=row, tables=tables)


def record_import(made: Imported, *, home: Path) -> bool:
    """Writes an imported run; False where it is here already, and stays as it is. Raises OSError for a full disk."""
    if read_rows(home, "runs", made.run_id, columns=["run_id"]):
        return False
    row = run_row(flow="import", config=made.config, started_at=made.started_at, warnings=made.warnings)
    # What ran it is another program, elsewhere.
    unknown = dict.fromkeys(("git_commit", "git_dirty", "host", "user", "python"))
    packages = row["packages"] | made.packages
    row |= unknown | {"ended_at": made.ended_at, "packages": packages, "tags": made.tags or None}
    row |= {"status": made.status, "error": made.error}
    if made.details is not None:
        folder = home / "runs" / made.run_id
        folder.mkdir(parents=True, exist_ok=True)
        (folder / DETAILS).write_bytes(made.details)
    write_run(home=home, run=row, tables=made.tables, run_id=made.run_id)
    return True


def write_run(
    *,
    home: Path,
    run: Mapping[str, Any],
    tables: Mapping[str, Sequence[Mapping[str, Any]]],
    run_id: str | None = None,
) -> str:
    """Writes a finished run's rows, that of `runs` last, so that no reader sees half of it; gives its id, a new one
    unless it is given."""
    run_id = run_id or new_run_id()
    (home / "runs" / run_id).mkdir(parents=True, exist_ok=True)
    for table, rows in [*tables.items(), ("runs", [run])]:
        if rows:
            write_rows(home=home, table=table, run_id=run_id, rows=rows, part="0000-00000")
    ensure_fresh(home)
    return run_id


def run_row(*, flow: str, config: Mapping[str, Any], started_at: datetime.datetime, warnings: Sequence[str]) -> Row:
    """The row of `runs` of a run that is over. config: its name is `name`."""
    commit, dirty = git_state(Path.cwd())
    canonical = json.dumps(config, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return {
        "name": config["name"],
        "flow": flow,
        "status": "finished",
        "started_at": started_at,
        "ended_at": datetime.datetime.now(datetime.UTC),
        "config": dict(config),
        "config_hash": hashlib.sha256(canonical.encode("ascii")).hexdigest(),
        "git_commit": commit,
        "git_dirty": dirty,
        **written_by(_PACKAGES),
        "tags": config.get("tags") or None,
        "warnings": list(warnings),
    }


def answer_row(answer: Answer) -> Row:
    """The row of `requests` of an answer that assay did not ask for itself."""
    response, verdict = answer.response, answer.verdict
    return {
        "request_id": response.request_id,
        "attempt": 0,
        "dataset": response.dataset,
        "sample_id": response.sample_id,
        "arm": response.arm,
        "kind": response.kind,
        "repeat": response.repeat,
        "phase": "quality",
        "status": response.status,
        "error": response.error,
        "output": response.output,
        "reasoning": answer.reasoning,
        "finish_reason": response.finish_reason,
        "valid": response.valid,
        "validator": None if verdict is None else verdict.validator,
        "violations": None
        if verdict is None
        else [{"path": each.path, "message": each.message} for each in verdict.violations],
    }


def _dataset_row(offline: Offline) -> Row:
    config = offline.dataset.config
    return {
        "dataset": offline.dataset.name,
        "source": getattr(config.source, "path", None) or getattr(config.source, "id", config.source.kind),
        "source_revision": config.source.revision,
        "fingerprint": offline.loaded.fingerprint,
        "rows_total": offline.loaded.rows_total,
        "rows_used": len(offline.samples),
        "few_shot": config.few_shot.n,
        "few_shot_seed": config.few_shot.seed if config.few_shot.n else None,
        "license": config.license,
        "warnings": offline.warnings,
    }
