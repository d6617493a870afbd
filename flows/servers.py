"""The servers and workers that assay starts on this machine: their commands, ports, health, and what runs where now."""

import contextlib
import json
import os
import re
import socket
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from pydantic import BaseModel

from schemas.errors import ConfigError, RunError
from tasks.engine.process import SupervisedProcess

HOST = "127.0.0.1"
HEALTHY_S = 90.0
_STATE = "up.json"
_LOCK = "up.lock"
_BUSY = 503

SERVER_SETTINGS = {
    # A slot whose holder is gone must come free though the server was restarted in between.
    "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": "prefect.server.concurrency.lease_storage.filesystem",
    "PREFECT_SERVER_LOGGING_LEVEL": "WARNING",
    # Flow runs that ended 90 days ago go, with their logs and artifacts; the warehouse and MLflow keep theirs.
    "PREFECT_SERVER_SERVICES_DB_VACUUM_ENABLED": "events,flow_runs",
}
FLOW_SETTINGS = {"PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "30"}
"""The shortest that Prefect takes: the sooner a run that died silently is found."""
WORKER_SETTINGS = {"PREFECT_WORKER_QUERY_SECONDS": "1"}
"""How often a worker asks for runs: what a person waits for who launched one. Prefect's own 10 s add 5 s on average."""


class Up(BaseModel):
    """What a running `assay up` says of itself."""

    pid: int
    prefect_url: str
    mlflow_url: str
    processes: dict[str, int] = {}
    """By name, the process that leads each part; known once it is ready."""
    ready: bool = False

    @property
    def prefect_api_url(self) -> str:
        return f"{self.prefect_url}/api"

    def environment(self) -> dict[str, str]:
        """What tells a run on this machine which servers to report to, and where their pages are."""
        return {
            "ASSAY_PREFECT_API_URL": self.prefect_api_url,
            "ASSAY_PREFECT_UI": self.prefect_url,
            "ASSAY_MLFLOW_UI": self.mlflow_url,
            "MLFLOW_TRACKING_URI": self.mlflow_url,
        }


def named_here(word: str) -> str:
    """A name of this host's own, and of the GPUs that this process may see, when it is bound to some."""
    visible = re.sub(r"[^A-Za-z0-9]+", "-", os.environ.get("CUDA_VISIBLE_DEVICES", "")).strip("-")
    return "-".join(filter(None, [word, socket.gethostname(), visible]))


def prefect_server_command(port: int) -> list[str]:
    """Prefect's server with its pages."""
    command = [sys.executable, "-P", "-m", "prefect", "server", "start"]
    return [*command, "--host", HOST, "--port", str(port)]


def mlflow_server_command(port: int, *, home: Path) -> list[str]:
    """MLflow's server over the store that runs without a server write to as well."""
    (home / "mlartifacts").mkdir(parents=True, exist_ok=True)
    return [
        *(sys.executable, "-P", "-m", "mlflow", "server", "--host", HOST, "--port", str(port), "--workers", "1"),
        *("--backend-store-uri", f"sqlite:///{home / 'mlflow.db'}"),
        *("--artifacts-destination", (home / "mlartifacts").as_uri()),
    ]


def mlflow_environment() -> dict[str, str]:
    """Without its job runner MLflow's server is two processes instead of ten."""
    return {**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}


def server_environment(prefect_url: str) -> dict[str, str]:
    """For Prefect's server: its pages call the API by this address."""
    return {**os.environ, **SERVER_SETTINGS, "PREFECT_UI_API_URL": f"{prefect_url}/api"}


def check_port(port: int, *, option: str) -> None:
    """Raises ConfigError, with another port, if this one is taken."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise ConfigError.one(
                f"port {port} is taken", key=option, suggestion=f"try {option} {port + 1000}"
            ) from error


def answers(url: str) -> bool:
    """Whether something answers there with success, now."""
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:  # noqa: S310 - http to our own servers
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def wait_healthy(url: str, process: SupervisedProcess, *, timeout_s: float = HEALTHY_S) -> None:
    """Waits until the server answers. Raises RunError with the end of its log if it does not, or has died."""
    end = time.monotonic() + timeout_s
    while time.monotonic() < end and process.returncode is None:
        if answers(url):
            return
        time.sleep(0.2)
    raise RunError(f"no answer from {url}; its log, {process.log_path}, ends with:\n{process.log_tail(8)}")


def post_json(url: str, body: Mapping[str, Any]) -> Any:
    """What a JSON API answers. A server that is busy for a moment (503) is asked again. Raises OSError if it does not
    answer."""
    request = urllib.request.Request(  # noqa: S310 - http to a server that the user named
        url, data=json.dumps(body).encode(), headers={"Content-Type": "application/json"}
    )
    for wait_s in (0.5, 1.0, 2.0, None):
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310
                return json.loads(answer.read())
        except urllib.error.HTTPError as error:
            if error.code != _BUSY or wait_s is None:
                raise
            time.sleep(wait_s)
    raise AssertionError("the last attempt answers or raises")


@contextlib.contextmanager
def up_lock(home: Path) -> Iterator[None]:
    """Held while `assay up` runs. Raises ConfigError if it does already."""
    home.mkdir(parents=True, exist_ok=True)
    lock = FileLock(home / _LOCK)
    try:
        lock.acquire(timeout=1)  # other commands hold it for a moment, to see whether it is held
    except Timeout as error:
        up = running_up(home, starting=True)
        where = "" if up is None else f", at {up.prefect_url} and {up.mlflow_url}"
        raise ConfigError.one(f"assay is up already{where}", suggestion="`assay down` stops it") from error
    try:
        (home / _STATE).unlink(missing_ok=True)  # a killed one left it; while the lock is held it is believed
        yield
    finally:
        (home / _STATE).unlink(missing_ok=True)
        lock.release()


def write_up(home: Path, up: Up) -> None:
    """Tells the other commands what runs."""
    temporary = home / f"{_STATE}.tmp"
    temporary.write_text(up.model_dump_json(indent=1), encoding="utf-8")
    temporary.replace(home / _STATE)


def running_up(home: Path, *, starting: bool = False) -> Up | None:
    """What a live `assay up` over this ASSAY_HOME says of itself; None where there is none that is ready.

    starting: one that is not ready yet counts too. The lock tells a live one from a file that a killed one left."""
    try:
        up = Up.model_validate_json((home / _STATE).read_bytes())
    except FileNotFoundError:
        return None
    lock = FileLock(home / _LOCK)
    try:
        lock.acquire(timeout=0.1, poll_interval=0.02)  # not at once: another command may be looking just now
    except Timeout:
        return up if up.ready or starting else None
    lock.release()
    return None
