"""Is the run good enough: each gate with its evidence, and the samples behind it."""

from typing import Any

from tasks.gate import words
from tasks.report.data import ReportData, Row
from tasks.report.gates import flips_behind, verdicts
from tasks.report.sections.section import Section
from warehouse.schema.table import literal


def section(data: ReportData) -> Section | None:
    """None for a run without gates."""
    found = verdicts(data)
    if not found:
        return None
    groups: list[dict[str, Any]] = []
    for each in found:
        rows = flips_behind(data, each)
        if rows:
            ways = {"lost": [row for row in rows if row["gain"] < 0], "won": [row for row in rows if row["gain"] > 0]}
            groups.append({"verdict": each, "rows": rows, "ways": ways})
    return Section(
        anchor="gates",
        title="Gates",
        template="_gates.html.j2",
        context={
            "gates": found,
            "words": words,
            "said": words.summary(found),
            "groups": groups,
            "queries": queries(data),
        },
        count=len(found),
    )


def queries(data: ReportData) -> list[tuple[str, str]]:
    """(question, SQL) of what to ask next."""
    run = literal(data.run_id)
    found = [
        (
            "What came of each gate, with its evidence?",
            "SELECT gate, metric, arm, cell_id, rule, against, baseline_run_id, verdict, candidate, baseline, effect,\n"
            "  lo, hi, p_adjusted, n_pairs, n_needed, reason\n"
            f"FROM gates\nWHERE run_id = {run}\nORDER BY gate, against;",
        ),
        (
            "Which runs of this experiment were green?",
            "SELECT r.run_id, r.started_at, list(DISTINCT g.verdict) AS verdicts\n"
            "FROM runs AS r JOIN gates AS g USING (run_id)\n"
            f"WHERE r.name = {literal(str(data.run['name']))}\nGROUP BY ALL\nORDER BY r.run_id DESC;",
        ),
    ]
    first: Row | None = next(
        (row for row in data.gates if row.get("baseline_run_id") and row.get("cell_id") is None), None
    )
    if first is not None:
        found.append(
            (
                "Which samples changed since the run it was held against, all of them?",
                "SELECT dataset, metric, arm, sample_id, value_a AS baseline, value_b AS candidate,\n"
                "  extracted_a, extracted_b\n"
                f"FROM flips({literal(first['baseline_run_id'])}, {run})\nORDER BY dataset, metric, value_b - value_a;",
            )
        )
    return found
