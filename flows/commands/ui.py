"""`assay ui`: MLflow's and Prefect's pages over the recorded runs."""

import os
import socket
import sys
import time
import urllib.error
import urllib.request

from rich.console import Console

from flows.runtime import assay_home, prepare_environment
from schemas.errors import ConfigError, RunError
from tasks.engine.process import SupervisedProcess

_HEALTHY_S = 90.0


def serve(*, mlflow_port: int, prefect_port: int) -> int:
    """Serves both on the loopback interface until Ctrl-C; the servers end with this process. Gives the exit code."""
    home = assay_home()
    for option, port in (("--mlflow-port", mlflow_port), ("--prefect-port", prefect_port)):
        if not _is_free(port):
            raise ConfigError.one(f"port {port} is taken", key=option, suggestion=f"try {option} {port + 1000}")
    prepare_environment(home)
    (home / "mlartifacts").mkdir(parents=True, exist_ok=True)
    mlflow = SupervisedProcess(
        [
            *(sys.executable, "-P", "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(mlflow_port)),
            *("--workers", "1", "--backend-store-uri", f"sqlite:///{home / 'mlflow.db'}"),
            *("--artifacts-destination", (home / "mlartifacts").as_uri()),
        ],
        env=os.environ | {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"},
        log_path=home / "mlflow-server.log",
    )
    prefect = SupervisedProcess(
        [sys.executable, "-P", "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(prefect_port)],
        env=os.environ | {"PREFECT_API_URL": f"http://127.0.0.1:{prefect_port}/api"},
        log_path=home / "prefect" / "server.log",
    )
    servers = {"MLflow": mlflow, "Prefect": prefect}
    console = Console(stderr=True, highlight=False)
    try:
        _wait(f"http://127.0.0.1:{mlflow_port}/health", mlflow)
        _wait(f"http://127.0.0.1:{prefect_port}/api/health", prefect)
        console.print(f"MLflow   http://127.0.0.1:{mlflow_port}")
        console.print(f"Prefect  http://127.0.0.1:{prefect_port}")
        console.print("Ctrl-C ends them")
        while all(server.returncode is None for server in servers.values()):
            time.sleep(0.3)
    except KeyboardInterrupt:
        return 0
    finally:
        for server in servers.values():
            server.close()
    name, ended = next((name, server) for name, server in servers.items() if server.returncode is not None)
    raise RunError(f"{name}'s server ended; its log, {ended.log_path}, ends with:\n{ended.log_tail(8)}")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _wait(url: str, server: SupervisedProcess) -> None:
    end = time.monotonic() + _HEALTHY_S
    while time.monotonic() < end and server.returncode is None:
        try:
            with urllib.request.urlopen(url, timeout=2) as answer:  # noqa: S310 - http to our own server
                if answer.status == 200:
                    return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    raise RunError(f"no answer from {url}; the log, {server.log_path}, ends with:\n{server.log_tail(8)}")
