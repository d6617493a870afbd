"""What came of a run's gates, in the warehouse: a row a gate and run that it was held against, and the comparisons."""

from datetime import datetime
from pathlib import Path
from typing import Any

from schemas.gate import GateVerdict, GateWord, overall
from tasks.compare.save import write_comparison
from tasks.gate.model import Evaluation
from warehouse.build import ensure_fresh
from warehouse.parquet import read_rows, write_rows

Row = dict[str, Any]


def gate_rows(evaluation: Evaluation) -> list[Row]:
    """The rows of `gates`."""
    return [_row(each, decided_at=evaluation.decided_at) for each in evaluation.verdicts]


def verdicts_of(rows: list[Row]) -> list[GateVerdict]:
    """The same back from rows, in the order of the gates."""
    names = set(GateVerdict.model_fields) - {"number"}
    found = [GateVerdict(number=row["gate"], **{name: row[name] for name in names}) for row in rows]
    return sorted(found, key=lambda each: (each.number, each.against or ""))


def save_evaluation(home: Path, evaluation: Evaluation) -> None:
    """Keeps it over an earlier one of the same run, with its comparisons. Raises OSError where the disk is full."""
    run_id = evaluation.run_id
    before = read_rows(home, "gates", run_id, columns=["revision"])
    revision = max((int(row["revision"]) for row in before), default=-1) + 1
    rows = gate_rows(evaluation)
    write_rows(home=home, table="gates", run_id=run_id, rows=rows, part=f"{revision:04d}-gate", revision=revision)
    for comparison in evaluation.comparisons:
        if comparison.results or comparison.speed:
            write_comparison(home, comparison)
    ensure_fresh(home)


def gates_word(rows: list[Row]) -> GateWord | None:
    """What a run's gates came to together; None for a run without any."""
    return overall(verdicts_of(rows)) if rows else None


def _row(verdict: GateVerdict, *, decided_at: datetime) -> Row:
    return {"gate": verdict.number, "decided_at": decided_at} | verdict.model_dump(exclude={"number"})
