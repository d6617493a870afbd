"""The real browser that tests look at pages with."""

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tasks.doctor import BROWSERS

if TYPE_CHECKING:
    from playwright.sync_api import Page


def executable() -> str:
    """Skips the test, with a word, where no browser is installed."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip("no Chromium on this machine")
    return found


def screenshot(page: "Page", name: str, folder: Path | None = None, *, full_page: bool = False) -> None:
    """Kept in the folder that ASSAY_SCREENSHOTS names, else in the one given, else not at all."""
    kept = os.environ.get("ASSAY_SCREENSHOTS") or folder
    if kept:
        Path(kept).mkdir(parents=True, exist_ok=True)
        page.wait_for_timeout(300)
        page.screenshot(path=Path(kept) / f"{name}.png", full_page=full_page)
