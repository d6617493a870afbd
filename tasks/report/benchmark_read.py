"""What a report of a benchmark reads besides the run's own rows: the gaps of one cell, and earlier runs."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tasks.compare.points import same_questions
from tasks.compare.read import PERF
from tasks.report.benchmark import points
from tasks.report.benchmark_time import shown_cell
from tasks.report.benchmark_trade import NAMES, first_metrics
from tasks.report.data import ReportData, Row
from tasks.report.header import model_name
from warehouse.query import query
from warehouse.schema.table import literal

MOST_GAPS = 500_000
RUNS = 10
"""The most earlier runs that are shown."""


def gaps(home: Path, data: ReportData) -> dict[str, list[float]]:
    """The gaps of the answers of the cell that is shown over time, by request: those of all cells would not fit. Of a
    very long cell, those of its first answers."""
    shown = shown_cell(data)
    if shown is None:
        return {}
    sql = f"""
SELECT request_id, gaps_ms FROM requests
WHERE run_id = {literal(data.run_id)} AND cell_id = {literal(shown.cell["cell_id"])}
    AND phase IN ('measure', 'cooldown') AND gaps_ms IS NOT NULL
QUALIFY row_number() OVER (PARTITION BY request_id ORDER BY attempt DESC) = 1
    AND sum(len(gaps_ms)) OVER (ORDER BY sent_at, request_id, attempt) <= {MOST_GAPS}"""  # noqa: S608 - quoted
    return {request_id: list(found) for request_id, found in query(home=home, sql=sql).rows}


def earlier_points(home: Path, data: ReportData) -> list[Row]:
    """The numbers of this run's points in earlier finished runs of its experiment and model, on the same device and
    with the same questions, and what their answers scored by the same metrics: rows of run_id, cell_id (None for a
    score), name, arm, value."""
    runs = _runs(home, data)
    own = [point.point_id for point in points(data)]
    if not runs or not own:
        return []
    of_points = f"cell_id IN {_list(own)} AND name IN {_list(f'{PERF}{name}' for name in NAMES)}"
    scores = list(first_metrics(data))
    of_scores = f" OR (cell_id IS NULL AND name IN {_list(scores)})" if scores else ""
    sql = f"""
SELECT run_id, cell_id, name, arm, value FROM metrics
WHERE run_id IN {_list(runs)} AND value IS NOT NULL AND (({of_points}){of_scores})
ORDER BY run_id, cell_id, name"""  # noqa: S608 - quoted
    result = query(home=home, sql=sql)
    return [dict(zip(result.columns, values, strict=True)) for values in result.rows]


def _runs(home: Path, data: ReportData) -> list[str]:
    model = model_name(data)
    named = "IS NULL" if model is None else f"= {literal(model)}"
    sql = f"""
SELECT r.run_id, r.config ->> '$.benchmark' AS benchmark, list_sort(list(DISTINCT e.device)) AS devices
FROM runs AS r LEFT JOIN engines AS e USING (run_id)
WHERE r.name = {literal(str(data.run["name"]))} AND r.status = 'finished' AND r.run_id < {literal(data.run_id)}
    AND (r.config ->> '$.model.name') {named}
GROUP BY r.run_id, benchmark
ORDER BY r.run_id DESC"""  # noqa: S608 - quoted
    devices = sorted({str(row["device"]) for row in data.engines if row.get("device")})
    found = []
    for run_id, benchmark, others in query(home=home, sql=sql).rows:
        block: Any = None if benchmark is None else json.loads(benchmark)
        same_device = sorted(str(each) for each in others or [] if each is not None) == devices
        if isinstance(block, dict) and same_device and same_questions(block, data.benchmark):
            found.append(run_id)
    return found[:RUNS]


def _list(texts: Iterable[str]) -> str:
    return f"({', '.join(literal(text) for text in texts)})"
