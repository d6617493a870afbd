"""How far each metric moved with the batch size alone, in the report of the run that has the numbers."""

from typing import Any

from tasks.compare.noise import PREFIX, TEXTS
from tasks.report.data import ReportData, Row, arm_order
from tasks.report.sections.section import Section


def section(data: ReportData) -> Section | None:
    """None where no noise was measured."""
    rows = [row for row in data.metrics if row["scope"] == "run" and row["name"].startswith(PREFIX)]
    if not rows:
        return None
    rows.sort(key=lambda row: arm_order(row["arm"]))
    bands = [_band(row) for row in rows if not row["name"].endswith(f".{TEXTS}")]
    texts = [_texts(row) for row in rows if row["name"].endswith(f".{TEXTS}")]
    details = rows[0]["details"]
    return Section(
        anchor="noise",
        title="Noise of the batch size",
        short="Noise",
        template="_noise.html.j2",
        context={
            "bands": sorted(bands, key=lambda band: band["metric"]),
            "texts": sorted(texts, key=lambda each: each["dataset"]),
            "levels": list(zip(details["concurrency"], details["runs"], strict=True)),
        },
    )


def _band(row: Row) -> dict[str, Any]:
    details = row["details"]
    named = {name: details[name] for name in ("values", "change", "won", "lost", "changed")}
    return named | {"metric": row["name"].removeprefix(PREFIX), "arm": row["arm"], "band": row["value"], "n": row["n"]}


def _texts(row: Row) -> dict[str, Any]:
    dataset = row["name"].removeprefix(PREFIX).removesuffix(f".{TEXTS}")
    return {
        "dataset": dataset,
        "arm": row["arm"],
        "share": row["value"],
        "n": row["n"],
        "count": row["details"]["count"],
    }
