"""The page of a sweep, an ablation or a tuning, and its table, in the folder of its run."""

import csv
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from flows.commands.answers import csv_cell
from schemas.errors import AssayError
from schemas.sweep import CellResult
from tasks.cells.record import CellsRecord
from tasks.cells.tables import sweep_rows


def write_page(
    record: CellsRecord,
    *,
    results: Sequence[CellResult],
    title: str,
    warnings: list[str],
    made_of: Callable[[Sequence[CellResult]], dict[str, Any]],
) -> str | None:
    """Writes report.html and gives its path, and cells.csv beside it: the table of cells, for MLflow and for sheets.
    None, with a warning more, where that failed: the cells are kept.

    made_of: what else `sweep_page` takes of this kind of flow, from the results."""
    from tasks.report.sweep import sweep_page  # noqa: PLC0415 - draws figures: slow to import

    path = record.folder / "report.html"
    try:
        path.write_text(
            sweep_page(
                home=record.home, run_id=record.run_id, title=title, results=results, notes=warnings, **made_of(results)
            ),
            encoding="utf-8",
        )
        _write_table(record.folder / "cells.csv", sweep_rows(record.home, results))
    except (AssayError, OSError) as error:
        warnings.append(f"the report could not be written: {error}")
        return None
    return str(path)


def _write_table(path: Path, rows: Sequence[dict[str, str]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        if rows:
            table.writerow(rows[0])
        table.writerows([csv_cell(cell) for cell in row.values()] for row in rows)
