"""What the tests of the main job share: one run of it."""

from pathlib import Path

import pytest

from tests.e2e.command import Done, assay


@pytest.fixture(scope="session")
def quickstart(tmp_path_factory: pytest.TempPathFactory, model_dir: Path) -> tuple[Path, Done]:
    """A home that had nothing but the model, and the run that it had then: `assay run quickstart --limit 4`."""
    home = tmp_path_factory.mktemp("quickstart") / "home"
    (home / "cache").mkdir(parents=True)
    (home / "cache" / "models").symlink_to(model_dir.parent)
    none: dict[str, str] = {"ASSAY_PREFECT_API_URL": "", "PREFECT_UI_URL": ""}  # as if they were not there
    return home, assay("run", "quickstart", "--limit", "4", "--json", home=home, **none)
