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

from flows.servers import FLOW_SETTINGS, running_up
from schemas.errors import RunError
from tasks.doctor import TELEMETRY
from tasks.engine.process import SupervisedProcess

SERVER_TIMEOUT_S = 90.0


_PREFECT_KEYS = ("PREFECT_API_KEY", "PREFECT_API_AUTH_STRING")
_MLFLOW_PATIENCE = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1", "MLFLOW_HTTP_REQUEST_TIMEOUT": "5"}
"""With MLflow's own, a tracking server that is down holds a run up for minutes."""


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

    A Prefect server is used only if it is named to assay, by ASSAY_PREFECT_API_URL; the keys to it then stay."""
    kept = _PREFECT_KEYS if os.environ.get("ASSAY_PREFECT_API_URL") else ()
    for name in [name for name in os.environ if name.startswith("PREFECT_") and name not in kept]:
        del os.environ[name]
    for name, value in _MLFLOW_PATIENCE.items():
        os.environ.setdefault(name, value)
    # Our own servers are on this machine: a proxy that the user has for the world would not find them.
    for name in ("NO_PROXY", "no_proxy"):
        os.environ[name] = ",".join(filter(None, [os.environ.get(name), "127.0.0.1", "localhost"]))
    os.environ.update(TELEMETRY)
    folder = home / "prefect"
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["ASSAY_HOME"] = str(home)
    os.environ["PREFECT_HOME"] = str(folder)
    os.environ["PREFECT_PROFILES_PATH"] = str(folder / "profiles.toml")
    os.environ["PREFECT_SERVER_EPHEMERAL_ENABLED"] = "false"
    # What ends a run is said once, by the command: both would log a traceback of it first, however it was meant.
    os.environ["PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL"] = "CRITICAL"
    os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "CRITICAL")
    os.environ["PREFECT_CLI_COLORS"] = "false"
    os.environ["MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT"] = "true"
    os.environ["MPLBACKEND"] = "svg"


class PrefectApi:
    """A Prefect server that a run reports to; `process` is None for one that was there before."""

    def __init__(self, url: str, process: SupervisedProcess | None) -> None:
        self.url = url
        self._process = process

    @property
    def starts(self) -> bool:
        """Whether it is a temporary one, that is still to be waited for."""
        return self._process is not None

    def wait(self, *, timeout_s: float = SERVER_TIMEOUT_S) -> None:
        """Waits for it to answer. Raises RunError with what to do if it does not, or has died."""
        end = time.monotonic() + timeout_s
        reason = "no answer"
        while time.monotonic() < end:
            if self._process is not None and self._process.returncode is not None:
                raise RunError(f"Prefect's temporary server ended; its log ends with:\n{self._process.log_tail(8)}")
            try:
                with urllib.request.urlopen(f"{self.url}/health", timeout=2) as answer:  # noqa: S310 - named to us
                    if answer.status == 200:
                        return
            except (urllib.error.URLError, OSError) as error:
                reason = str(error)
            time.sleep(0.1)
        raise RunError(
            f"the Prefect server at {self.url} does not answer ({reason}); the log of a temporary one is "
            "prefect/server.log under ASSAY_HOME, and `assay doctor` looks at ports and settings"
        )


@contextlib.contextmanager
def prefect_server(home: Path) -> Iterator[PrefectApi]:
    """The server that ASSAY_PREFECT_API_URL names, else that of a running `assay up`, else a temporary one, which ends
    with this process however it ends.

    Starting takes seconds: what is done inside the `with` before `wait` is free."""
    up = running_up(home, starting=True)
    if up is not None:
        for name, value in up.environment().items():
            os.environ.setdefault(name, value)
    named = os.environ.get("ASSAY_PREFECT_API_URL")
    if named:
        os.environ["PREFECT_API_URL"] = named
        os.environ |= FLOW_SETTINGS  # it stays when this process is killed, and must find out
        yield PrefectApi(named, None)
        return
    port = _free_port()
    url = f"http://127.0.0.1:{port}/api"
    os.environ["PREFECT_API_URL"] = url
    command = [sys.executable, "-P", "-m", "uvicorn", "--factory", "prefect.server.api.server:create_app"]
    command += ["--host", "127.0.0.1", "--port", str(port), "--log-level", "error", "--lifespan", "on"]
    environment = os.environ | {
        "PREFECT_UI_ENABLED": "0",
        "PREFECT__SERVER_EPHEMERAL": "1",
        "PREFECT__SERVER_FINAL": "1",
        "PREFECT_SERVER_LOGGING_LEVEL": "ERROR",
    }
    server = SupervisedProcess(command, env=environment, log_path=home / "prefect" / "server.log")
    try:
        yield PrefectApi(url, server)
    finally:
        _flush_prefect_logs()
        server.close()


def _flush_prefect_logs() -> None:
    """Prefect sends logs from a thread of its own; what is still in its queue would find no server any more."""
    if "prefect.logging.handlers" in sys.modules:
        sys.modules["prefect.logging.handlers"].APILogHandler().flush()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
