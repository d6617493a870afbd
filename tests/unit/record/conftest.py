"""Homes and a server for the tests of recording."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tasks.record.tracking import sync
from tests import stores
from tests.mlflow_parts import MlflowServer


@pytest.fixture(autouse=True)
def quick_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    """No second attempt, unless a test asks for one; and patience, so that what bounds a run is its own doing."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "15")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.setattr(sync, "_in_trouble", set())


@pytest.fixture(scope="session")
def mlflow_store() -> Path:
    """MLflow's SQLite file with its tables and nothing in them: making them takes seconds."""
    return stores.mlflow_store()


@pytest.fixture
def empty_home(tmp_path: Path, mlflow_store: Path) -> Path:
    """An ASSAY_HOME without a run."""
    folder = tmp_path / "home"
    folder.mkdir()
    shutil.copy(mlflow_store, folder / "mlflow.db")
    return folder


@pytest.fixture(scope="session")
def mlflow_server(tmp_path_factory: pytest.TempPathFactory, mlflow_store: Path) -> Iterator[MlflowServer]:
    server = MlflowServer(tmp_path_factory.mktemp("mlflow"))
    shutil.copy(mlflow_store, server.folder / "mlflow.db")
    server.start()
    yield server
    server.kill()
