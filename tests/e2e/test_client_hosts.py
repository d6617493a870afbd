"""A load that several machines send: this one, and others that a Prefect worker makes clients of.

The others are this machine under other names and with other clocks (namespaces of Linux), with a home of their own; the
server is one that answers by a script and writes down when each call came."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tests.bench.endpoint import served
from tests.e2e.command import ROOT, Done, assay, command, environment, rows, start
from tests.faults.processes import wait_for
from tests.machines import HAS_NAMESPACES, elsewhere
from tests.up import Up

pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(not HAS_NAMESPACES, reason="no time namespaces here (unshare -T)"),
]
FILE = """\
name: together
model: smollm2-135m-instruct
engine: {{kind: endpoint, url: "{url}", model: tiny}}
datasets: []
arms: [free]
benchmark:
  load: [{{kind: open, rate: 20, requests: 40}}, {{kind: closed, concurrency: 6, requests: 36}}]
  prompts: {{kind: random, prompt_tokens: 16, output_tokens: 8}}
  warmup: 4
  client_hosts: {{workers: 2, address: 127.0.0.1, wait_s: 90}}
"""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with served(tokens=8, ttft_s=0.03, tpot_s=0.005) as url:
        yield url


@contextmanager
def workers(up: Up, folder: Path, *hosts: str) -> Iterator[None]:
    """`assay worker clients` on machines of these names."""
    started = []
    try:
        for number, host in enumerate(hosts, 1):
            home = folder / host
            home.mkdir(exist_ok=True)
            started.append(
                subprocess.Popen(
                    elsewhere(host, *command("worker", "clients"), ahead_s=4000 * number),
                    env=environment(home, ASSAY_PREFECT_API_URL=f"{up.prefect}/api"),
                    cwd=ROOT,
                    stdout=(home / "worker.log").open("wb"),
                    stderr=subprocess.STDOUT,
                )
            )
        yield
    finally:
        for process in started:
            below = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
            for each in below:
                with contextlib.suppress(psutil.NoSuchProcess):
                    each.send_signal(signal.SIGKILL)
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def done(up: Up, server: str, tmp_path_factory: pytest.TempPathFactory) -> Done:
    folder = tmp_path_factory.mktemp("hosts")
    file = folder / "together.yaml"
    file.write_text(FILE.format(url=server), encoding="utf-8")
    with workers(up, folder, "far-a", "far-b"):
        return assay("bench", str(file), "--json", home=up.home, cwd=up.folder)


def test_it_ends_well(done: Done) -> None:
    assert done.code == 0, done.stderr
    assert done.json["status"] == "finished" and done.json["measured"] == 76


def test_each_machine_sent_its_part(done: Done, up: Up) -> None:
    run_id = done.json["run_id"]
    found = rows(
        up.home,
        "SELECT split_part(client, '/', 1) AS host, count(*) AS n, max(clock_error_ms) AS off_ms,"
        " count(ttft_ms) AS answered"
        f" FROM requests WHERE run_id = '{run_id}' AND phase = 'measure' GROUP BY 1 ORDER BY 1",
    )
    far = {row["host"]: row for row in found if row["host"].startswith("far-")}
    assert set(far) == {"far-a", "far-b"} and len(found) == 3
    assert sum(row["n"] for row in found) == 76 and all(row["answered"] == row["n"] > 20 for row in found)
    assert all(0 < row["off_ms"] < 20 for row in far.values())
    names = {row["name"] for row in rows(up.home, f"SELECT DISTINCT name FROM metrics WHERE run_id = '{run_id}'")}
    assert {"perf.clock_error_ms.p99", "perf.client.far-a/1.ttft_ms.p50", "perf.client.far-b/1.late_ms.p99"} <= names


def test_times_are_of_one_clock(done: Done, up: Up) -> None:
    """Hours lie between the clocks; the run took seconds."""
    [row] = rows(
        up.home,
        "SELECT min(sent_at) < max(started_at) + INTERVAL 10 MINUTE AS soon, min(ttft_ms) >= 29 AS no_less,"
        " max(ttft_ms) < 60000 AS no_more, epoch(max(sent_at)) - epoch(min(sent_at)) < 300 AS close"
        " FROM requests JOIN cells USING (run_id, cell_id)"
        f" WHERE requests.run_id = '{done.json['run_id']}' AND phase = 'measure'",
    )
    assert all(row.values())


def test_their_flow_runs_are_completed(done: Done, up: Up) -> None:
    named = {"flow_runs": {"name": {"any_": [f"client of {done.json['run_id']}"]}}}
    wait_for(
        lambda: [each["state"]["name"] for each in up.post("/flow_runs/filter", named)] == ["Completed"] * 2,
        timeout_s=30,
        what="the end of two flow runs",
    )


def test_where_nobody_comes_it_is_said(up: Up, server: str, tmp_path: Path) -> None:
    file = tmp_path / "alone.yaml"
    file.write_text(FILE.format(url=server).replace("wait_s: 90", "wait_s: 5"), encoding="utf-8")
    done = assay("bench", str(file), home=up.home, cwd=up.folder)
    assert done.code == 1
    assert "0 of 2 clients on other machines came to tcp://127.0.0.1:" in done.stderr and "(none)" in done.stderr
    assert "assay worker clients" in done.stderr
    waiting = {"flow_runs": {"tags": {"all_": ["assay-client"]}, "state": {"type": {"any_": ["SCHEDULED", "PENDING"]}}}}
    assert up.post("/flow_runs/filter", waiting) == []


def test_without_a_server_that_others_reach(server: str, tmp_path: Path, model_dir: Path) -> None:
    home, file = tmp_path / "home", tmp_path / "alone.yaml"
    (home / "cache").mkdir(parents=True)
    (home / "cache" / "models").symlink_to(model_dir.parent)
    file.write_text(FILE.format(url=server), encoding="utf-8")
    done = assay("bench", str(file), home=home, ASSAY_PREFECT_API_URL="", PREFECT_UI_URL="")
    assert done.code == 2
    assert "there is no deployment client/load at the temporary Prefect server of this run" in done.stderr
    assert "ASSAY_PREFECT_API_URL" in done.stderr


LONG = FILE.replace("requests: 40", "seconds: 120").replace("workers: 2", "workers: 1")


@pytest.fixture
def long_run(up: Up, server: str, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A run whose load another machine sends a part of, in the midst of it."""
    file = tmp_path / "long.yaml"
    file.write_text(LONG.format(url=server), encoding="utf-8")
    with workers(up, tmp_path, "far-c"):
        run = start("bench", str(file), "--json", home=up.home, cwd=up.folder)
        try:
            wait_for(lambda: _client(up, "Running"), timeout_s=90, what="its client", every_s=0.3)
            time.sleep(5)
            yield run
        finally:
            run.kill()
            run.communicate()


def _client(up: Up, state: str) -> str | None:
    """The newest flow run of a client that is in this state."""
    wanted = {"flow_runs": {"tags": {"all_": ["assay-client"]}, "state": {"name": {"any_": [state]}}}}
    found = up.post("/flow_runs/filter", {**wanted, "sort": "START_TIME_DESC", "limit": 1})
    return str(found[0]["id"]) if found else None


@pytest.mark.slow
def test_a_client_that_is_cancelled_ends_the_run_by_its_name(up: Up, long_run: subprocess.Popen[str]) -> None:
    client = _client(up, "Running")
    up.cancel(client)
    said, told = long_run.communicate(timeout=90)
    assert long_run.returncode == 1
    assert "the client far-c/1 failed" in told and "it was client 2 of 2" in told
    assert "--resume" in told + said
    wait_for(lambda: up.flow_run(client)["state"]["name"] == "Cancelled", timeout_s=60, what="its cancelling")


@pytest.mark.slow
def test_where_the_run_is_killed_its_clients_end_and_say_so(up: Up, long_run: subprocess.Popen[str]) -> None:
    client = _client(up, "Running")
    long_run.kill()
    wait_for(lambda: up.flow_run(client)["state"]["name"] == "Failed", timeout_s=60, what="its end", every_s=0.5)
    assert "is gone" in up.flow_run(client)["state"]["message"]


@pytest.mark.slow
def test_ctrl_c_sends_the_clients_home(up: Up, long_run: subprocess.Popen[str]) -> None:
    client = _client(up, "Running")
    os.killpg(long_run.pid, signal.SIGINT)
    _, told = long_run.communicate(timeout=90)
    assert long_run.returncode == 130, told
    wait_for(lambda: up.flow_run(client)["state"]["name"] == "Completed", timeout_s=30, what="its end", every_s=0.5)
