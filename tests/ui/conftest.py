"""One Chromium for all tests of this folder; without one, or without playwright, they skip and say so."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.browser import executable

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PAGE_MS = 90_000
"""The servers' pages are megabytes of JavaScript, and poll: tests wait for what they show, not for silence."""


@pytest.fixture(scope="session")
def browser() -> "Iterator[Browser]":
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (make setup-dev)")
    found = executable()
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-gpu"])
        yield opened
        opened.close()


@pytest.fixture
def page(browser: "Browser") -> "Iterator[Page]":
    page = browser.new_page(viewport={"width": 1500, "height": 1700})
    page.set_default_timeout(PAGE_MS)
    yield page
    page.close()
