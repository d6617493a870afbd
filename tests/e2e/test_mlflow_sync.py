"""`assay sync`, as a user runs it: runs that MLflow missed, brought to it by another process."""

import shutil
from pathlib import Path

import pytest

from tasks.record import stage
from tests.e2e.command import assay
from tests.mlflow_parts import Stored, answered, assert_whole, begun, free_port
from tests.stores import mlflow_store
from warehouse.parquet import read_rows


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    shutil.copy(mlflow_store(), folder / "mlflow.db")
    return folder


def test_it_says_what_it_brought_and_what_waits(home: Path) -> None:
    store = f"sqlite:///{home / 'mlflow.db'}"
    nothing = assay("sync", home=home, timeout_s=60, MLFLOW_TRACKING_URI=store)
    assert nothing.code == 0 and "MLflow has every run" in nothing.stderr and nothing.stdout == ""

    sessions = [begun(home), begun(home)]
    for session in sessions:
        answered(session)
        stage.end(session, status="finished")
    ids = [session.run.run_id for session in sessions]

    closed = f"http://127.0.0.1:{free_port()}"
    down = assay("sync", "--json", home=home, timeout_s=60, MLFLOW_TRACKING_URI=closed)
    assert down.code == down.json["exit_code"] == 1 and down.stdout.count("\n") == 1
    assert down.json["replayed"] == [] and [each["run_id"] for each in down.json["remaining"]] == sorted(ids)
    assert closed in down.json["remaining"][0]["reason"] and "not tried" in down.json["remaining"][1]["reason"]
    assert "2 runs left" in down.stderr

    done = assay("sync", "--json", home=home, timeout_s=120, MLFLOW_TRACKING_URI=store)
    assert done.code == 0, done.stderr
    assert done.json == {"replayed": sorted(ids), "remaining": [], "exit_code": 0}
    assert "1/2" in done.stderr and "2 runs brought to" in done.stderr
    for run_id in ids:
        parent, *_ = assert_whole(Stored(home / "mlflow.db"), run_id)
        assert read_rows(home, "runs", run_id)[0]["mlflow_run_id"] == parent["id"]
    assert assay("sync", "--json", home=home, timeout_s=60).json["replayed"] == []
