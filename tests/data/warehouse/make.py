"""Keeps Parquet of today's schema for good: `python tests/data/warehouse/make.py HOME RUN RUN` writes `v<version>/`.

Run it once for each version of the schema, right after the change that made the version, with two finished runs of a
real home. Of each dataset four samples are kept, with all that belongs to them. The first run stays as parts, with a
row that was revised; the second is compacted. A folder that exists is never written again: its files stand for what
that version wrote.
"""

import hashlib
import json
import re
import shutil
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from warehouse.parquet import compact_run, read_rows, remove_superseded, write_rows
from warehouse.parts import stored_tables
from warehouse.query import query
from warehouse.schema import SCHEMA_VERSION, TABLES
from warehouse.views import definitions

HERE = Path(__file__).resolve().parent
SAMPLES = 4
FEW = {"telemetry": 6, "grammars": 6, "steps": 12}
_PLACES = re.compile(r"/(?:[\w.@+-]+/)+(?=(?:configs|runs|cache|\.venv)/)")
_MACHINE = {"host": "machine", "user": "user"}


def snapshot() -> dict[str, dict[str, str]]:
    """Columns and types of every table."""
    return {table.name: {column.name: column.sql_type for column in table} for table in TABLES.values()}


def answers(home: Path) -> dict[str, Any]:
    """What the kept files must go on telling: rows of each table by count and digest of their keys, and each view's."""
    found: dict[str, Any] = {"tables": {}, "views": {}, "leaderboard": []}
    for name in stored_tables():
        keys = ", ".join(TABLES[name].key)
        rows = query(home=home, sql=f"SELECT {keys} FROM {name} ORDER BY ALL").rows
        text = "\n".join(str([str(value) for value in row]) for row in rows)
        found["tables"][name] = {"rows": len(rows), "keys": hashlib.sha256(text.encode()).hexdigest()[:16]}
    for each in definitions():
        found["views"][each.name] = len(query(home=home, sql=each.example).rows)
    sql = "SELECT run_id, dataset, metric, arm, value, n FROM leaderboard ORDER BY ALL"
    found["leaderboard"] = [list(row) for row in query(home=home, sql=sql).rows]
    return found


def main(*, source: Path, runs: list[str]) -> None:
    """Writes the folder of today's version."""
    folder = HERE / f"v{SCHEMA_VERSION}"
    if folder.exists():
        raise SystemExit(f"{folder} exists: what a version wrote is kept as it is. Add a Change for a new version.")
    for number, run_id in enumerate(runs):
        kept = _samples(source=source, run_id=run_id)
        for table in stored_tables():
            rows = list(_rows(source=source, table=table, run_id=run_id, kept=kept)) + _by_hand(table, runs, number)
            for half, part in enumerate((rows[::2], rows[1::2])):
                if part:
                    write_rows(home=folder, table=table, run_id=run_id, rows=part, part=f"0000-{half:05}")
        ended = read_rows(folder, "runs", run_id)[0] | {"tags": {"kept": "yes"}}
        del ended["revision"]
        write_rows(home=folder, table="runs", run_id=run_id, rows=[ended], part="0000-00002", revision=99)
    compact_run(home=folder, run_id=runs[1])
    remove_superseded(folder, 0)
    (folder / "schema.json").write_text(json.dumps(snapshot(), indent=1) + "\n")
    (folder / "answers.json").write_text(json.dumps(answers(folder), indent=1, default=str) + "\n")
    for left in (folder / "assay.duckdb", folder / ".build.lock", *folder.rglob("_lock")):
        left.unlink()
    shutil.rmtree(folder / "tmp", ignore_errors=True)


def _samples(*, source: Path, run_id: str) -> set[str]:
    kept: dict[str, list[str]] = {}
    for row in read_rows(source, "samples", run_id, columns=["dataset", "sample_id"]):
        kept.setdefault(row["dataset"], []).append(row["sample_id"])
    kept.pop("needle", None)  # its prompts are long, and tell nothing that the others do not
    return {each for ids in kept.values() for each in sorted(ids)[:SAMPLES]}


def _rows(*, source: Path, table: str, run_id: str, kept: set[str]) -> Iterator[dict[str, Any]]:
    rows = read_rows(source, table, run_id)
    if "sample_id" in TABLES[table].names:
        rows = [row for row in rows if row["sample_id"] in kept]
    for row in rows[: FEW.get(table)]:
        del row["revision"]
        yield {name: _MACHINE.get(name, _nowhere(value)) for name, value in row.items()}


def _nowhere(value: Any) -> Any:
    """The value without the folders of the machine that made it."""
    if isinstance(value, str):
        return _PLACES.sub("/srv/user/assay/", value)
    if isinstance(value, dict):
        return {key: _nowhere(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_nowhere(item) for item in value]
    return value


def _by_hand(table: str, runs: list[str], number: int) -> list[dict[str, Any]]:  # noqa: PLR0911 - one a table
    """What a small run on a CPU leaves empty: an engine's step, a GPU's energy, a regression against another run."""
    moment = datetime(2026, 11, 27, 22, 3, 55, 123456, tzinfo=UTC)
    if table == "steps":
        return [{"engine_id": "e", "step": 1, "ts": moment, "running": 2, "step_ms": 3.5}]
    if table == "telemetry":
        at = (moment.replace(second=second) for second in (0, 10, 20))
        return [{"ts": ts, "device": "GPU-1", "power_w": 100.0, "energy_j": 100.0 * ts.second} for ts in at]
    if table == "sweep_cells" and number:
        cell = {
            "cell_index": 0,
            "repeat": 0,
            "name": "max_num_seqs=8",
            "role": "cell",
            "state": "finished",
            "seconds": 9.5,
        }
        return [cell | {"order_index": 0, "cell_run_id": runs[0], "built": True, "started_at": moment}]
    if table == "trials" and number:
        return [{"trial": 0, "state": "measured", "value": 50.0}]
    if table == "comparisons" and number:
        row = {"baseline_run_id": runs[0], "dataset": "extract", "metric": "json_valid", "candidate_arm": "free"}
        return [row | {"baseline_arm": "free", "effect": -0.1, "verdict": "worse", "n_pairs": SAMPLES}]
    if table == "judgements":
        asked = {"request_id": "r", "metric": "judge", "dataset": "extract", "sample_id": "s", "arm": "free"}
        said = {"status": "ok", "verdict": "CORRECT", "reason": "so it is", "judge_model": "m", "judge_ms": 3.5}
        return [asked | said, asked | {"request_id": "q", "status": "refused", "error": "no", "judged_at": moment}]
    if table == "gates":
        gate = {"metric": "extract.json_valid", "arm": "free", "on_undecided": "warn", "decided_at": moment}
        first = {"baseline_run_id": runs[0], "verdict": "failed"} if number else {"verdict": "skipped"}
        return [
            gate | {"gate": 1, "rule": "not_worse", "margin": 0.02, "against": "last_green"} | first,
            gate | {"gate": 2, "rule": "at_least", "value": 0.5, "verdict": "passed", "n_pairs": SAMPLES},
        ]
    return []


if __name__ == "__main__":
    main(source=Path(sys.argv[1]), runs=sys.argv[2:4])
