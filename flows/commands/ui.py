"""`assay ui`: MLflow's pages over the recorded runs."""

import os
import sys
import time

from rich.console import Console

from flows.runtime import assay_home, prepare_environment
from tasks.engine.process import SupervisedProcess


def serve(*, port: int) -> int:
    """Serves on the loopback interface until Ctrl-C; the server ends with this process."""
    home = assay_home()
    prepare_environment(home)
    (home / "mlartifacts").mkdir(parents=True, exist_ok=True)
    environment = os.environ | {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    command += ["--backend-store-uri", f"sqlite:///{home / 'mlflow.db'}"]
    command += ["--artifacts-destination", (home / "mlartifacts").as_uri()]
    server = SupervisedProcess(command, env=environment, log_path=home / "mlflow-server.log")
    console = Console(stderr=True, highlight=False)
    console.print(f"MLflow: http://127.0.0.1:{port}  (Ctrl-C ends it)")
    try:
        while server.returncode is None:
            time.sleep(0.3)
    except KeyboardInterrupt:
        return 0
    finally:
        code = server.close()
    console.print(f"the server ended with status {code}; its log ends with:\n{server.log_tail(8)}", markup=False)
    return 1
