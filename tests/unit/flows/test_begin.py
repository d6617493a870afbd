"""Flows that run experiments: each closes what crashed, and goes on with what it had begun."""

import datetime
from pathlib import Path
from types import SimpleNamespace
from uuid import uuid4

import pytest

from flows import begin
from flows.ablate import ablate
from flows.experiment import experiment
from flows.hooks import after_crash
from flows.sweep import sweep
from flows.tune import tune
from warehouse.parquet import write_rows


@pytest.mark.parametrize("flow", [experiment, sweep, ablate, tune])
def test_a_flow_whose_process_died_is_closed_by_its_worker(flow: object) -> None:
    assert after_crash in flow.on_crashed_hooks  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("run_count", "named", "wanted"),
    [(1, "", None), (1, "mine", "mine"), (2, "", "20261128T100000-aaaaaa"), (2, "x", "x")],
)
def test_a_retry_goes_on_with_what_this_flow_run_had_begun(
    run_count: int, named: str, wanted: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    own = uuid4()
    for run_id, flow_run, status in (
        ("20261128T100000-aaaaaa", own, "cancelled"),
        ("20261128T110000-bbbbbb", uuid4(), "cancelled"),
        ("20261128T090000-cccccc", own, "finished"),
    ):
        row = {"flow": "sweep", "status": status, "prefect_flow_run_id": str(flow_run)}
        row["started_at"] = datetime.datetime.now(datetime.UTC)
        write_rows(home=tmp_path, table="runs", run_id=run_id, rows=[row], part="p")
    monkeypatch.setattr(begin, "this_flow_run", lambda: SimpleNamespace(id=own, run_count=run_count))
    assert begin.going_on_with(tmp_path, named) == wanted
