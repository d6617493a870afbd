"""The page of a sweep, an ablation or a tuning, in the folder of its run."""

from collections.abc import Callable, Sequence
from typing import Any

from schemas.errors import AssayError
from schemas.sweep import CellResult
from tasks.cells.record import CellsRecord


def write_page(
    record: CellsRecord,
    *,
    results: Sequence[CellResult],
    title: str,
    warnings: list[str],
    made_of: Callable[[Sequence[CellResult]], dict[str, Any]],
) -> str | None:
    """Writes report.html and gives its path. None, with a warning more, where that failed: the cells are kept.

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
    except (AssayError, OSError) as error:
        warnings.append(f"the report could not be written: {error}")
        return None
    return str(path)
