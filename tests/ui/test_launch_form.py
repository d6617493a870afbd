"""Launching from Prefect's own pages, as a person does: open the form, fill it, see the run finish, open its pages."""

from pathlib import Path

import pytest

from tests.browser import screenshot
from tests.up import Up

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (make setup-dev)")
Locator, Page = playwright.Locator, playwright.Page
pytestmark = [pytest.mark.ui, pytest.mark.engine]


def field(page: Page, name: str) -> Locator:
    """The block of one parameter: its label, description and input."""
    return page.locator(".schema-form-property").filter(has=page.get_by_text(f"{name} (Optional)", exact=True))


def choose(page: Page, name: str, option: str) -> None:
    """Opens the select of a field, by the keyboard, and clicks an option in it."""
    field(page, name).locator(".p-select-button__control").focus()
    page.keyboard.press("ArrowDown")
    page.locator(".p-select-option__text").get_by_text(option, exact=True).click()
    page.keyboard.press("Escape")


def submit(page: Page) -> None:
    """Clicks until the page has gone to the deployment's runs: a list that is still open takes a click for itself."""
    for _ in range(4):
        page.get_by_role("button", name="Submit").click()
        try:
            page.wait_for_function("() => !location.pathname.endsWith('/run')", timeout=20_000)
        except playwright.TimeoutError:
            continue
        return
    raise AssertionError(f"the form is still there: {page.locator('body').inner_text()}")


def test_fill_the_form_and_see_it_finish(page: Page, up: Up, tmp_path: Path) -> None:
    deployment = up.deployment("experiment/quickstart")["id"]
    page.goto(f"{up.prefect}/deployments/deployment/{deployment}/run")
    page.get_by_text("config (Optional)").wait_for()
    shown = page.locator("body").inner_text()
    for name in (
        "config",
        "model",
        "datasets",
        "arms",
        "limit",
        "graphs",
        "prefill",
        "overrides",
        "max_time",
        "resume",
    ):
        assert f"{name} (Optional)" in shown, name
    assert "CUDA graph mode of the engine" in shown
    assert "as configured" in shown
    choose(page, "arms", "free and guided")
    choose(page, "datasets", "arithmetic")
    field(page, "limit").locator("input").fill("2")
    screenshot(page, "prefect-form", tmp_path)
    submit(page)
    flow_run = up.newest(deployment)
    parameters = up.flow_run(flow_run)["parameters"]
    assert (parameters["arms"], parameters["datasets"], parameters["limit"]) == ("free and guided", ["arithmetic"], 2)

    assert up.wait(flow_run, "Completed") == "Completed"
    page.goto(f"{up.prefect}/runs/flow-run/{flow_run}")
    page.get_by_text("quickstart, free and guided, 2 a dataset").first.wait_for()
    page.get_by_text("Completed").first.wait_for()
    screenshot(page, "prefect-run", tmp_path)
    page.get_by_text("Artifacts", exact=True).first.click()
    page.get_by_text("where to look, what to ask").first.wait_for()
    screenshot(page, "prefect-artifacts", tmp_path)
    result = up.artifacts(flow_run, "result")[0]["id"]
    page.goto(f"{up.prefect}/artifacts/artifact/{result}")
    page.get_by_text("arithmetic.exact_match").first.wait_for()
    screenshot(page, "prefect-result", tmp_path)


def test_a_bad_value_is_said_in_the_form(page: Page, up: Up, tmp_path: Path) -> None:
    deployment = up.deployment("experiment/quickstart")["id"]
    before = len(up.post("/flow_runs/filter", {}))
    page.goto(f"{up.prefect}/deployments/deployment/{deployment}/run")
    page.get_by_text("limit (Optional)").wait_for()
    field(page, "limit").locator("input").fill("-3")
    page.get_by_role("button", name="Submit").click()
    page.get_by_text("minimum of 0").first.wait_for()
    screenshot(page, "prefect-form-refused", tmp_path)
    assert page.url.endswith("/run")
    assert len(up.post("/flow_runs/filter", {})) == before
