"""What tests of the MLflow copy share: a real server, a proxy that fails on purpose, runs without an engine."""

import contextlib
import datetime
import http.client
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tasks.record import stage
from tasks.record.open import open_run
from tasks.session import Session

DATASETS = ("arithmetic", "choice", "extract", "needle")


class MlflowServer:
    """A real `mlflow server` on loopback, over a SQLite store and a folder for artifacts."""

    def __init__(self, folder: Path, *, artifacts: Path | None = None) -> None:
        self.folder, self.artifacts = folder, artifacts or folder / "artifacts"
        folder.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [sys.executable, "-P", "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(self.port)]
        command += ["--workers", "1", "--backend-store-uri", f"sqlite:///{self.folder / 'mlflow.db'}"]
        command += ["--artifacts-destination", self.artifacts.as_uri()]
        settings = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_DISABLE_TELEMETRY": "true"}
        environment = {name: value for name, value in os.environ.items() if name != "MLFLOW_TRACKING_URI"}
        with (self.folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                command, env={**environment, **settings}, stdout=log, stderr=log, start_new_session=True
            )
        wait_for(self.healthy, timeout_s=90, what="MLflow's server")

    def healthy(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/health", timeout=2) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def kill(self) -> None:
        """kill -9 of all its processes."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None


class Proxy:
    """Stands before a server and counts its requests. `on_request(n)` decides what becomes of the n-th, from 1.

    pass: it is forwarded; drop: the connection is closed before the server sees it; lose: the server answers, and the
    answer is thrown away."""

    def __init__(self, target: str, on_request: Callable[[int], str]) -> None:
        self.count = 0
        self.lines: list[str] = []
        lock = threading.Lock()
        host = target.removeprefix("http://")
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_one(self) -> None:
                with lock:
                    proxy.count += 1
                    number = proxy.count
                    proxy.lines.append(f"{self.command} {self.path.partition('?')[0]}")
                body = (
                    self.rfile.read(int(self.headers.get("Content-Length") or 0)) if not self.chunked() else self.all()
                )
                fate = on_request(number)
                if fate != "drop":
                    status, headers, content = self.forward(body)
                if fate == "pass":
                    self.send_response(status)
                    for name, value in headers:
                        if name.lower() not in ("transfer-encoding", "content-length", "connection"):
                            self.send_header(name, value)
                    self.send_header("Content-Length", str(len(content)))
                    self.end_headers()
                    self.wfile.write(content)
                    return
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_one

            def chunked(self) -> bool:
                return self.headers.get("Transfer-Encoding", "").lower() == "chunked"

            def all(self) -> bytes:
                content = b""
                while size := int(self.rfile.readline().split(b";")[0], 16):
                    content += self.rfile.read(size)
                    self.rfile.readline()
                self.rfile.readline()
                return content

            def forward(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
                connection = http.client.HTTPConnection(host, timeout=30)
                kept = {n: v for n, v in self.headers.items() if n.lower() not in ("host", "transfer-encoding")}
                kept["Content-Length"] = str(len(body))
                connection.request(self.command, self.path, body=body, headers=kept)
                answer = connection.getresponse()
                content = answer.read()
                connection.close()
                return answer.status, answer.getheaders(), content

            def log_message(self, *_: Any) -> None:
                return

        self._server = quiet_server(Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def quiet_server(handler: type[BaseHTTPRequestHandler]) -> ThreadingHTTPServer:
    """Serves in a thread; a client that goes away in mid-request is part of the test, not worth a traceback."""

    class Quiet(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: Any) -> None:
            return

    server = Quiet(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


@contextlib.contextmanager
def always_answering(status: int, body: bytes = b"no room") -> Iterator[str]:
    """A server that gives every request this answer; yields its address."""

    class Handler(BaseHTTPRequestHandler):
        def handle_one(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_one

        def log_message(self, *_: Any) -> None:
            return

    server = quiet_server(Handler)
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


@contextlib.contextmanager
def silent() -> Iterator[str]:
    """A server that takes connections and never says a word; yields its address."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(64)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(check: Callable[[], bool], *, timeout_s: float, what: str) -> None:
    end = time.monotonic() + timeout_s
    while not check():
        assert time.monotonic() < end, f"{what}: not within {timeout_s} s"
        time.sleep(0.1)


def begun(home: Path, *, name: str = "quickstart", resume: str | None = None, flow_run: str = "flow-1") -> Session:
    """A session of a run that has read its data."""
    run = open_run(
        home=home,
        file=None if resume else name,
        limit=None if resume else 6,
        resume=resume,
        prefect_flow_run_id=flow_run,
    )
    session = Session(run)
    stage.begin(session)
    session.store.write("datasets", [_dataset(each) for each in DATASETS])
    session.store.write("profiles", [_profile(each, arm) for each in DATASETS for arm in ("free", "guided")])
    return session


def answered(session: Session, *, exact_match: float = 0.5, sequences: int = 256) -> None:
    """The rest of what a run writes before its end: engine, plan, cells, metrics, and files in its folder."""
    now = datetime.datetime.now(datetime.UTC)
    session.store.write("engines", [_engine()])
    session.store.write(
        "plans", [_plan("max_num_seqs", sequences), _plan("dtype", "bfloat16"), _plan("core", "inprocess")]
    )
    session.store.write(
        "cells",
        [
            {"cell_id": f"e1-{arm}-quality", "engine_id": "e1", "arm": arm, "kind": "quality", "order_index": index}
            | {"started_at": now - datetime.timedelta(seconds=9), "ended_at": now}
            for index, arm in enumerate(("free", "guided"))
        ],
    )
    session.store.write("metrics", metric_rows(exact_match))
    for file in (session.run.report_file, session.run.engine_log, session.run.folder / "plan.json"):
        file.write_text(f"<html><body>{file.name} of {session.run.run_id}</body></html>")


def metric_rows(exact_match: float) -> list[dict[str, Any]]:
    rows = []
    for index, arm in enumerate(("free", "guided")):
        for dataset in DATASETS:
            rows += [
                _metric(f"{dataset}.exact_match", arm, exact_match + index / 10, scope="dataset"),
                _metric(f"{dataset}.form.empirical_coverage", arm, 0.5 + index / 2, scope="dataset"),
                _metric(f"{dataset}.form.refused", arm, 0.0, scope="dataset"),
            ]
        for latency in ("ttft_ms", "tpot_ms", "e2e_ms", "queued_ms"):
            rows += [_metric(f"timing.{latency}.p{p}", arm, 10.0 * p, unit="ms") for p in (50, 90, 95, 99)]
    rows.append(_metric("timing.output_tokens_per_s", None, 228.4873222819738, unit="tokens/s"))
    rows.append(_metric("timing.engine_rss_peak", None, float(3 << 30), scope="engine", unit="bytes"))
    rows.append(_metric("timing.energy_counter", None, None, scope="engine", unit="J"))
    return rows


def ended(session: Session, *, figures: dict[str, bytes] | None = None) -> str:
    """The end of a run, as the flow drives it; gives its MLflow id. Raises TrackingError."""
    stage.end(session, status="finished", mlflow_run_id=None, warnings=["the answers to `choice` are short"])
    return stage.track(session, figures=figures or {"quality": b"\x89PNG quality"})


def whole_run(home: Path, **more: Any) -> Session:
    """A run from its beginning to its end, with its tracking."""
    session = begun(home)
    stage.start_tracking(session)
    answered(session, **more)
    ended(session)
    return session


class Stored:
    """What a SQLite store of MLflow holds, read from its tables: not by the code that wrote it."""

    def __init__(self, database: Path) -> None:
        self._database = database

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        with contextlib.closing(sqlite3.connect(f"file:{self._database}?mode=ro", uri=True, timeout=10)) as store:
            return store.execute(query, values).fetchall()

    def runs(self, run_id: str) -> list[dict[str, Any]]:
        """The living runs of one run of assay, the parent first."""
        found = []
        query = (
            "SELECT r.run_uuid, r.name, r.status, r.start_time, r.end_time, r.artifact_uri FROM runs r JOIN tags t "
            "ON t.run_uuid = r.run_uuid AND t.key = 'assay.run_id' AND t.value = ? WHERE r.lifecycle_stage = 'active'"
        )
        for uuid, name, status, start, end, artifacts in self.rows(query, run_id):
            found.append(
                {"id": uuid, "name": name, "status": status, "start": start, "end": end, "artifacts": artifacts}
                | {"tags": dict(self.rows("SELECT key, value FROM tags WHERE run_uuid = ?", uuid))}
                | {"params": dict(self.rows("SELECT key, value FROM params WHERE run_uuid = ?", uuid))}
                | {"metrics": self.rows("SELECT key, value, step FROM metrics WHERE run_uuid = ?", uuid)}
                | {
                    "datasets": self.rows(
                        "SELECT d.name, d.digest FROM inputs i JOIN datasets d ON d.dataset_uuid = i.source_id "
                        "WHERE i.destination_id = ? ORDER BY d.name",
                        uuid,
                    )
                }
            )
        return sorted(found, key=lambda run: run["tags"].get("assay.cell", ""))


def assert_whole(stored: Stored, run_id: str, *, status: str = "FINISHED") -> list[dict[str, Any]]:
    """One parent, each child once, each metric once, each dataset once; gives them."""
    runs = stored.runs(run_id)
    assert [run["tags"].get("assay.cell") for run in runs] == [None, "quality.free", "quality.guided"], runs
    parent, *children = runs
    assert {run["status"] for run in runs} == {status}
    assert {child["tags"]["mlflow.parentRunId"] for child in children} == {parent["id"]}
    for run in runs:
        names = [name for name, _, _ in run["metrics"]]
        assert len(names) == len(set(names)) < 50
        assert [name for name, _ in run["datasets"]] == sorted(DATASETS)
    assert len(parent["metrics"]) == 33 and [len(child["metrics"]) for child in children] == [15, 15]
    return runs


def _metric(
    name: str, arm: str | None, value: float | None, *, scope: str = "run", unit: str = "share"
) -> dict[str, Any]:
    bounds = {"lo": None if value is None else value - 0.1, "hi": None if value is None else value + 0.1}
    row = {"scope": scope, "name": name, "arm": arm, "value": value, "unit": unit, "direction": "higher", "n": 6}
    return {**row, **bounds, "n_failed": 1, "method": "made for a test"}


def _dataset(name: str) -> dict[str, Any]:
    row = {"dataset": name, "source": f"/data/{name}.jsonl", "source_revision": "sha256:00", "rows_total": 30}
    return {**row, "fingerprint": fingerprint(name), "rows_used": 6, "template_hash": "t", "few_shot": 0}


def fingerprint(dataset: str) -> str:
    """64 hexadecimal digits."""
    return (dataset.encode().hex() * 8)[:64]


def _profile(dataset: str, arm: str) -> dict[str, Any]:
    return {
        "dataset": dataset,
        "arm": arm,
        "n": 6,
        "tokens_p50": 31.0,
        "tokens_p95": 80.0,
        "tokens_max": 92,
        "tokens_total": 200,
    }


def _engine() -> dict[str, Any]:
    row = {
        "engine_id": "e1",
        "kind": "vllm",
        "engine_version": "0.32.0",
        "torch_version": "2.13.0",
        "device": "AMD EPYC",
    }
    return {
        **row,
        "device_count": 1,
        "model": "smollm2",
        "model_fingerprint": "ab" * 32,
        "start_s": 10.25,
        "dtype": "bfloat16",
    }


def _plan(option: str, value: Any) -> dict[str, Any]:
    row = {"engine_id": "e1", "option": option, "value": value, "default_value": 128, "reason": "it fits"}
    return {**row, "evidence": "6 | requests", "source": "plan"}
