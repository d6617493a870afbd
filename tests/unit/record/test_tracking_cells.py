"""What MLflow gets of a sweep: one run above those of its cells, whatever comes first and however it ends."""

from pathlib import Path
from typing import Any

import pytest

from flows.cells import recorded
from schemas.run import MADE_OF_RUNS, CellContext
from schemas.sweep import CellResult, CellSpec
from tasks.cells.record import CellsRecord
from tasks.record import mlflow_run, stage
from tasks.record.open import open_run
from tasks.record.reconcile import close_orphans
from tasks.record.tracking import spool, sync
from tasks.session import Session
from tests.mlflow_parts import Stored, answered, ended, free_port
from warehouse.parquet import read_rows

PARENT = "mlflow.parentRunId"


def a_sweep(home: Path, *, flow: str = "sweep", run_id: str = "20261101T000000-aaaaaa") -> CellsRecord:
    return CellsRecord(
        home=home,
        run_id=run_id,
        flow=flow,
        name="night",
        config={
            "path": "/p/night.yaml",
            "base": "/p/quickstart.yaml",
            "sweep": {"matrix": {"engine.max_num_seqs": [2, 4]}, "repeats": 1, "tags": {"a": "b"}, "limit": None},
            "cells": [{"index": 0}],
        },
        tags={"team": "blue"},
        prefect_flow_run_id="flow-9",
        experiment="quickstart",
    )


def a_cell(record: CellsRecord) -> Session:
    """Its run, which has begun; its row says running, and its lock is free."""
    cell = CellContext(parent_run_id=record.run_id)
    session = Session(open_run(home=record.home, file="quickstart", limit=6, prefect_flow_run_id="flow-1", cell=cell))
    stage.begin(session)
    session.store.write("datasets", [])
    (session.run.folder / "lock").touch()
    return session


def cell_result(index: int, run_id: str, state: Any = "finished") -> CellResult:
    spec = CellSpec(index=index, name=f"max_num_seqs={2 * index + 2}", settings={}, overrides=[])
    return CellResult(
        cell=spec, repeat=0, order_index=index, state=state, run_id=run_id, built=index == 0, seconds=1.25
    )


def of(home: Path, run_id: str) -> dict[str, Any]:
    found: dict[str, Any] = Stored(home / "mlflow.db").runs(run_id)[0]
    return found


def whole_cell(record: CellsRecord, index: int, *, tracked: bool = True) -> Session:
    session = a_cell(record)
    record.cells([cell_result(index, session.run.run_id, state="running")])
    if tracked:
        stage.start_tracking(session)
    answered(session)
    record.cells([cell_result(index, session.run.run_id)])
    return session


def test_a_sweep_is_above_its_cells_with_its_settings_its_counts_and_its_page(empty_home: Path) -> None:
    record, warnings = a_sweep(empty_home), list[str]()
    with recorded(record, warnings):
        assert of(empty_home, record.run_id)["status"] == "RUNNING"
        sessions = [whole_cell(record, index) for index in range(2)]
        for session in sessions:
            ended(session)
        record.cells([cell_result(2, "", state="timeout").model_copy(update={"run_id": None, "error": "late"})])
        for name in ("report.html", "cells.csv"):
            (record.folder / name).write_text("cell,state\nx,finished\n")
    above = of(empty_home, record.run_id)
    assert warnings == []
    assert (above["name"], above["status"]) == (f"night {record.run_id}", "FINISHED")
    assert above["params"] == {"base": "/p/quickstart.yaml", "matrix.engine.max_num_seqs": "[2, 4]", "repeats": "1"}
    assert {name: value for name, value, _ in above["metrics"]} == {
        "runs": 3, "runs.finished": 2, "runs.failed": 1, "runs.engines_built": 1
    }  # fmt: skip
    assert above["tags"]["assay.kind"] == "sweep" and above["tags"]["team"] == "blue"
    assert above["tags"]["mlflow.source.name"] == "assay sweep night" and PARENT not in above["tags"]
    note = above["tags"]["mlflow.note.content"]
    assert all(part in note for part in ("**finished**", "/artifacts/cells.csv", "flow-9", "| max_num_seqs=4 | 1 |"))
    stored = Stored(empty_home / "mlflow.db")
    for session in sessions:
        cell, *arms = stored.runs(session.run.run_id)
        assert cell["name"] == f"max_num_seqs={2 if session is sessions[0] else 4} {session.run.run_id}"
        assert cell["tags"][PARENT] == above["id"] and cell["tags"]["assay.parent_run_id"] == record.run_id
        assert {arm["tags"][PARENT] for arm in arms} == {cell["id"]} and len(arms) == 2
    assert stored.rows("SELECT count(DISTINCT experiment_id) FROM runs") == [(1,)]
    files = {path.name for path in (empty_home / "mlartifacts").rglob(f"{above['id']}/artifacts/*")}
    assert files == {"report.html", "cells.csv"}
    [row] = read_rows(empty_home, "runs", record.run_id)
    assert row["mlflow_run_id"] == above["id"] and row["status"] == "finished"
    assert sync.sync(empty_home).replayed == []


def test_what_waited_for_mlflow_comes_to_lie_below_the_sweep(empty_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record, warnings = a_sweep(empty_home), list[str]()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{free_port()}")
    with recorded(record, warnings):
        session = whole_cell(record, 0, tracked=False)
        stage.end(session, status="finished")
    assert len(warnings) >= 1 and "assay sync" in warnings[0]
    assert spool.waiting(empty_home) == [record.run_id, session.run.run_id]
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    # The cell comes first, when nothing is known of the sweep yet.
    assert sync.sync(empty_home, only=[session.run.run_id]).remaining == {}
    assert PARENT not in of(empty_home, session.run.run_id)["tags"]
    assert sync.sync(empty_home).remaining == {}
    assert of(empty_home, session.run.run_id)["tags"][PARENT] == of(empty_home, record.run_id)["id"]


def test_nothing_is_closed_while_the_sweep_lives(empty_home: Path) -> None:
    record = a_sweep(empty_home)
    with recorded(record, []):
        assert close_orphans(empty_home) == []
    assert of(empty_home, record.run_id)["status"] == "FINISHED"


@pytest.mark.parametrize("flow", [flow for flow in MADE_OF_RUNS if flow != "grammars"])
def test_one_whose_process_is_gone_is_killed_in_mlflow_and_goes_on_as_the_same_run(empty_home: Path, flow: str) -> None:
    record = a_sweep(empty_home, flow=flow)
    record.begin()
    record.tracked(mlflow_run.start_run(empty_home, record.run_id))
    session = whole_cell(record, 0)
    (record.folder / "lock").touch()
    closed = {run.run_id: run for run in close_orphans(empty_home)}
    assert set(closed) == {record.run_id, session.run.run_id} and not any(run.tracking for run in closed.values())
    above = of(empty_home, record.run_id)
    assert closed[record.run_id].mlflow_run_id == above["id"]
    assert (above["status"], above["tags"]["assay.status"]) == ("KILLED", "crashed")
    assert f"assay {flow} --resume {record.run_id}" in above["tags"]["mlflow.note.content"]
    assert of(empty_home, session.run.run_id)["status"] == "KILLED"
    with recorded(a_sweep(empty_home, flow=flow), []):
        assert of(empty_home, record.run_id)["status"] == "RUNNING"
    again = of(empty_home, record.run_id)
    assert (again["id"], again["status"]) == (above["id"], "FINISHED")
    [row] = read_rows(empty_home, "runs", record.run_id)
    assert (row["status"], row["error"], row["mlflow_run_id"]) == ("finished", None, above["id"])


def test_one_that_is_interrupted_says_so(empty_home: Path) -> None:
    record = a_sweep(empty_home)
    with pytest.raises(KeyboardInterrupt), recorded(record, []):
        raise KeyboardInterrupt
    above = of(empty_home, record.run_id)
    assert (above["status"], above["tags"]["assay.status"]) == ("KILLED", "cancelled")
