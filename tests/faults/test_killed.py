"""Killed for real in the middle of generating: nothing is left running, and resuming makes only what is missing."""

import json
import os
import signal
import sqlite3
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.command import assay, rows, start
from tests.faults.processes import family, marked, wait_for, wait_until_dead, wait_until_gone
from warehouse.parquet import read_rows

pytestmark = pytest.mark.engine

EXPERIMENT = """\
name: killed
model: smollm2-135m-instruct
engine: {{extends: vllm, max_num_seqs: 8, core: {core}}}
datasets: [{{use: arithmetic, limit: 20, max_tokens: 32}}, {{use: extract, limit: 4, max_tokens: 48}}]
arms: [free, guided]
sampling: {{temperature: 0}}
"""


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory, model_dir: Path) -> Path:
    folder = tmp_path_factory.mktemp("killed")
    for core in ("inprocess", "multiprocess"):
        (folder / f"{core}.yaml").write_text(EXPERIMENT.format(core=core))
    return folder


def new_home(work: Path, name: str, model_dir: Path) -> Path:
    home = work / name
    (home / "cache").mkdir(parents=True)
    (home / "cache" / "models").symlink_to(model_dir.parent)
    return home


def started(work: Path, home: Path, core: str) -> tuple[subprocess.Popen[str], str]:
    """A run that has some answers on disk and is not done."""
    mark = f"ASSAY_HOME={home}"
    flow = start("run", str(work / f"{core}.yaml"), "--set", "model.dtype=float32", home=home)

    def some_answers() -> bool:
        if flow.poll() is not None:
            raise AssertionError(f"the run ended too early: {flow.communicate()[1]}")
        return len(answers(home)) >= 8

    wait_for(some_answers, timeout_s=240, what="eight answers on disk")
    return flow, mark


def answers(home: Path) -> list[dict[str, Any]]:
    return read_rows(
        home, "requests", columns=["request_id", "attempt", "output", "output_token_ids", "valid", "status"]
    )


def comparable(home: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Texts, token ids, validity and scores: what a resumed run must have in common with an uninterrupted one."""
    requests = rows(
        home,
        "SELECT request_id, dataset, sample_id, arm, status, output, output_token_ids, valid, finish_reason "
        "FROM requests ORDER BY request_id",
    )
    scores = rows(home, "SELECT sample_id, arm, metric, value, extracted FROM scores ORDER BY ALL")
    return requests, scores


def test_kill_9_of_the_flow_then_resume_equals_an_uninterrupted_run(work: Path, model_dir: Path) -> None:
    home = new_home(work, "flow", model_dir)
    flow, mark = started(work, home, "inprocess")
    below = family(flow.pid)
    os.kill(flow.pid, signal.SIGKILL)
    flow.wait()
    assert wait_until_dead(below, timeout_s=10) == []
    assert wait_until_gone(mark, timeout_s=10) == []
    kept = {row["request_id"] for row in answers(home)}
    assert 8 <= len(kept) < 48

    resumed = assay("run", "--resume", "last", "--json", home=home)
    assert resumed.code == 0, resumed.stderr
    assert f"{len(kept)} from before" in resumed.stderr
    assert rows(home, "SELECT max(attempt) AS n FROM requests")[0]["n"] == 0  # nothing was asked twice
    assert rows(home, "SELECT status, count(*) AS n FROM runs GROUP BY ALL") == [{"status": "finished", "n": 1}]
    with sqlite3.connect(home / "prefect" / "prefect.db") as store:
        states = [row[0] for row in store.execute("SELECT state_type FROM flow_run ORDER BY start_time")]
    assert states == ["CRASHED", "COMPLETED"]  # the first had its server killed with it: the second says so for it
    rates = rows(home, "SELECT value FROM metrics WHERE name LIKE 'timing.%tokens_per_s'")
    assert [row["value"] for row in rates] == [None, None]  # the pause between the sessions is no time of the engine

    whole = new_home(work, "whole", model_dir)
    done = assay("run", str(work / "inprocess.yaml"), "--set", "model.dtype=float32", "--json", home=whole)
    assert done.code == 0, done.stderr
    assert comparable(home) == comparable(whole)
    print(f"\n{len(kept)} answers were kept of 48; resumed and uninterrupted runs are equal")


@pytest.mark.parametrize("core", ["inprocess", pytest.param("multiprocess", marks=pytest.mark.slow)])
def test_kill_9_of_the_worker_leaves_nothing_and_a_resumable_run(work: Path, model_dir: Path, core: str) -> None:
    home = new_home(work, f"worker-{core}", model_dir)
    flow, mark = started(work, home, core)
    engine = [
        pid for pid in marked(mark) if "tasks.engine.worker" in _cmdline(pid) and "supervisor" not in _cmdline(pid)
    ]
    assert engine, [_cmdline(pid) for pid in marked(mark)]
    below = family(flow.pid)
    os.kill(engine[0], signal.SIGKILL)
    _, errors = flow.communicate(timeout=60)
    assert flow.returncode == 1
    assert "the engine failed" in errors and "assay run --resume" in errors
    assert wait_until_dead(below, timeout_s=10) == []
    assert wait_until_gone(mark, timeout_s=10) == []
    assert rows(home, "SELECT status FROM runs") == [{"status": "failed"}]
    assert len(answers(home)) >= 8


@pytest.mark.slow
def test_kill_9_of_the_flow_with_vllms_core_in_its_own_process(work: Path, model_dir: Path) -> None:
    home = new_home(work, "flow-multiprocess", model_dir)
    flow, mark = started(work, home, "multiprocess")
    below = family(flow.pid)
    assert any("EngineCore" in " ".join(process.cmdline()) for process in below)
    os.kill(flow.pid, signal.SIGKILL)
    flow.wait()
    assert wait_until_dead(below, timeout_s=10) == []
    assert wait_until_gone(mark, timeout_s=10) == []
    print(f"\n{len(below)} processes below the flow are gone")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_ends_within_five_seconds_and_keeps_what_was_answered(
    work: Path, model_dir: Path, number: signal.Signals, code: int
) -> None:
    home = new_home(work, f"interrupt-{code}", model_dir)
    flow, mark = started(work, home, "inprocess")
    below = family(flow.pid)
    began = time.monotonic()
    os.kill(flow.pid, number)
    _, errors = flow.communicate(timeout=30)
    took = time.monotonic() - began
    assert flow.returncode == code, errors
    assert took <= 5, took
    assert wait_until_dead(below, timeout_s=10) == []
    assert wait_until_gone(mark, timeout_s=10) == []
    run = rows(home, "SELECT run_id, status FROM runs")[0]
    assert run["status"] == "cancelled"
    assert f"assay run --resume {run['run_id']}" in errors
    assert len(answers(home)) >= 8


def _cmdline(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def test_the_config_must_still_be_the_same(work: Path, model_dir: Path) -> None:
    home = new_home(work, "changed", model_dir)
    first = assay("run", str(work / "inprocess.yaml"), "--limit", "1", "--max-time", "1", "--json", home=home)
    assert first.code == 1 and json.loads(first.stdout)["status"] == "cancelled"
    other = assay("run", str(work / "inprocess.yaml"), "--limit", "2", "--resume", "last", home=home)
    assert other.code == 2
    assert "began with another config" in other.stderr and "limit" in other.stderr
