"""A running `assay up` as tests use it: its servers, its workers, runs launched as Prefect's page launches them."""

import contextlib
import datetime
import json
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from tests.e2e.command import ROOT, command, environment

ENDED = {"Completed", "Failed", "Crashed", "Cancelled"}
SMALL: dict[str, Any] = {"datasets": ["arithmetic"], "arms": "free", "limit": 2}
"""Fields of a run of seconds."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Refusal(Exception):
    """What the server answered instead of doing it."""

    code: int
    message: str


@dataclass
class Up:
    """home: its ASSAY_HOME. healthy_s: how long it took to come up. folder: where it was started."""

    home: Path
    prefect_port: int = field(default_factory=free_port)
    mlflow_port: int = field(default_factory=free_port)
    healthy_s: float = 0.0
    folder: Path = ROOT

    @property
    def prefect(self) -> str:
        return f"http://127.0.0.1:{self.prefect_port}"

    @property
    def mlflow(self) -> str:
        return f"http://127.0.0.1:{self.mlflow_port}"

    def start(self, *, folder: Path = ROOT) -> None:
        """Until it says that all is healthy. folder: the one to start it in, whose configs its runs find."""
        started = time.monotonic()
        self.folder = folder
        done = subprocess.run(
            command("up", "-d", "--prefect-port", str(self.prefect_port), "--mlflow-port", str(self.mlflow_port)),
            env=environment(self.home),
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        self.healthy_s = time.monotonic() - started

    def stop(self) -> None:
        done = subprocess.run(
            command("down"), env=environment(self.home), capture_output=True, text=True, timeout=240, check=False
        )
        assert done.returncode == 0, done.stderr

    def state(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.home / "up.json").read_bytes())
        return found

    def processes(self) -> dict[str, list[psutil.Process]]:
        """Everything that it runs, by part."""
        found = {}
        for name, pid in self.state()["processes"].items():
            with contextlib.suppress(psutil.NoSuchProcess):
                found[name] = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
        return found

    def rss_bytes(self) -> int:
        own = [psutil.Process(self.state()["pid"])]
        total = 0
        for process in [*own, *(each for part in self.processes().values() for each in part)]:
            with contextlib.suppress(psutil.NoSuchProcess):
                total += process.memory_info().rss
        return total

    def log(self, name: str) -> str:
        return (self.home / "logs" / f"{name}.log").read_text(errors="replace")

    def post(self, path: str, body: dict[str, Any]) -> Any:
        return json.loads(self._ask("POST", path, body) or b"null")

    def send(self, method: str, path: str, body: dict[str, Any]) -> None:
        """A request whose answer has no content."""
        self._ask(method, path, body)

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> bytes:
        request = urllib.request.Request(
            f"{self.prefect}/api{path}",
            None if body is None else json.dumps(body).encode(),
            {"Content-Type": "application/json"},
            method=method,
        )
        end = time.monotonic() + 60
        while True:
            try:
                with urllib.request.urlopen(request, timeout=30) as answer:
                    return bytes(answer.read())
            except urllib.error.HTTPError as error:
                # Busy for a moment: every client of Prefect asks again.
                if error.code != 503 or time.monotonic() > end:
                    raise Refusal(error.code, error.read().decode()) from error
                time.sleep(1)

    def scheduled(self, deployment: str) -> list[str]:
        """The runs that a schedule made and that are due, and nobody has taken."""
        wanted = {
            "deployments": {"id": {"any_": [deployment]}},
            "flow_runs": {
                "state": {"type": {"any_": ["SCHEDULED"]}},
                "expected_start_time": {"before_": datetime.datetime.now(datetime.UTC).isoformat()},
            },
        }
        return [str(each["id"]) for each in self.post("/flow_runs/filter", wanted) if each["auto_scheduled"]]

    def get(self, path: str) -> Any:
        return json.loads(self._ask("GET", path))

    def deployment(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.get(f"/deployments/name/{name}")
        return found

    def launch(self, deployment: str = "experiment/quickstart", **parameters: Any) -> str:
        """As the form does; the flow run's id."""
        path = f"/deployments/{self.deployment(deployment)['id']}/create_flow_run"
        return str(self.post(path, {"parameters": parameters})["id"])

    def set_state(self, flow_run: str, type_: str, name: str) -> None:
        state = {"state": {"type": type_, "name": name}, "force": type_ == "SCHEDULED"}
        answer = self.post(f"/flow_runs/{flow_run}/set_state", state)
        assert answer["status"] == "ACCEPT", answer

    def cancel(self, flow_run: str) -> None:
        """What the page's Cancel does."""
        self.set_state(flow_run, "CANCELLING", "Cancelling")

    def retry(self, flow_run: str) -> None:
        """What the page's Retry does."""
        self.set_state(flow_run, "SCHEDULED", "AwaitingRetry")

    def flow_run(self, flow_run: str) -> dict[str, Any]:
        found: dict[str, Any] = self.get(f"/flow_runs/{flow_run}")
        return found

    def wait(self, flow_run: str, *states: str, timeout_s: float = 240) -> str:
        """Waits for one of these states, or for any end; gives the state."""
        wanted = set(states) or ENDED
        end = time.monotonic() + timeout_s
        state = "?"
        while time.monotonic() < end:
            with contextlib.suppress(OSError):  # the server may be the one that was killed
                state = str(self.flow_run(flow_run)["state_name"])
            if state in wanted:
                return state
            assert state not in ENDED, f"{state}: {self.flow_run(flow_run)['state']}\n{self.log('worker-gpu')[-3000:]}"
            time.sleep(0.4)
        raise AssertionError(f"still {state} after {timeout_s} s\n{self.log('worker-gpu')[-3000:]}")

    def wait_progress(self, flow_run: str, *, above: float, timeout_s: float = 240) -> None:
        """Until the latest progress artifact of the run shows more percent than that."""
        end = time.monotonic() + timeout_s
        while time.monotonic() < end:
            shown = self.artifacts(flow_run, "progress")
            if shown and float(shown[0]["data"]) > above:
                return
            state = self.flow_run(flow_run)["state_name"]
            assert state not in ENDED, state
            time.sleep(0.3)
        raise AssertionError("no progress")

    def artifacts(self, flow_run: str, key: str | None = None) -> list[dict[str, Any]]:
        """The newest first."""
        chosen: dict[str, Any] = {"flow_run_id": {"any_": [flow_run]}}
        if key is not None:
            chosen["key"] = {"any_": [key]}
        found: list[dict[str, Any]] = self.post("/artifacts/filter", {"artifacts": chosen, "sort": "CREATED_DESC"})
        return found

    def wait_events(self, name: str, *, timeout_s: float = 30, **payload: str) -> list[dict[str, Any]]:
        """The events of this name whose payload says so. They travel by a queue: waits for the first."""
        end = time.monotonic() + timeout_s
        while True:
            found = self.post("/events/filter", {"filter": {"event": {"name": [name]}}})["events"]
            wanted = [each for each in found if payload.items() <= each["payload"].items()]
            if wanted or time.monotonic() > end:
                return wanted
            time.sleep(0.5)

    def newest(self, deployment: str) -> str:
        """The run that was launched last by a person."""
        runs = [each for each in self.all_flow_runs(deployment) if not each["auto_scheduled"]]
        return str(max(runs, key=lambda each: str(each["created"]))["id"])

    def all_flow_runs(self, deployment: str) -> list[dict[str, Any]]:
        """Every run of a deployment, page by page."""
        found: list[dict[str, Any]] = []
        while True:
            body = {"deployments": {"id": {"any_": [deployment]}}, "limit": 200, "offset": len(found)}
            page = self.post("/flow_runs/filter", body)
            found += page
            if len(page) < 200:
                return found

    def count_events(self, name: str) -> int:
        return int(self.post("/events/filter", {"filter": {"event": {"name": [name]}}})["total"])

    def slots_in_use(self) -> int:
        limits = self.post("/v2/concurrency_limits/filter", {})
        return sum(int(limit["active_slots"]) for limit in limits if limit["name"].startswith("gpu-"))

    def flow_processes(self) -> list[psutil.Process]:
        """Every process of runs in progress: the flows, their engines."""
        below = [each for name, part in self.processes().items() if name.startswith("worker") for each in part[2:]]
        return [each for each in below if each.is_running() and each.status() != psutil.STATUS_ZOMBIE]

    def kill(self, process: psutil.Process) -> None:
        os.kill(process.pid, signal.SIGKILL)


@contextlib.contextmanager
def running(home: Path, *, folder: Path = ROOT) -> Iterator[Up]:
    """An `assay up`, started in the folder, for the time of the `with`."""
    up = Up(home)
    up.start(folder=folder)
    try:
        yield up
    finally:
        up.stop()


__all__ = ["ENDED", "SMALL", "Refusal", "Up", "running"]
