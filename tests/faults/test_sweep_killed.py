"""A sweep killed, or interrupted, in the middle of a cell: nothing is left running; what was finished stays, and the
cell that was cut goes on with the answers that it had."""

import contextlib
import os
import signal
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.command import assay, rows, start
from tests.faults.processes import family, wait_for, wait_until_dead, wait_until_gone
from tests.stores import used_before
from warehouse.parquet import read_rows

pytestmark = [pytest.mark.engine, pytest.mark.slow]

BASE = """\
name: killed
model: smollm2-135m-instruct
engine: {extends: vllm, core: inprocess, max_num_seqs: 4, max_model_len: 512, memory: {kv_cache_bytes: 134217728}}
datasets: [{use: arithmetic, limit: 24, max_tokens: 24}]
arms: [free]
sampling: {temperature: 0}
"""
SWEEP = """\
base: ./killed.yaml
matrix: {engine.prefill: [{policy: "off"}, {policy: fixed, threshold: 64}]}
tags: {night: one}
"""
EXACT = ("--set", "model.dtype=float32")
ANSWERS = """SELECT c.cell_index, q.request_id, q.output, q.output_token_ids
FROM sweep_cells AS c INNER JOIN requests AS q ON q.run_id = c.cell_run_id ORDER BY c.cell_index, q.request_id"""


def project(folder: Path, model_dir: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "killed.yaml").write_text(BASE)
    (folder / "halves.yaml").write_text(SWEEP)
    used_before(folder / "home", model_dir)
    return folder / "home"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, model_dir: Path) -> list[dict[str, Any]]:
    """The answers of a sweep that nothing disturbed."""
    home = project(tmp_path_factory.mktemp("whole"), model_dir)
    done = assay("sweep", str(home.parent / "halves.yaml"), *EXACT, home=home)
    assert done.code == 0, done.stderr
    return rows(home, ANSWERS)


def answers(home: Path, run_id: str | None) -> list[dict[str, Any]]:
    return [] if run_id is None else read_rows(home, "requests", run_id, columns=["request_id", "attempt"])


def cells(home: Path) -> dict[int, dict[str, Any]]:
    return {row["cell_index"]: row for row in read_rows(home, "sweep_cells")}


def in_the_second_cell(home: Path) -> subprocess.Popen[str]:
    """A sweep whose first cell is finished, and whose second one has some answers on disk."""
    flow = start("sweep", str(home.parent / "halves.yaml"), *EXACT, home=home)

    def cut() -> bool:
        if flow.poll() is not None:
            raise AssertionError(f"the sweep ended too early: {flow.communicate()[1]}")
        second = cells(home).get(1)
        return second is not None and 4 <= len(answers(home, second["cell_run_id"])) < 24

    wait_for(cut, timeout_s=240, what="some answers of the second cell")
    return flow


def in_mlflow(home: Path, run_id: str) -> list[str]:
    """The status of a run there, and of the runs below it."""
    sql = (
        "SELECT r.status FROM runs r JOIN tags t ON t.run_uuid = r.run_uuid AND t.key = 'assay.run_id' AND t.value = ?"
        " WHERE r.lifecycle_stage = 'active' ORDER BY r.start_time"
    )
    with contextlib.closing(sqlite3.connect(home / "mlflow.db")) as store:
        return [status for (status,) in store.execute(sql, (run_id,))]


def states(home: Path) -> list[str]:
    return [row["state"] for row in rows(home, "SELECT state FROM sweep_cells ORDER BY cell_index")]


@pytest.fixture
def killed(tmp_path: Path, model_dir: Path) -> Iterator[Path]:
    """The home of a sweep that was killed in the middle of its second cell."""
    home = project(tmp_path, model_dir)
    flow = in_the_second_cell(home)
    below = family(flow.pid)
    os.kill(flow.pid, signal.SIGKILL)
    flow.wait()
    assert wait_until_dead(below, timeout_s=10) == []
    assert wait_until_gone(f"ASSAY_HOME={home}", timeout_s=10) == []
    yield home


def test_after_kill_9_finished_cells_are_not_run_again_and_the_cut_one_keeps_its_answers(
    killed: Path, whole: list[dict[str, Any]]
) -> None:
    before = cells(killed)
    kept = {row["request_id"] for row in answers(killed, before[1]["cell_run_id"])}
    assert (before[0]["state"], before[1]["state"]) == ("finished", "running") and 4 <= len(kept) < 24
    resumed = assay("sweep", "--resume", "last", "--json", home=killed)
    assert resumed.code == 0, resumed.stderr
    assert resumed.json["run_id"] == before[0]["run_id"]
    assert "run 1 of 2: prefill=" in resumed.stderr and "finished before" in resumed.stderr
    assert f"{len(kept)} from before" in resumed.stderr
    after = cells(killed)
    assert [after[index]["cell_run_id"] for index in (0, 1)] == [before[index]["cell_run_id"] for index in (0, 1)]
    assert after[0]["ended_at"] == before[0]["ended_at"]
    assert states(killed) == ["finished", "finished"]
    assert after[1]["built"]  # the engine that it had is gone
    assert rows(killed, "SELECT max(attempt) AS n FROM requests")[0]["n"] == 0  # nothing was asked twice
    runs = rows(killed, "SELECT flow, status, count(*) AS n FROM runs GROUP BY ALL ORDER BY flow")
    assert [(run["flow"], run["status"], run["n"]) for run in runs] == [
        ("experiment", "finished", 2),
        ("sweep", "finished", 1),
    ]
    parents = rows(killed, "SELECT DISTINCT parent_run_id FROM runs WHERE flow = 'experiment'")
    assert parents == [{"parent_run_id": before[0]["run_id"]}]
    assert rows(killed, ANSWERS) == whole
    print(f"\n{len(kept)} answers of the second cell were kept; a resumed sweep and an uninterrupted one are equal")

    again = assay("sweep", "--resume", "last", "--json", home=killed)
    assert again.code == 0 and again.stderr.count("finished before") == 2
    assert cells(killed)[1]["ended_at"] == after[1]["ended_at"]


def test_the_next_run_closes_a_killed_sweep_and_mlflow_is_in_order(killed: Path) -> None:
    sweep_id = cells(killed)[0]["run_id"]
    run = assay("run", str(killed.parent / "killed.yaml"), "--limit", "1", "--json", home=killed)
    assert run.code == 0, run.stderr
    assert [text for text in run.json["warnings"] if "could not be closed" in text or "MLflow" in text] == []
    closed = {row["run_id"]: row for row in rows(killed, "SELECT run_id, flow, status, error FROM runs")}
    assert closed[sweep_id]["status"] == "crashed"
    assert f"assay sweep --resume {sweep_id}" in closed[sweep_id]["error"]
    cut = closed[cells(killed)[1]["cell_run_id"]]
    assert cut["status"] == "crashed" and "assay run --resume" in cut["error"]
    assert in_mlflow(killed, sweep_id) == ["KILLED"] and in_mlflow(killed, cut["run_id"])[0] == "KILLED"
    assert assay("sync", home=killed).code == 0
    nothing = assay("sync", "--json", home=killed)
    assert nothing.code == 0, nothing.stderr
    resumed = assay("sweep", "--resume", sweep_id, home=killed)
    assert resumed.code == 0, resumed.stderr
    assert states(killed) == ["finished", "finished"]
    assert in_mlflow(killed, sweep_id) == ["FINISHED"] and set(in_mlflow(killed, cut["run_id"])) == {"FINISHED"}


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_ends_a_sweep_within_five_seconds(
    tmp_path: Path, model_dir: Path, number: signal.Signals, code: int
) -> None:
    home = project(tmp_path, model_dir)
    flow = in_the_second_cell(home)
    below = family(flow.pid)
    began = time.monotonic()
    os.kill(flow.pid, number)
    _, errors = flow.communicate(timeout=60)
    took = time.monotonic() - began
    assert flow.returncode == code, errors
    assert wait_until_dead(below, timeout_s=10) == []
    assert wait_until_gone(f"ASSAY_HOME={home}", timeout_s=10) == []
    assert "assay sweep --resume last" in errors
    assert states(home) == ["finished", "cancelled"]
    found = rows(home, "SELECT flow, status FROM runs ORDER BY started_at")
    assert [row["status"] for row in found] == ["cancelled", "finished", "cancelled"]
    assert in_mlflow(home, cells(home)[0]["run_id"]) == ["KILLED"]
    assert took <= 5, took
    resumed = assay("sweep", "--resume", "last", "--json", home=home)
    assert resumed.code == 0, resumed.stderr
    assert states(home) == ["finished", "finished"] and "from before" in resumed.stderr
