"""What the report shows of gates: verdicts, the samples that changed, the gated metrics over the runs before."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from schemas.gate import GateVerdict
from tasks.gate.keep import verdicts_of
from tasks.report.data import ReportData, Row
from tasks.report.header import model_name
from warehouse.schema.table import literal

FLIPS = 20
"""Of each gate and other run, so many samples each way."""
SHOWN = 200
"""Characters of an answer."""
RUNS = 30
"""The most points of a trend."""


def verdicts(data: ReportData) -> list[GateVerdict]:
    """The gates in their order, as they were judged."""
    return data.once("gates", lambda: verdicts_of(data.gates))


def held_against_runs(data: ReportData) -> list[GateVerdict]:
    """Those that were judged against another run, sample by sample."""
    return [
        each
        for each in verdicts(data)
        if each.baseline_run_id is not None and each.effect is not None and each.cell_id is None
    ]


def flips(home: Path, data: ReportData) -> list[Row]:
    """The samples that changed since each run that a gate was held against, the largest loss first. A gate on a group
    has those of its datasets."""
    from warehouse.query import query  # noqa: PLC0415 - brings DuckDB

    found: dict[tuple[Any, ...], Row] = {}
    for each in held_against_runs(data):
        names = " OR ".join(f"dataset || '.' || metric = {literal(name)}" for name in _parts(data, each))
        better = "value_b - value_a" if each.direction != "lower" else "value_a - value_b"
        sql = f"""
WITH changed AS (
    SELECT dataset, metric, arm, sample_id, avg(value_a) AS value_a, avg(value_b) AS value_b,
        any_value(extracted_a) AS extracted_a, any_value(extracted_b) AS extracted_b, avg({better}) AS gain
    FROM flips({literal(str(each.baseline_run_id))}, {literal(data.run_id)})
    WHERE arm = {literal(each.arm)} AND ({names})
    GROUP BY ALL
)
SELECT changed.*, left(a.output, {SHOWN}) AS output_a, left(b.output, {SHOWN}) AS output_b
FROM changed
LEFT JOIN requests AS a ON {_answers("a", str(each.baseline_run_id))}
LEFT JOIN requests AS b ON {_answers("b", data.run_id)}
WHERE gain <> 0
QUALIFY row_number() OVER (PARTITION BY gain > 0 ORDER BY abs(gain) DESC, changed.sample_id) <= {FLIPS}
ORDER BY gain, changed.sample_id"""  # noqa: S608 - quoted
        result = query(home=home, sql=sql)
        for values in result.rows:
            row = dict(zip(result.columns, values, strict=True)) | {"baseline_run_id": each.baseline_run_id}
            key = tuple(row[name] for name in ("baseline_run_id", "dataset", "metric", "arm", "sample_id"))
            found.setdefault(key, row)
    return list(found.values())


def _answers(table: str, run_id: str) -> str:
    """The condition for the first answer of a changed sample."""
    return f"""{table}.run_id = {literal(run_id)} AND {table}.kind = 'generate' AND {table}.repeat = 0
    AND {table}.dataset = changed.dataset AND {table}.sample_id = changed.sample_id AND {table}.arm = changed.arm"""


def flips_behind(data: ReportData, verdict: GateVerdict) -> list[Row]:
    """The samples that changed under one gate, the lost ones first."""
    names = set(_parts(data, verdict))
    return [
        row
        for row in data.gate_flips
        if row["baseline_run_id"] == verdict.baseline_run_id
        and row["arm"] == verdict.arm
        and f"{row['dataset']}.{row['metric']}" in names
    ]


def trend(home: Path, data: ReportData) -> list[Row]:
    """Each gated metric in this run, the finished ones of its experiment and model before it, and the runs that its
    gates were held against."""
    from warehouse.query import query  # noqa: PLC0415 - brings DuckDB

    model = model_name(data)
    named = "IS NULL" if model is None else f"= {literal(model)}"
    found: list[Row] = []
    for (metric, arm, cell_id), others in _lines(verdicts(data)).items():
        point = "IS NULL" if cell_id is None else f"= {literal(cell_id)}"
        pinned = f" OR m.run_id IN ({', '.join(literal(each) for each in others)})" if others else ""
        sql = f"""
SELECT * FROM (
    SELECT m.name AS metric, m.arm, m.cell_id, m.run_id, r.started_at, m.value, m.lo, m.hi, m.n
    FROM metrics AS m
    INNER JOIN runs AS r USING (run_id)
    WHERE m.name = {literal(metric)} AND m.arm = {literal(arm)} AND m.value IS NOT NULL AND m.cell_id {point}
        AND (
            m.run_id = {literal(data.run_id)}{pinned}
            OR (
                r.name = {literal(str(data.run["name"]))} AND r.status = 'finished'
                AND m.run_id < {literal(data.run_id)} AND (r.config ->> '$.model.name') {named}
            )
        )
    ORDER BY m.run_id DESC
    LIMIT {RUNS}
) ORDER BY run_id"""  # noqa: S608 - quoted
        result = query(home=home, sql=sql)
        found += [dict(zip(result.columns, values, strict=True)) for values in result.rows]
    return found


def _lines(found: Iterable[GateVerdict]) -> dict[tuple[str, str, str | None], list[str]]:
    """The runs that each metric was held against, by (metric, arm, point of a measured load)."""
    lines: dict[tuple[str, str, str | None], dict[str, None]] = {}
    for each in found:
        runs = lines.setdefault((each.metric, each.arm, each.cell_id), {})
        if each.baseline_run_id is not None:
            runs[each.baseline_run_id] = None
    return {line: list(runs) for line, runs in lines.items()}


def _parts(data: ReportData, verdict: GateVerdict) -> list[str]:
    """The `dataset.metric`s of a gate: its own, or those of its group."""
    group, _, metric = verdict.metric.rpartition(".")
    if group in data.dataset_names:
        return [verdict.metric]
    rows = (row for row in data.metrics if row["name"] == verdict.metric and row["scope"] == "group")
    details = next((row.get("details") for row in rows), None)
    members = details.get("datasets") if isinstance(details, dict) else None
    return [f"{name}.{metric}" for name in members] if members else [verdict.metric]
