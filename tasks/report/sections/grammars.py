"""What the grammar backend made of the run's grammars: the accepted ones by kind, every other one by itself; and what
their lint found."""

from typing import Any

from tasks.report.data import ReportData, Row
from tasks.report.latency import values
from tasks.report.sections.section import Section

MOST_GRAMMARS = 100
MOST_FINDINGS = 50
_FAULTS = ("under-constrained", "over-constrained")
_ACCEPTED = "accepted"


def _rows(data: ReportData) -> list[dict[str, Any]]:
    samples: dict[str, int] = {}
    datasets: dict[str, set[str]] = {}
    for row in data.samples:
        if row.get("grammar_id"):
            samples[row["grammar_id"]] = samples.get(row["grammar_id"], 0) + 1
            datasets.setdefault(row["grammar_id"], set()).add(row["dataset"])
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in data.grammars:
        key = (row.get("status") or "not compiled", *sorted(datasets.get(row["grammar_id"], ())))
        alone = (row["grammar_id"],) if key[0] != _ACCEPTED else ()
        groups.setdefault((*key, row.get("kind"), row.get("backend"), row.get("backend_version"), alone), []).append(
            row
        )
    table = []
    for rows in groups.values():
        first, compiled = rows[0], values(rows, "compile_s")
        table.append(
            {
                **first,
                "status": first.get("status") or "not compiled",
                "grammars": len(rows),
                "samples": sum(samples.get(row["grammar_id"], 0) for row in rows),
                "datasets": sorted({name for row in rows for name in datasets.get(row["grammar_id"], ())}),
                "cached": sum(bool(row.get("cached")) for row in rows),
                "slowest": max(compiled, default=None),
                "compiled": sum(compiled) / len(compiled) if compiled else None,
            }
        )
    return sorted(table, key=lambda row: (row["status"] == _ACCEPTED, row["datasets"], row["grammar_id"]))


def _findings(data: ReportData) -> list[dict[str, Any]]:
    """What the lint found, a row a finding, faults first."""
    found = [
        {
            **finding,
            "grammar_id": row["grammar_id"],
            "backend": row.get("backend"),
            "fault": str(finding["problem"]).startswith(_FAULTS),
        }
        for row in data.grammars
        for finding in row.get("lint") or ()
    ]
    return sorted(found, key=lambda each: (not each["fault"], each["grammar_id"], each["path"] or ""))


def section(data: ReportData) -> Section | None:
    """None where no grammar was used."""
    rows = _rows(data)
    if not rows:
        return None
    found = _findings(data)
    schemas = [row for row in data.grammars if row.get("kind") == "json_schema" and row.get("status") == _ACCEPTED]
    linted = [row for row in schemas if row.get("lint") is not None]
    return Section(
        anchor="grammars",
        title="Grammars",
        template="_grammars.html.j2",
        count=len(data.grammars),
        context={
            "grammars": rows[:MOST_GRAMMARS],
            "grammar_count": len(rows),
            "findings": found[:MOST_FINDINGS],
            "finding_count": len(found),
            "linted": len(linted),
            "schemas": len(schemas),
            "wrong": len({each["grammar_id"] for each in found if each["fault"]}),
        },
    )
