"""A comparison kept in the warehouse, where SQL and the view `regressions` find it."""

from pathlib import Path
from typing import Any

from tasks.compare.model import RunComparison
from tasks.compare.speed import speed_rows
from tasks.record.rows import comparison_rows
from warehouse.build import ensure_fresh
from warehouse.parquet import read_rows, write_rows


def save_comparison(home: Path, comparison: RunComparison) -> None:
    """Writes a row for each result under the candidate's run, over an earlier comparison of the same two, and rebuilds
    the database file. The baseline is from now on kept by `assay prune` as long as the candidate stays.

    Raises OSError where the disk is full, AssayError for files that cannot be read."""
    write_comparison(home, comparison)
    ensure_fresh(home)


def write_comparison(home: Path, comparison: RunComparison) -> None:
    """The rows alone; the database file has them once it is built again. Raises as save_comparison does."""
    run_id = comparison.candidate.run_id
    before = read_rows(home, "comparisons", run_id, columns=["revision", "baseline_run_id"])
    earlier = [int(row["revision"]) for row in before if row["baseline_run_id"] == comparison.baseline.run_id]
    revision = max(earlier, default=-1) + 1
    write_rows(
        home=home,
        table="comparisons",
        run_id=run_id,
        rows=rows_of(comparison),
        part=f"{revision:04d}-compare",
        revision=revision,
    )


def rows_of(comparison: RunComparison) -> list[dict[str, Any]]:
    """The rows of `comparisons`: those of the answers, then those of speed."""
    baseline, at = comparison.baseline.run_id, comparison.compared_at
    answers = comparison_rows([each.comparison for each in comparison.results], run_id=baseline, compared_at=at)
    speed = [row | {"baseline_run_id": baseline, "compared_at": at} for row in speed_rows(comparison.speed)]
    return answers + speed
