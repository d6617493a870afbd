"""What the first run of an ASSAY_HOME spends its time on, made once for all tests: the tables of Prefect's and MLflow's
stores, what vLLM finds out about the model in a process of its own, and what was found out about grammars.

The `quickstart` of tests/e2e/conftest.py begins from nothing, as a user does."""

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from flows.runtime import assay_home
from tasks.doctor import TELEMETRY

SHARED_CACHE = assay_home() / "cache"
"""Converted models outlive the tests: converting takes half a minute."""


def with_model(home: Path, model_dir: Path) -> None:
    """Makes an ASSAY_HOME that has the converted model."""
    (home / "cache").mkdir(parents=True)
    (home / "cache" / "models").symlink_to(model_dir.parent)
    digests = SHARED_CACHE / "digests.json"
    if digests.exists():
        shutil.copy(digests, home / "cache" / "digests.json")


def used_before(home: Path, model_dir: Path) -> Path:
    """Makes an ASSAY_HOME as a run leaves it that was deleted: the model, and the stores without a row. Gives it."""
    with_model(home, model_dir)
    known = SHARED_CACHE / "vllm" / "modelinfos"  # by a hash of vLLM's own source: another release asks anew
    known.mkdir(parents=True, exist_ok=True)
    (home / "cache" / "vllm").mkdir()
    (home / "cache" / "vllm" / "modelinfos").symlink_to(known)
    examined = SHARED_CACHE / "grammars"  # by all that a verdict rests on, our own source too
    examined.mkdir(parents=True, exist_ok=True)
    (home / "cache" / "grammars").symlink_to(examined)
    shutil.copy(mlflow_store(), home / "mlflow.db")
    (home / "prefect").mkdir()
    shutil.copy(_prefect_store(), home / "prefect" / "prefect.db")
    return home


@cache
def mlflow_store() -> Path:
    """MLflow's SQLite file with its tables and nothing in them."""
    from mlflow import MlflowClient

    file = _folder() / "mlflow.db"
    MlflowClient(tracking_uri=f"sqlite:///{file}").search_experiments(max_results=1)
    return file


@cache
def _prefect_store() -> Path:
    """Prefect's."""
    folder = _folder()
    other = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    command = [sys.executable, "-P", "-m", "prefect", "--no-prompt", "server", "database", "upgrade", "-y"]
    subprocess.run(
        command, env={**other, **TELEMETRY, "PREFECT_HOME": str(folder)}, capture_output=True, timeout=180, check=True
    )
    return folder / "prefect.db"


def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="assay-stores-"))
    atexit.register(shutil.rmtree, folder)
    return folder
