"""The servers, the workers and the runs that they launch, as `assay up` puts them together."""

import datetime
import json
import queue
import signal
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import psutil
import pytest
from ruamel.yaml import YAML

from tests.e2e.command import ROOT, Done, assay, rows, start
from tests.faults.processes import wait_for
from tests.up import SMALL, Refusal, Up, free_port

pytestmark = pytest.mark.engine


def children_of_runs(up: Up) -> list[psutil.Process]:
    return [each for each in up.flow_processes() if "tasks.engine.worker" in " ".join(each.cmdline())]


def test_healthy_and_registered(up: Up) -> None:
    assert set(up.state()["processes"]) == {"Prefect", "MLflow", "worker gpu", "worker cpu"}
    names = {f"{each['name']}" for each in up.post("/deployments/filter", {})}
    assert names == {
        *("quickstart", "nightly", "weekly", "service", "engine-matrix", "quickstart-engine", "faults", "hourly"),
        "load",
    }
    of_engines = ("bench/service", "sweep/engine-matrix", "ablate/quickstart", "tune/quickstart-engine")
    for name, pool in {**dict.fromkeys(of_engines, "gpu"), "grammars/faults": "cpu"}.items():
        assert up.deployment(name)["schedules"] == [] and up.deployment(name)["work_pool_name"] == pool
    nightly = up.deployment("experiment/nightly")["schedules"]
    assert [(each["slug"], each["schedule"]["timezone"]) for each in nightly] == [("nightly", "Etc/UTC")]
    pools = {pool["name"]: pool["concurrency_limit"] for pool in up.post("/work_pools/filter", {})}
    assert pools["gpu"] == 1 and "clients" in pools
    automations = [each["name"] for each in up.post("/automations/filter", {})]
    assert len([name for name in automations if name.startswith("assay: ")]) == 3
    # The bounds of 1.5 GB and 30 s hold on a machine that does nothing else; the bench measures them there.
    assert up.rss_bytes() < 1.5e9


@pytest.mark.slow
def test_load_is_measured_from_its_form(up: Up) -> None:
    flow_run = up.launch(
        "bench/service", concurrency=[2], requests=4, repeats=1, arms="free", limit=2, overrides=["benchmark.warmup=1"]
    )
    assert up.wait(flow_run) == "Completed"
    [run] = rows(up.home, f"SELECT run_id, status FROM runs WHERE prefect_flow_run_id = '{flow_run}'")
    assert run["status"] == "finished"
    points = rows(up.home, f"SELECT point, cells, requests_per_s FROM load_points WHERE run_id = '{run['run_id']}'")
    assert [(each["point"], each["cells"]) for each in points] == [("free-closed-2", 1)]
    assert points[0]["requests_per_s"] > 0


@pytest.fixture(scope="module")
def killed(up: Up) -> tuple[str, list[psutil.Process], float]:
    """A flow that is killed while its engine is built: tests/faults/test_killed.py has the kill among answers.
    Gives the flow run, its engine's processes, and when it was."""
    flow_run = up.launch(**SMALL)
    wait_for(lambda: children_of_runs(up) and _in_mlflow(up, flow_run), timeout_s=120, what="its engine", every_s=0.3)
    flow = next(each for each in up.flow_processes() if "flows.launched" in " ".join(each.cmdline()))
    engines = children_of_runs(up)
    up.kill(flow)
    return flow_run, engines, time.monotonic()


def test_a_killed_flow_has_crashed_within_seconds(up: Up, killed: tuple[str, list[psutil.Process], float]) -> None:
    flow_run, engines, _ = killed
    assert engines
    assert up.wait(flow_run, "Crashed", timeout_s=90) == "Crashed"
    _, alive = psutil.wait_procs(engines, timeout=15)
    assert not alive
    _closed(up, flow_run)
    assert len(up.wait_events("assay.run.failed", prefect_flow_run_id=flow_run)) == 1


def _in_mlflow(up: Up, flow_run: str) -> bool:
    found = rows(up.home, f"SELECT run_id FROM runs WHERE prefect_flow_run_id = '{flow_run}'")
    return bool(found) and (up.home / "runs" / found[0]["run_id"] / "mlflow_run_id").exists()


def _closed(up: Up, flow_run: str) -> None:
    """The warehouse says crashed and MLflow says KILLED, soon."""
    from mlflow import MlflowClient

    end = time.monotonic() + 60
    found: dict[str, object] = {}
    while time.monotonic() < end:
        run = rows(up.home, f"SELECT * FROM runs WHERE prefect_flow_run_id = '{flow_run}'")[0]
        found = {"warehouse": run["status"]}
        if run["mlflow_run_id"] is not None:
            found["MLflow"] = MlflowClient(up.mlflow).get_run(run["mlflow_run_id"]).info.status
        if found == {"warehouse": "crashed", "MLflow": "KILLED"}:
            return
        time.sleep(0.5)
    raise AssertionError(found)


def test_registering_again_keeps_a_paused_schedule(up: Up) -> None:
    deployment = up.deployment("experiment/nightly")
    schedule = deployment["schedules"][0]["id"]
    up.send("PATCH", f"/deployments/{deployment['id']}/schedules/{schedule}", {"active": False})
    done = assay("deploy", home=up.home, cwd=up.folder)
    assert done.code == 0, done.stderr
    after = up.deployment("experiment/nightly")["schedules"]
    assert [(each["id"], each["slug"], each["active"]) for each in after] == [(schedule, "nightly", False)]


@pytest.mark.parametrize(
    ("field", "value"), [("config", "quickstat"), ("arms", "gided"), ("limit", -1), ("max_time", "soon")]
)
def test_a_bad_value_is_refused_before_the_run(up: Up, field: str, value: object) -> None:
    with pytest.raises(Refusal) as refused:
        up.launch(**{field: value})
    assert refused.value.code == 409
    assert f"field '{field}'" in refused.value.message


def test_a_bad_override_says_so_on_its_page(up: Up) -> None:
    flow_run = up.launch(overrides=["engine.prefil.policy=off"])
    assert up.wait(flow_run, "Failed") == "Failed"
    page = up.artifacts(flow_run, "what-to-do")[0]["data"]
    assert "engine\\.prefil" in page or "engine.prefil" in page
    assert "prefill" in page
    assert not children_of_runs(up)


def test_schedules_that_piled_up_run_once(up: Up) -> None:
    """The pool is closed at the times of four runs of an hourly schedule, as when the host was off. The run
    that stands for all is one that fails before it would have an engine."""
    bad = {"overrides": ["engine.prefil.policy=off"]}
    deployment = up.deployment("experiment/quickstart")["id"]
    up.send("PATCH", "/work_pools/gpu", {"is_paused": True})
    try:
        schedule = {"schedule": {"interval": 3600}, "active": True, "slug": "hourly", "parameters": bad}
        up.post(f"/deployments/{deployment}/schedules", [schedule])
        now = datetime.datetime.now(datetime.UTC)
        missed = {"start_time": (now - datetime.timedelta(hours=4)).isoformat(), "end_time": now.isoformat()}
        up.post(f"/deployments/{deployment}/schedule", {**missed, "min_runs": 4})
        made = next(each for each in up.deployment("experiment/quickstart")["schedules"] if each["slug"] == "hourly")
        up.send("PATCH", f"/deployments/{deployment}/schedules/{made['id']}", {"active": False})
        due = up.scheduled(deployment)
        assert len(due) == 4
    finally:
        up.send("PATCH", "/work_pools/gpu", {"is_paused": False})
    states = [up.wait(flow_run, timeout_s=300) for flow_run in due]
    assert states.count("Failed") == 1, states
    assert states.count("Cancelled") == len(due) - 1, states
    message = next(up.flow_run(each)["state"]["message"] for each in due if up.wait(each) == "Cancelled")
    assert "stands for it" in message


def test_maintenance(up: Up) -> None:
    flow_run = up.launch("maintain/hourly")
    assert up.wait(flow_run, "Completed") == "Completed"
    assert "compacted" in up.artifacts(flow_run, "maintenance")[0]["data"]


def test_up_twice_is_refused(up: Up, tmp_path: Path) -> None:
    done = assay("up", home=up.home)
    assert done.code == 2
    assert "up already" in done.stderr
    assert "assay down" in done.stderr


def test_a_taken_port_is_refused(up: Up, home: Path) -> None:
    done = assay("up", "--prefect-port", str(up.prefect_port), home=home)
    assert done.code == 2
    assert "--prefect-port" in done.stderr


def test_the_engine_slot_of_a_killed_flow_comes_free(up: Up, killed: tuple[str, list[psutil.Process], float]) -> None:
    """Its lease runs out, in which time other tests look at what needs no engine."""
    _slot_free(up, within_s=90 - (time.monotonic() - killed[2]))


def _slot_free(up: Up, *, within_s: float) -> None:
    wait_for(lambda: up.slots_in_use() == 0, timeout_s=within_s, what="the slot is free", every_s=1)


@pytest.fixture(scope="module")
def both(up: Up) -> tuple[str, Done]:
    """A run of the config that the folder has in which it was started, and a command's that began while it ran."""
    flow_run = up.launch(**SMALL, config="own")
    wait_for(lambda: up.slots_in_use() == 1, timeout_s=120, what="it has the engine, and builds it", every_s=0.5)
    less = ("--limit", "1", "--set", "datasets=[arithmetic]", "--set", "arms=[free]")
    done = assay("run", "quickstart", *less, "--json", home=up.home)
    assert up.wait(flow_run, "Completed") == "Completed"
    return flow_run, done


@pytest.fixture(scope="module")
def launched(both: tuple[str, Done]) -> str:
    return both[0]


def test_launched_to_the_end(up: Up, launched: str) -> None:
    shown = up.flow_run(launched)
    assert shown["name"] == "own, free, 2 a dataset"
    assert "assay" in shown["tags"]
    pages = {each["key"]: each for each in up.artifacts(launched)}
    assert float(pages["progress"]["data"]) == 100
    assert "arithmetic.exact_match" in pages["result"]["data"]
    assert up.mlflow in pages["mlflow"]["data"] and "report.html" in pages["report"]["data"]
    assert "what-to-do" not in pages
    run = rows(up.home, f"SELECT * FROM runs WHERE prefect_flow_run_id = '{launched}'")[0]
    assert run["status"] == "finished"
    assert run["mlflow_run_id"] in pages["mlflow"]["data"]
    assert len(up.wait_events("assay.run.finished", run_id=run["run_id"])) == 1
    assert up.slots_in_use() == 0


def test_the_command_uses_the_same_servers_and_waits_for_the_engine(up: Up, both: tuple[str, Done]) -> None:
    launched, done = both
    assert done.code == 0, done.stderr
    assert "waits for gpu-" in done.stderr
    found = rows(up.home, f"SELECT prefect_flow_run_id AS id FROM runs WHERE run_id = '{done.json['run_id']}'")[0]
    assert up.flow_run(found["id"])["state_name"] == "Completed"
    query = f"""
        SELECT prefect_flow_run_id = '{launched}' AS launched, min(c.started_at) AS began, max(c.ended_at) AS ended
        FROM cells AS c JOIN runs USING (run_id) WHERE prefect_flow_run_id IN ('{launched}', '{found["id"]}')
        GROUP BY ALL ORDER BY launched
    """
    engines = rows(up.home, query)
    assert engines[1]["ended"] < engines[0]["began"], "two engines at once"
    assert up.slots_in_use() == 0


def test_a_config_of_the_folder_it_was_started_in(up: Up, launched: str) -> None:
    """It is among the form's choices, and the run finds it there and records that folder's commit."""
    choices = up.deployment("experiment/quickstart")["parameter_openapi_schema"]["properties"]["config"]["enum"]
    assert {"own", "quickstart"} <= set(choices)
    query = f"SELECT git_commit, git_dirty FROM runs WHERE prefect_flow_run_id = '{launched}'"
    head = ["git", "rev-parse", "HEAD"]
    commit = subprocess.run(head, cwd=up.folder, capture_output=True, text=True, check=True).stdout.strip()
    assert rows(up.home, query) == [{"git_commit": commit, "git_dirty": False}]


def test_cancelled_from_the_page_then_retried(up: Up) -> None:
    # One answer after the other: the run lasts though it is asked little.
    one = ["engine.max_num_seqs=1"]
    flow_run = up.launch(datasets=["arithmetic"], arms="free", limit=12, overrides=one)
    up.wait_progress(flow_run, above=0)
    engines = children_of_runs(up)
    assert engines
    started = time.monotonic()
    up.cancel(flow_run)
    psutil.wait_procs(engines, timeout=30)
    engine_gone_s = time.monotonic() - started
    assert engine_gone_s < 10, f"the engine took {engine_gone_s:.1f} s to stop"
    assert up.wait(flow_run, "Cancelled", timeout_s=60) == "Cancelled"
    sql = f"SELECT run_id, status FROM runs WHERE prefect_flow_run_id = '{flow_run}'"
    assert [row["status"] for row in rows(up.home, sql)] == ["cancelled"]
    kept = rows(up.home, "SELECT count(*) AS n FROM requests WHERE run_id = (SELECT max(run_id) FROM runs)")[0]["n"]
    assert kept > 0

    up.retry(flow_run)
    assert up.wait(flow_run, "Completed") == "Completed"
    again = rows(up.home, sql)
    assert [row["status"] for row in again] == ["finished"], "a retry goes on with the same run"
    before = f"SELECT count(*) AS n FROM request_attempts WHERE run_id = '{again[0]['run_id']}' AND attempt = 0"
    assert rows(up.home, before)[0]["n"] >= kept


@pytest.mark.slow
def test_a_killed_worker_is_found_by_its_silence(up: Up) -> None:
    flow_run = up.launch(datasets=["arithmetic", "extract"], limit=60)
    up.wait_progress(flow_run, above=5)
    worker = up.processes()["worker gpu"][1]
    engines = children_of_runs(up)
    started = time.monotonic()
    up.kill(worker)
    assert up.wait(flow_run, "Crashed", timeout_s=120) == "Crashed"
    assert time.monotonic() - started < 90
    assert not [each for each in engines if each.is_running()]
    _closed(up, flow_run)
    _slot_free(up, within_s=60)
    up.retry(flow_run)
    assert up.wait(flow_run, "Completed") == "Completed"
    run = rows(up.home, f"SELECT status FROM runs WHERE prefect_flow_run_id = '{flow_run}'")
    assert [row["status"] for row in run] == ["finished"]


@pytest.mark.slow
def test_a_killed_server_comes_back(up: Up) -> None:
    """The run goes on, or ends Crashed within 90 s and can be retried: never Running for ever."""
    flow_run = up.launch(datasets=["arithmetic", "extract"], limit=60)
    up.wait_progress(flow_run, above=5)
    for process in up.processes()["Prefect"][1:]:
        up.kill(process)
    state = up.wait(flow_run, "Completed", "Failed", "Crashed", timeout_s=300)
    if state != "Completed":
        up.retry(flow_run)
        assert up.wait(flow_run, "Completed") == "Completed"
    run = rows(up.home, f"SELECT status FROM runs WHERE prefect_flow_run_id = '{flow_run}'")
    assert [row["status"] for row in run] == ["finished"]
    assert "starts again" in (up.home / "logs" / "up.log").read_text()


def test_a_webhook_hears_of_a_failed_run(up: Up, tmp_path: Path) -> None:
    """The automation that docs/deploy/notify-webhook.yaml shows, with a real server that listens."""
    heard: queue.Queue[dict[str, Any]] = queue.Queue()

    class Listener(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            heard.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

    with HTTPServer(("127.0.0.1", 0), Listener) as listener:
        threading.Thread(target=listener.serve_forever, daemon=True).start()
        kind = next(each for each in up.post("/block_types/filter", {}) if each["slug"] == "webhook")
        schema = up.post("/block_schemas/filter", {"block_schemas": {"block_type_id": {"any_": [kind["id"]]}}})[0]
        block = up.post(
            "/block_documents/",
            {
                "name": "failed-runs",
                "block_type_id": kind["id"],
                "block_schema_id": schema["id"],
                "data": {
                    "url": f"http://127.0.0.1:{listener.server_port}/",
                    "method": "POST",
                    "allow_private_urls": True,
                },
            },
        )
        example = ROOT / "docs" / "deploy" / "notify-webhook.yaml"
        automation = YAML(typ="safe").load(example)["automations"][0]
        automation["actions"][0]["block_document_id"] = block["id"]
        up.post("/automations/", automation)
        flow_run = up.launch(**SMALL, overrides=["engine.max_model_len=16"])
        up.wait(flow_run, "Failed")
        body = heard.get(timeout=60)
        listener.shutdown()
    page = up.artifacts(flow_run, "what-to-do")[0]["data"]
    assert "nothing is left for the prompt" in page and "launch again" in page
    assert "--resume" not in page, "going on would end in the same way"
    assert body["text"].startswith("assay: quickstart failed")
    assert body["resume"] == f"assay run --resume {body['run_id']}"


@pytest.mark.slow
def test_ctrl_c_stops_all(home: Path) -> None:
    ports = ("--prefect-port", str(free_port()), "--mlflow-port", str(free_port()))
    process = start("up", *ports, home=home)
    end = time.monotonic() + 120
    while assay("up", "--status", home=home).code != 0 and time.monotonic() < end:
        time.sleep(0.5)
    below = psutil.Process(process.pid).children(recursive=True)
    assert len(below) >= 8
    process.send_signal(signal.SIGINT)
    assert process.wait(120) == 0
    _, alive = psutil.wait_procs(below, timeout=5)
    assert not alive
    assert not (home / "up.json").exists()


def test_down_when_nothing_is_up(home: Path) -> None:
    done = assay("down", home=home)
    assert done.code == 0
    assert "nothing is up" in done.stderr
