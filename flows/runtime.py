"""Where assay keeps its things, and the Prefect server that a run reports to.

Everything here runs before Prefect or MLflow is imported: both read their settings from the environment once.
"""

import contextlib
import os
import socket
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from schemas.errors import RunError
from tasks.engine.process import SupervisedProcess

SERVER_TIMEOUT_S = 90.0

TELEMETRY_OFF = {
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
}


def assay_home() -> Path:
    """ASSAY_HOME: the variable, else `warehouse/data` in a checkout, else the user's data folder."""
    named = os.environ.get("ASSAY_HOME")
    if named:
        return Path(named).expanduser().absolute()
    checkout = Path(__file__).resolve().parents[1]
    if (checkout / "pyproject.toml").exists():
        return checkout / "warehouse" / "data"
    import platformdirs  # noqa: PLC0415 - only for an installed package

    return Path(platformdirs.user_data_dir("assay"))


def prepare_environment(home: Path) -> None:
    """Telemetry of every component off; Prefect under assay's own folder, whatever profile lies in the user's home.

    A Prefect server is used only if it is named to assay, by ASSAY_PREFECT_API_URL."""
    for name in [name for name in os.environ if name.startswith("PREFECT_")]:
        del os.environ[name]
    os.environ.update(TELEMETRY_OFF)
    folder = home / "prefect"
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["ASSAY_HOME"] = str(home)
    os.environ["PREFECT_HOME"] = str(folder)
    os.environ["PREFECT_PROFILES_PATH"] = str(folder / "profiles.toml")
    os.environ["PREFECT_SERVER_EPHEMERAL_ENABLED"] = "false"
    os.environ["PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL"] = "ERROR"
    os.environ["PREFECT_CLI_COLORS"] = "false"
    os.environ["MPLBACKEND"] = "svg"


@contextlib.contextmanager
def prefect_server(home: Path) -> Iterator[str]:
    """The API's address: of the server that ASSAY_PREFECT_API_URL names, else of a temporary one, which ends with this
    process however it ends. Starting takes seconds: what is done inside the `with` before `wait_healthy` is free."""
    named = os.environ.get("ASSAY_PREFECT_API_URL")
    if named:
        os.environ["PREFECT_API_URL"] = named
        yield named
        return
    port = _free_port()
    url = f"http://127.0.0.1:{port}/api"
    os.environ["PREFECT_API_URL"] = url
    command = [sys.executable, "-m", "uvicorn", "--factory", "prefect.server.api.server:create_app"]
    command += ["--host", "127.0.0.1", "--port", str(port), "--log-level", "error", "--lifespan", "on"]
    environment = os.environ | {
        "PREFECT_UI_ENABLED": "0",
        "PREFECT__SERVER_EPHEMERAL": "1",
        "PREFECT__SERVER_FINAL": "1",
        "PREFECT_SERVER_LOGGING_LEVEL": "ERROR",
    }
    server = SupervisedProcess(command, env=environment, log_path=home / "prefect" / "server.log")
    try:
        yield url
    finally:
        _flush_prefect_logs()
        server.close()


def _flush_prefect_logs() -> None:
    """Prefect sends logs from a thread of its own; what is still in its queue would find no server any more."""
    if "prefect.logging.handlers" in sys.modules:
        sys.modules["prefect.logging.handlers"].APILogHandler().flush()


def wait_healthy(url: str, *, timeout_s: float = SERVER_TIMEOUT_S) -> None:
    """Waits for a Prefect server to answer. Raises RunError with what to do if it does not."""
    end = time.monotonic() + timeout_s
    reason = "no answer"
    while time.monotonic() < end:
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=2) as answer:  # noqa: S310 - http to our own server
                if answer.status == 200:
                    return
        except (urllib.error.URLError, OSError) as error:
            reason = str(error)
        time.sleep(0.1)
    raise RunError(
        f"the Prefect server at {url} does not answer ({reason}); its log is prefect/server.log under ASSAY_HOME, "
        "and `assay doctor` looks at ports and settings"
    )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
