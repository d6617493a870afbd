"""The engine's plan: each option's value, where it comes from and why, and what the engine made of it."""

from typing import Any

from tasks.report.data import ReportData, Row
from tasks.report.engine import differences, plan_rows
from tasks.report.memory import memory_rows
from tasks.report.sections.section import Section


def _untold(engine: Row) -> list[tuple[str, Any, Any]]:
    """Differences that no downgrade speaks of already."""
    said = [str(text) for text in engine.get("downgrades") or []]
    return [found for found in differences(engine) if not any(found[0] in text for text in said)]


def _tells(row: Row) -> bool:
    """Whether somebody chose the option, or it came out differently."""
    return bool(row["changed"] or row["differs"] or row["source"] != "default")


def section(data: ReportData) -> Section | None:
    """None where no plan was recorded."""
    rows = plan_rows(data)
    if not rows:
        return None
    return Section(
        anchor="plan",
        title="Engine plan",
        template="_plan.html.j2",
        context={
            "plan": rows,
            "chosen": [row for row in rows if _tells(row)],
            "left": [row for row in rows if not _tells(row)],
            "changed": sum(row["changed"] for row in rows),
            "downgrades": [text for engine in data.engines for text in engine.get("downgrades") or []],
            "differences": [found for engine in data.engines for found in _untold(engine)],
            "memory": memory_rows(data),
            "ladder": [rung for engine in data.engines for rung in engine.get("ladder") or []],
        },
    )
