"""The memory that the plan predicted, beside what the engine found."""

from typing import Any

from tasks.plan.predict import MEMORY_PARTS
from tasks.report.data import ReportData, Row
from tasks.report.numbers import is_number


def memory_rows(data: ReportData) -> list[dict[str, Any]]:
    """One row per part of the memory of each engine that has a prediction; none where no plan made one.

    found: what the engine measured of itself; None where it does not tell. On a CPU, "together" is the most that the
    engine's process had in memory during the run."""
    return [row for engine in data.engines for row in _engine_rows(engine, data)]


def _engine_rows(engine: Row, data: ReportData) -> list[dict[str, Any]]:
    predicted = engine.get("predicted")
    if not isinstance(predicted, dict):
        return []
    basis = predicted.get("basis") or {}
    found = _found(engine, data)
    rows = []
    for field, part in MEMORY_PARTS:
        said, got = predicted.get(field), found.get(field)
        rows.append(
            {
                "part": part,
                "predicted": said,
                "found": got,
                "ratio": got / said if is_number(said) and is_number(got) and said else None,
                "basis": basis.get(field),
                "why_none": basis.get(field) or "not predicted",
            }
        )
    return rows


def _found(engine: Row, data: ReportData) -> dict[str, Any]:
    resolved = engine.get("resolved")
    sizes = (resolved.get("sizes") if isinstance(resolved, dict) else None) or {}
    # The column of the weights falls back to the files' bytes, which is what was predicted from; this is the engine's.
    found = {
        "weights_bytes": sizes.get("weights_bytes"),
        "kv_bytes": engine.get("kv_bytes"),
        "activation_bytes": sizes.get("activation_bytes"),
        "graph_bytes": engine.get("graph_bytes"),
        "other_bytes": sizes.get("non_torch_bytes"),
    }
    resident = [row["process_rss_bytes"] for row in data.telemetry if is_number(row.get("process_rss_bytes"))]
    on_cpu = isinstance(resolved, dict) and resolved.get("device") == "cpu"
    if on_cpu and resident and len(data.engines) == 1:
        found["total_bytes"] = max(resident)
    return found
