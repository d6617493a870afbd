"""`assay ui`: MLflow's and Prefect's pages over the recorded runs."""

import os
import time

from rich.console import Console

from flows.runtime import assay_home, prepare_environment
from flows.servers import (
    HOST,
    check_port,
    mlflow_environment,
    mlflow_server_command,
    prefect_server_command,
    running_up,
    server_environment,
    wait_healthy,
)
from schemas.errors import ConfigError, RunError
from tasks.engine.process import SupervisedProcess


def serve(*, mlflow_port: int, prefect_port: int) -> int:
    """Serves both on the loopback interface until Ctrl-C; the servers end with this process. Gives the exit code."""
    home = assay_home()
    up = running_up(home, starting=True)
    if up is not None:
        raise ConfigError.one(f"they are served already, by `assay up`: {up.prefect_url} and {up.mlflow_url}")
    check_port(mlflow_port, option="--mlflow-port")
    check_port(prefect_port, option="--prefect-port")
    prepare_environment(home)
    prefect_url, mlflow_url = f"http://{HOST}:{prefect_port}", f"http://{HOST}:{mlflow_port}"
    mlflow = SupervisedProcess(
        mlflow_server_command(mlflow_port, home=home), env=mlflow_environment(), log_path=home / "logs" / "mlflow.log"
    )
    prefect = SupervisedProcess(
        prefect_server_command(prefect_port),
        env=os.environ | server_environment(prefect_url),
        log_path=home / "logs" / "prefect.log",
    )
    servers = {"MLflow": mlflow, "Prefect": prefect}
    console = Console(stderr=True, highlight=False)
    try:
        wait_healthy(f"{mlflow_url}/health", mlflow)
        wait_healthy(f"{prefect_url}/api/health", prefect)
        console.print(f"MLflow   {mlflow_url}")
        console.print(f"Prefect  {prefect_url}")
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
