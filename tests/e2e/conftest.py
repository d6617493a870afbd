"""What the tests of the main job share: one run of it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tasks.engine.client import EngineClient
from tests.e2e.command import Done, assay
from tests.e2e.engine_client import engine


@pytest.fixture(scope="session")
def quickstart(tmp_path_factory: pytest.TempPathFactory, model_dir: Path) -> tuple[Path, Done]:
    """A home that had nothing but the model, and the run that it had then: `assay run quickstart --limit 2`."""
    home = tmp_path_factory.mktemp("quickstart") / "home"
    (home / "cache").mkdir(parents=True)
    (home / "cache" / "models").symlink_to(model_dir.parent)
    none: dict[str, str] = {"ASSAY_PREFECT_API_URL": "", "PREFECT_UI_URL": ""}  # as if they were not there
    return home, assay("run", "quickstart", "--limit", "2", "--json", home=home, **none)


@pytest.fixture(scope="session")
def client(tmp_path_factory: pytest.TempPathFactory, model_dir: Path) -> Iterator[EngineClient]:
    """An engine without a run around it, with engine_client's OPTIONS. What a test changes of it, it changes back."""
    with engine(model=model_dir, log_path=tmp_path_factory.mktemp("client") / "engine.log") as client:
        yield client
