"""The report in a real browser, with nothing but the browser: hostile text stays text, foreign code does not run."""

import re
import subprocess
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from tasks.report.build import write_report
from tasks.report.data import from_tables
from tests.browser import executable

_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-extensions",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
    "--enable-logging=stderr", "--v=0", "--virtual-time-budget=4000", "--dump-dom",
)  # fmt: skip


def _attributes(document: str) -> list[tuple[str, str]]:
    """(tag, attribute) of everything in a document."""
    found: list[tuple[str, str]] = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            found.extend((tag, name) for name, _ in attrs)

    Reader().feed(document)
    return found


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., tuple[str, list[str]]]:
    """Opens a page in headless Chromium; gives the document after loading, and what the browser's console said."""
    browser = executable()

    def open_page(path: Path) -> tuple[str, list[str]]:
        profile = tmp_path_factory.mktemp("browser")
        done = subprocess.run(
            [browser, *_FLAGS, f"--user-data-dir={profile}", "--window-size=1280,900", path.as_uri()],
            capture_output=True,
            timeout=180,
            check=True,
        )
        said = done.stderr.decode("utf-8", "replace").splitlines()
        return done.stdout.decode("utf-8"), [line for line in said if "CONSOLE" in line]

    return open_page


@pytest.fixture(scope="module")
def reports(rows: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same run twice: with ordinary texts, and with the worst ones."""
    folder = tmp_path_factory.mktemp("reports")
    return {
        name: write_report(
            data=from_tables(tables=rows.tables(hostile=name == "hostile"), run_id=rows.RUN_ID),
            path=folder / f"{name}.html",
        )
        for name in ("plain", "hostile")
    }


def test_hostile_text_does_no_harm_and_the_browser_has_nothing_to_say(
    reports: dict[str, Path], opened: Callable[..., tuple[str, list[str]]]
) -> None:
    document, said = opened(reports["hostile"])
    assert said == []
    title = re.search(r"<title>(.*?)</title>", document)
    assert title
    assert "owned" not in title[1]
    assert len(re.findall(r"<script\b(?! type=.text/plain)", document)) == 1
    attributes = _attributes(document)
    assert not [name for _, name in attributes if name.startswith("on") or name == "src"]
    assert 'data-samples="ready"' in document
    assert not [tag for tag, _ in attributes if tag == "img"]
    assert re.search(r'<output id="shown"[^>]*>188 of 188</output>', document)


def test_the_policy_stops_what_is_not_the_page_s_own(
    reports: dict[str, Path], opened: Callable[..., tuple[str, list[str]]], tmp_path: Path
) -> None:
    page = reports["plain"].read_text(encoding="utf-8")
    foreign = '<p style="color:red">x</p><script>document.title = "owned"</script></main>'
    broken = tmp_path / "broken.html"
    broken.write_text(page.replace("</main>", foreign), encoding="utf-8")
    document, said = opened(broken)
    assert "<title>owned</title>" not in document
    assert sum("Content Security Policy" in line for line in said) >= 2
