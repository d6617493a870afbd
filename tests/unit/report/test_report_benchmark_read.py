"""What a report of a benchmark reads of the warehouse: its own rows, the gaps of one cell, and earlier runs."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import benchmark_rows
import pytest
import report_rows

from tasks.report.benchmark_time import shown_cell, stalls
from tasks.report.benchmark_trade import quality_plane
from tasks.report.data import ReportData, load_report_data
from tasks.report.queries import queries
from warehouse.parquet import write_rows
from warehouse.query import query

_EARLIER = {
    "20260301T000000-aaaaaaaa": {},
    "20260302T000000-bbbbbbbb": {"prompts": {"kind": "random"}},
    "20260303T000000-cccccccc": {"device": "NVIDIA H200"},
    "20260304T000000-dddddddd": {"status": "failed"},
    "20260305T000000-eeeeeeee": {"name": "another"},
    "20260401T000000-ffffffff": {},
}
"""Runs beside this one, of which only the first can stand beside it: the last is a later one."""


@pytest.fixture(scope="module")
def tables() -> dict[str, list[dict[str, Any]]]:
    return benchmark_rows.tables()


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, tables: dict[str, list[dict[str, Any]]]) -> Path:
    folder = tmp_path_factory.mktemp("home")
    for table, rows in tables.items():
        _write(folder, table, report_rows.RUN_ID, rows)
    kept = ("perf.output_tokens_per_s", "perf.e2e_ms.p50", "perf.cost_per_million_output_tokens", "perf.ttft_ms.p50")
    metrics = [
        row for row in tables["metrics"] if row["name"] in (*kept, "extract.exact_match", "arithmetic.exact_match")
    ]
    for run_id, changed in _EARLIER.items():
        config = json.loads(tables["runs"][0]["config"])
        config["benchmark"] |= {key: value for key, value in changed.items() if key == "prompts"}
        run = tables["runs"][0] | {key: changed[key] for key in ("status", "name") if key in changed}
        started = run["started_at"] - timedelta(days=10)
        _write(folder, "runs", run_id, [run | {"run_id": run_id, "config": json.dumps(config), "started_at": started}])
        engine = tables["engines"][0] | {"run_id": run_id, "device": changed.get("device", "cpu")}
        _write(folder, "engines", run_id, [engine])
        _write(folder, "metrics", run_id, [row | {"run_id": run_id} for row in metrics])
    return folder


def _write(home: Path, table: str, run_id: str, rows: list[dict[str, Any]]) -> None:
    own = [{name: value for name, value in row.items() if name != "revision"} for row in rows]
    write_rows(home=home, table=table, run_id=run_id, rows=own, part="p0", revision=1)


@pytest.fixture(scope="module")
def data(home: Path) -> ReportData:
    return load_report_data(home=home, run_id=report_rows.RUN_ID)


def test_the_gaps_of_the_shown_cell_alone_are_read(data: ReportData, tables: dict[str, list[dict[str, Any]]]) -> None:
    shown = shown_cell(data)
    assert shown is not None
    own = [row for row in tables["requests"] if row["cell_id"] == shown.cell["cell_id"]]
    assert set(data.gaps) == {row["request_id"] for row in own if row["phase"] != "warmup"}
    request = own[-1]
    assert data.gaps[request["request_id"]] == pytest.approx(request["gaps_ms"], rel=1e-6)
    assert len(stalls(data)) == 1


def test_rows_of_a_load_come_back_apart_from_those_of_the_answers(
    data: ReportData, tables: dict[str, list[dict[str, Any]]]
) -> None:
    made = benchmark_rows.data_of(tables)
    assert [row["request_id"] for row in data.requests] == [row["request_id"] for row in made.requests]
    assert data.measured == made.measured
    assert len(data.measured_steps) == len(made.measured_steps)
    assert "gaps_ms" not in data.measured[0]
    assert "output" not in data.measured[0]


def test_only_runs_that_can_stand_beside_this_one_are_behind_it(data: ReportData) -> None:
    assert {row["run_id"] for row in data.earlier_points} == {"20260301T000000-aaaaaaaa"}
    names = {row["name"] for row in data.earlier_points}
    assert "perf.ttft_ms.p50" not in names
    assert {row["cell_id"] for row in data.earlier_points if row["name"] == "extract.exact_match"} == {None}
    plane = quality_plane(data)
    assert plane is not None
    assert {(dot.arm, round(dot.y, 3)) for dot in plane.earlier} == {("free", 0.28), ("guided", 0.31)}


def test_the_query_about_the_load_finds_its_points(home: Path, data: ReportData) -> None:
    found = {question: sql for question, sql in queries(data) if "load" in question}
    (sql,) = found.values()
    result = query(home=home, sql=sql)
    ids = {row[result.columns.index("point_id")] for row in result.rows}
    assert "free-closed-64" in ids
    assert len(ids) == 12
    assert len(result.rows) == 12 * 4
