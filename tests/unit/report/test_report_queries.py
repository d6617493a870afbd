"""The report's ready-made SQL runs in the warehouse as it is printed, and answers its question."""

from pathlib import Path
from typing import Any

import pytest
import report_rows

from tasks.report.data import from_tables, load_report_data
from tasks.report.queries import queries
from warehouse.parquet import write_rows
from warehouse.query import query


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    for table, rows in report_rows.tables(sizes={"extract": 12, "choice": 3}).items():
        own: list[dict[str, Any]] = [{name: v for name, v in row.items() if name != "revision"} for row in rows]
        write_rows(home=folder, table=table, run_id=report_rows.RUN_ID, rows=own, part="p0", revision=1)
    return folder


def test_each_query_runs_and_finds_this_run(home: Path) -> None:
    data = load_report_data(home=home, run_id=report_rows.RUN_ID)
    found = {question: query(home=home, sql=sql) for question, sql in queries(data)}
    assert len(found) == 5
    assert all(result.rows for result in found.values()), {q: len(r.rows) for q, r in found.items()}
    wrong = found["What went wrong, how often, and why?"]
    reasons = {row[wrong.columns.index("reason")] for row in wrong.rows}
    assert "the grammar backend does not take `uniqueItems`" in reasons
    slow = found["What did the slowest answers look like?"]
    times = [row[slow.columns.index("e2e_ms")] for row in slow.rows]
    assert times == sorted(times, reverse=True)


def test_a_run_id_with_a_quote_stays_a_text() -> None:
    tables = {"runs": [{"run_id": "a' OR '1'='1"}]}
    data = from_tables(tables=tables, run_id="a' OR '1'='1")
    assert all("run_id = 'a'' OR ''1''=''1'" in sql for _, sql in queries(data))
