"""Killed for real in the middle of generating: nothing is left running, an engine is followed by another one, and
resuming makes only what is missing."""

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
from tests.faults.processes import family, marked, wait_for, wait_until_dead, wait_until_gone, workers
from tests.stores import used_before
from warehouse.parquet import read_rows

pytestmark = pytest.mark.engine

EXPERIMENT = """\
name: killed
model: smollm2-135m-instruct
engine: {{extends: vllm, max_num_seqs: 4, core: {core}}}
datasets: [{{use: arithmetic, limit: 10, max_tokens: 32}}, {{use: extract, limit: 2, max_tokens: 48}}]
arms: [free, guided]
sampling: {{temperature: 0}}
"""
ALL, SOME = 24, 4
"""Its requests, and how many are answered before something is killed."""


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory, model_dir: Path) -> Path:
    folder = tmp_path_factory.mktemp("killed")
    for core in ("inprocess", "multiprocess"):
        (folder / f"{core}.yaml").write_text(EXPERIMENT.format(core=core))
    return folder


def new_home(work: Path, name: str, model_dir: Path) -> Path:
    return used_before(work / name, model_dir)


@pytest.fixture(scope="module")
def whole(work: Path, model_dir: Path) -> Path:
    """The home of a run that nothing disturbed."""
    home = new_home(work, "whole", model_dir)
    done = assay("run", str(work / "inprocess.yaml"), "--set", "model.dtype=float32", "--json", home=home)
    assert done.code == 0, done.stderr
    return home


def started(
    work: Path, home: Path, core: str, *settings: str, arguments: tuple[str, ...] = ()
) -> tuple[subprocess.Popen[str], str]:
    """A run that has some answers on disk and is not done."""
    mark = f"ASSAY_HOME={home}"
    more = [word for setting in ("model.dtype=float32", *settings) for word in ("--set", setting)]
    flow = start("run", str(work / f"{core}.yaml"), *more, *arguments, home=home)

    def some_answers() -> bool:
        if flow.poll() is not None:
            raise AssertionError(f"the run ended too early: {flow.communicate()[1]}")
        return len(answers(home)) >= SOME

    wait_for(some_answers, timeout_s=240, what="some answers on disk", every_s=0.2)
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


def test_kill_9_of_the_flow_then_resume_equals_an_uninterrupted_run(work: Path, model_dir: Path, whole: Path) -> None:
    home = new_home(work, "flow", model_dir)
    flow, mark = started(work, home, "inprocess")
    below = family(flow.pid)
    os.kill(flow.pid, signal.SIGKILL)
    flow.wait()
    assert wait_until_dead(below, timeout_s=10) == []
    assert wait_until_gone(mark, timeout_s=10) == []
    kept = {row["request_id"] for row in answers(home)}
    assert SOME <= len(kept) < ALL

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

    assert comparable(home) == comparable(whole)
    print(f"\n{len(kept)} answers were kept of {ALL}; resumed and uninterrupted runs are equal")


def restarted(home: Path) -> list[dict[str, Any]]:
    """What the warehouse has of the starts of the run's engine."""
    return rows(
        home,
        "SELECT start_id, ended_why, ended_while, in_flight, message, log_path, ready_at IS NOT NULL AS ready "
        "FROM engine_starts ORDER BY start_id",
    )


def goes_on(home: Path, whole: Path, errors: str, *, starts: list[str]) -> None:
    """Asserts that nothing is lost, nothing is there twice, and everything is as in a run that nothing disturbed."""
    found = restarted(home)
    assert [row["ended_why"] for row in found] == starts
    assert all(row["ready"] for row in found)
    assert [Path(row["log_path"]).name for row in found] == [
        "engine.log",
        *(f"engine.{n}.log" for n in range(1, len(found))),
    ]
    assert all(Path(row["log_path"]).stat().st_size > 0 for row in found)
    for row in found[:-1]:
        assert row["message"] in " ".join(errors.split()) and row["ended_while"] == "answering"
    requests = rows(home, "SELECT count(*) AS n, count(DISTINCT request_id) AS ids, max(attempt) AS most FROM requests")
    assert requests == [{"n": ALL, "ids": ALL, "most": requests[0]["most"]}] and 1 <= requests[0]["most"] < len(found)
    written = [(row["request_id"], row["attempt"]) for row in answers(home)]
    assert len({request_id for request_id, _ in written}) == len(written) == ALL  # what was answered is not asked again
    asked_again = sum(attempt > 0 for _, attempt in written)
    assert 0 < asked_again <= sum(row["in_flight"] for row in found[:-1])
    assert comparable(home) == comparable(whole)
    restarts = rows(home, "SELECT value FROM metrics WHERE name = 'engine.restarts'")
    assert [row["value"] for row in restarts] == [len(found) - 1]
    run = rows(home, "SELECT status, warnings FROM runs")[0]
    assert run["status"] == "finished"
    assert [text for text in run["warnings"] if text.startswith("the engine")] == [row["message"] for row in found[:-1]]
    page = next((home / "runs").glob("*/report.html")).read_text(encoding="utf-8")
    assert f"The engine {starts[0]}" in page and "engine.1.log" in page
    print(f"\n{len(found)} starts, {asked_again} of {ALL} requests asked again: {found[0]['message']}")


@pytest.mark.parametrize("core", ["inprocess", pytest.param("multiprocess", marks=pytest.mark.slow)])
def test_kill_9_of_the_worker_costs_a_restart_and_nothing_else(
    work: Path, model_dir: Path, whole: Path, core: str
) -> None:
    home = new_home(work, f"worker-{core}", model_dir)
    flow, mark = started(work, home, core)
    os.kill(workers(mark)[0], signal.SIGKILL)
    _, errors = flow.communicate(timeout=240)
    assert flow.returncode == 0, errors
    assert wait_until_gone(mark, timeout_s=10) == []
    goes_on(home, whole, errors, starts=["died", "done"])


@pytest.mark.slow
def test_a_worker_that_is_stopped_is_found_to_hang_and_followed_by_another(
    work: Path, model_dir: Path, whole: Path
) -> None:
    home = new_home(work, "stopped", model_dir)
    flow, mark = started(work, home, "inprocess", "engine.failures.hang_s=20")
    below = family(flow.pid)
    os.kill(workers(mark)[0], signal.SIGSTOP)
    _, errors = flow.communicate(timeout=300)
    assert flow.returncode == 0, errors
    assert wait_until_dead(below, timeout_s=10) == []
    assert "it has said nothing for" in restarted(home)[0]["message"]
    goes_on(home, whole, errors, starts=["hung", "done"])


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_a_run_whose_engine_hangs(work: Path, model_dir: Path, number: signal.Signals) -> None:
    home = new_home(work, f"stopped-{number}", model_dir)
    flow, mark = started(work, home, "inprocess")
    os.kill(workers(mark)[0], signal.SIGSTOP)
    time.sleep(1)
    began = time.monotonic()
    os.kill(flow.pid, number)
    _, errors = flow.communicate(timeout=60)
    assert flow.returncode == 128 + number, errors
    assert time.monotonic() - began <= 8
    assert wait_until_gone(mark, timeout_s=10) == []
    assert [row["ended_why"] for row in restarted(home)] == ["stopped"]


@pytest.mark.slow
def test_the_time_limit_holds_while_an_engine_is_started_again(work: Path, model_dir: Path) -> None:
    home = new_home(work, "limit", model_dir)
    flow, mark = started(work, home, "inprocess", arguments=("--max-time", "60"))
    first = workers(mark)
    os.kill(first[0], signal.SIGKILL)
    wait_for(lambda: set(workers(mark)) - set(first), timeout_s=60, what="the next engine's process")
    [second] = set(workers(mark)) - set(first)
    os.kill(second, signal.SIGSTOP)  # it never becomes ready
    _, errors = flow.communicate(timeout=120)
    assert flow.returncode == 1 and "the time limit was reached" in errors, errors
    assert wait_until_gone(mark, timeout_s=10) == []
    assert [(row["ended_why"], row["ready"]) for row in restarted(home)] == [("died", True), ("stopped", False)]
    assert rows(home, "SELECT status FROM runs") == [{"status": "cancelled"}]
    assert SOME <= len(answers(home)) < ALL


@pytest.mark.slow
@pytest.mark.parametrize("core", ["inprocess", "multiprocess"])
def test_without_restarts_a_killed_worker_leaves_nothing_and_a_resumable_run(
    work: Path, model_dir: Path, core: str
) -> None:
    home = new_home(work, f"no-restart-{core}", model_dir)
    flow, mark = started(work, home, core, "engine.failures.restarts=0")
    engine, below = workers(mark), family(flow.pid)
    assert engine, marked(mark)
    os.kill(engine[0], signal.SIGKILL)
    _, errors = flow.communicate(timeout=60)
    assert flow.returncode == 1
    assert "the engine failed" in errors and "assay run --resume" in errors
    assert wait_until_dead(below, timeout_s=10) == []
    assert wait_until_gone(mark, timeout_s=10) == []
    assert rows(home, "SELECT status FROM runs") == [{"status": "failed"}]
    assert [row["ended_why"] for row in restarted(home)] == ["died"]
    assert len(answers(home)) >= SOME


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


@pytest.mark.parametrize(
    ("number", "code"),
    # Prefect's Cancel sends SIGTERM too: tests/e2e/test_up.py has it each time.
    [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.slow)],
)
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
    assert len(answers(home)) >= SOME


def test_the_config_must_still_be_the_same(work: Path, model_dir: Path) -> None:
    home = new_home(work, "changed", model_dir)
    first = assay("run", str(work / "inprocess.yaml"), "--limit", "1", "--max-time", "0.05s", "--json", home=home)
    assert first.code == 1 and json.loads(first.stdout)["status"] == "cancelled"
    other = assay("run", str(work / "inprocess.yaml"), "--limit", "2", "--resume", "last", home=home)
    assert other.code == 2
    assert "began with another config" in other.stderr and "limit" in other.stderr
