"""MLflow's own pages in a real browser: does a person find there what is needed to choose between two runs?"""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.browser import screenshot
from tests.mlflow_parts import MlflowServer, Stored, whole_run
from tests.stores import mlflow_store

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (make setup-dev)")
Page = playwright.Page
pytestmark = pytest.mark.ui


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[MlflowServer, list[str], str]]:
    """A server with two runs that differ in a setting and in their answers; their ids, and their experiment's."""
    folder = tmp_path_factory.mktemp("pages")
    server = MlflowServer(folder / "server")
    shutil.copy(mlflow_store(), server.folder / "mlflow.db")
    server.start()
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("MLFLOW_TRACKING_URI", server.url)
            patch.setenv("ASSAY_PREFECT_API_URL", "http://127.0.0.1:4200/api")
            (folder / "home").mkdir()
            first = whole_run(folder / "home", exact_match=0.4321, sequences=128)
            second = whole_run(folder / "home", exact_match=0.8765, sequences=256)
        stored = Stored(server.folder / "mlflow.db")
        ids = [stored.runs(session.run.run_id)[0]["id"] for session in (first, second)]
        yield server, ids, str(stored.rows("SELECT experiment_id FROM runs LIMIT 1")[0][0])
    finally:
        server.kill()


def without_assistant(page: Page) -> None:
    """MLflow opens a chat beside every page; it takes the room of the columns."""
    chat = page.get_by_text("Ask questions about your experiments")
    try:
        chat.first.wait_for(timeout=3000)
    except playwright.TimeoutError:
        return  # it stays closed in a browser that closed it before
    page.get_by_role("button", name="Close").first.click()
    chat.first.wait_for(state="hidden")


def test_two_runs_compared(page: Page, served: tuple[MlflowServer, list[str], str], tmp_path: Path) -> None:
    server, ids, experiment = served
    page.goto(
        f"{server.url}/#/compare-runs?runs={quote(json.dumps(ids))}&experiments={quote(json.dumps([experiment]))}"
    )
    page.get_by_text("arithmetic.exact_match.free").first.wait_for()
    without_assistant(page)
    body = page.locator("body")
    for number in ("0.432", "0.532", "0.877", "0.977"):
        assert page.get_by_role("cell", name=number, exact=True).count() or number in body.inner_text(), number
    # What was asked is in sight without scrolling, before the engine's settings.
    for asked in ("datasets", "model", "sampling.temperature"):
        assert page.get_by_text(asked, exact=True).first.is_visible(), asked
    screenshot(page, "mlflow-compare", tmp_path)
    # Further down are failures and speed. Values only: MLflow 3.17 lets the names lag behind when this table scrolls.
    page.locator(".ReactVirtualized__Grid").last.hover()
    tokens_per_s = page.get_by_text("228.5", exact=True)
    for _ in range(30):
        if tokens_per_s.count():
            break
        page.mouse.wheel(0, 120)
        page.wait_for_timeout(200)
    assert tokens_per_s.first.is_visible()
    page.wait_for_timeout(500)
    screenshot(page, "mlflow-compare-metrics", tmp_path)
    # Only what differs: one setting of all.
    page.get_by_text("Show diff only").first.click()
    page.get_by_text("vllm.dtype").first.wait_for(state="detached")
    assert page.get_by_text("vllm.max_num_seqs").first.is_visible()
    for value in ("128", "256"):
        assert page.get_by_text(value, exact=True).first.is_visible(), value
    screenshot(page, "mlflow-compare-differences", tmp_path)


def test_a_run_shows_where_to_go_on(page: Page, served: tuple[MlflowServer, list[str], str], tmp_path: Path) -> None:
    server, ids, experiment = served
    page.goto(f"{server.url}/#/experiments/{experiment}/runs/{ids[1]}")
    page.get_by_text("smollm2-135m-instruct").first.wait_for()
    without_assistant(page)
    report = page.get_by_role("link", name="report", exact=True)
    assert report.is_visible()
    prefect = page.get_by_role("link", name="Prefect", exact=True)
    assert prefect.get_attribute("href") == "http://127.0.0.1:4200/runs/flow-run/flow-1"
    assert page.get_by_text('assay sql "FROM leaderboard').first.is_visible()
    for word in ("Finished", "Child runs", "Datasets", "assay.run_id", "Metrics (33)"):
        assert page.get_by_text(word).first.is_visible(), word
    screenshot(page, "mlflow-run", tmp_path)
    page.get_by_text("Show more").first.click()
    assert page.get_by_text("95 % interval").first.is_visible()
    assert page.get_by_text("Warnings:").first.is_visible()
    screenshot(page, "mlflow-run-description", tmp_path)

    page.goto(f"{server.url}/{report.get_attribute('href')}")
    frame = page.frame_locator("iframe").first
    frame.get_by_text("report.html of").wait_for()
    screenshot(page, "mlflow-report", tmp_path)


def test_the_list_tells_runs_apart(page: Page, served: tuple[MlflowServer, list[str], str], tmp_path: Path) -> None:
    server, ids, experiment = served
    names = [
        row[0]
        for row in Stored(server.folder / "mlflow.db").rows("SELECT name FROM runs WHERE run_uuid IN (?, ?)", *ids)
    ]
    page.goto(f"{server.url}/#/experiments/{experiment}/runs")
    for name in names:
        page.get_by_text(name).first.wait_for()
    without_assistant(page)
    screenshot(page, "mlflow-list", tmp_path)
