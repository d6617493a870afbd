"""Out of memory for real: the operating system gives the engine's process no more, so that torch's own allocation, or
Python's, fails. The run goes on with an engine of less."""

import resource
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.command import rows, start
from tests.faults.processes import wait_for, wait_until_gone, workers
from warehouse.parquet import read_rows

pytestmark = [pytest.mark.engine, pytest.mark.slow]

GIB = 1 << 30
EXPERIMENT = """\
name: ladder
model: smollm2-135m-instruct
engine: {extends: vllm, max_num_seqs: 8%s}
datasets: [{use: arithmetic, limit: %d, max_tokens: 32}]
arms: [free]
sampling: {temperature: 0}
"""
OUT_OF_MEMORY = ("can't allocate memory", "MemoryError", "bad_alloc", "Cannot allocate memory")


@contextmanager
def running(
    home: Path, tmp_path: Path, *, engine: str = "", samples: int = 12, settings: tuple[str, ...] = ()
) -> Iterator[Any]:
    file = tmp_path / "ladder.yaml"
    file.write_text(EXPERIMENT % (engine, samples))
    more = [word for setting in ("model.dtype=float32", *settings) for word in ("--set", setting)]
    flow = start("run", str(file), *more, home=home)
    yield flow
    assert wait_until_gone(f"ASSAY_HOME={home}", timeout_s=10) == []


def limited(pid: int, most: int) -> None:
    """Gives a process no more than so many bytes of data from now on; what it has, it keeps."""
    resource.prlimit(pid, resource.RLIMIT_DATA, (most, most))


@contextmanager
def every_engine_limited(flow: subprocess.Popen[str], home: Path, most: int) -> Iterator[None]:
    """As a batch system does it: each engine of the run has a limit from its start."""
    seen: set[int] = set()
    stop = threading.Event()

    def watch() -> None:
        while not stop.wait(0.2):
            for pid in set(workers(f"ASSAY_HOME={home}")) - seen:
                limited(pid, most)
                seen.add(pid)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        stop.set()
        watcher.join()


def starts(home: Path) -> list[dict[str, Any]]:
    return rows(
        home,
        "SELECT start_id, engine_id, ended_why, ended_while, error, in_flight, rung, message FROM engine_starts "
        "ORDER BY order_index",
    )


def test_keys_and_values_that_do_not_fit_are_halved_until_they_do(home: Path, tmp_path: Path) -> None:
    # Without them the engine has 2.1 GiB of data; 2 GiB more are not there, 1 GiB is.
    with running(home, tmp_path, engine=f", memory: {{kv_cache_bytes: {2 * GIB}}}") as flow:
        with every_engine_limited(flow, home, int(3.6 * GIB)):
            _, errors = flow.communicate(timeout=300)
        assert flow.returncode == 0, errors
    found = starts(home)
    assert [row["ended_why"] for row in found[:-1]] == ["out_of_memory"] * (len(found) - 1) and len(found) > 1
    first, last = found[0], found[-1]
    assert first["ended_while"] == "building" and first["engine_id"] is None and first["rung"] is None
    assert any(words in first["message"] for words in OUT_OF_MEMORY), first
    assert found[1]["rung"] == "kv_cache_memory_bytes 2,048 MiB -> 1,024 MiB"
    assert last["ended_why"] == "done" and last["engine_id"] is not None
    assert first["message"] in " ".join(errors.split())

    engine = rows(home, "SELECT engine_id, kv_bytes, ladder, downgrades FROM engines")
    assert [row["engine_id"] for row in engine] == [last["engine_id"]]
    assert engine[0]["kv_bytes"] <= GIB and len(engine[0]["ladder"]) == len(found) - 1
    yours = "kv_cache_memory_bytes: you set 2,048 MiB, the engine ran out of memory and runs with"
    assert any(text.startswith(yours) for text in engine[0]["downgrades"])
    plan = rows(home, "SELECT source, reason FROM plans WHERE option = 'kv_cache_memory_bytes'")
    assert plan[0]["source"] == "plan" and plan[0]["reason"].startswith("The engine ran out of memory while building")
    assert rows(home, "SELECT count(*) AS n, max(attempt) AS most FROM requests WHERE output IS NOT NULL") == [
        {"n": 12, "most": 0}
    ]
    page = next((home / "runs").glob("*/report.html")).read_text(encoding="utf-8")
    assert "The engine ran out of memory" in page and "kv_cache_memory_bytes 2,048 MiB -&gt; 1,024 MiB" in page
    print(f"\n{first['message']}")


def test_memory_that_runs_out_while_it_answers_costs_a_rung_and_no_answer(home: Path, tmp_path: Path) -> None:
    with running(home, tmp_path, samples=60) as flow:
        wait_for(
            lambda: len(read_rows(home, "requests", columns=["request_id"])) >= 2, timeout_s=240, what="two answers"
        )
        limited(workers(f"ASSAY_HOME={home}")[0], 1 << 20)
        _, errors = flow.communicate(timeout=300)
        assert flow.returncode == 0, errors
    first, last = starts(home)
    assert (first["ended_why"], first["ended_while"], last["ended_why"]) == ("out_of_memory", "answering", "done")
    assert last["rung"].startswith("max_num_seqs 8 -> 4")
    assert first["engine_id"] != last["engine_id"]
    asked = rows(home, "SELECT engine_id, attempt, count(*) AS n FROM requests GROUP BY ALL ORDER BY ALL")
    assert sum(row["n"] for row in asked) == 60 and {row["engine_id"] for row in asked} == {
        first["engine_id"],
        last["engine_id"],
    }
    assert rows(home, "SELECT count(*) AS n FROM engines") == [{"n": 2}]
    print(f"\n{first['message']}\n{asked}")


def test_with_no_rungs_left_the_run_ends_and_says_why(home: Path, tmp_path: Path) -> None:
    block = f", memory: {{kv_cache_bytes: {2 * GIB}}}"
    with running(home, tmp_path, engine=block, settings=("engine.failures.rungs=0",)) as flow:
        with every_engine_limited(flow, home, int(3.6 * GIB)):
            _, errors = flow.communicate(timeout=300)
        assert flow.returncode == 1
    assert "engine.failures.rungs is 0, so nothing smaller was tried" in errors
    assert [row["ended_why"] for row in starts(home)] == ["out_of_memory"]
    assert rows(home, "SELECT status FROM runs") == [{"status": "failed"}]
