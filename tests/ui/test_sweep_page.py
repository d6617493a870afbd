"""The page of a sweep in a real browser: nothing in it is refused, it fits, and a cell's report is one click away."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from schemas.sweep import CellResult, CellSpec
from tasks.cells.effects import effects
from tasks.cells.tables import Ablated, cell_runs
from tasks.report.sweep import render
from tasks.report.sweep_model import Page as SweepPage
from tests.browser import screenshot

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.ui

KEPT = Path(__file__).parents[1] / "data/warehouse/v2"
FIRST = "20261128T124658-2a50ac"
SECOND = "20261128T125414-120c25"
SWEEP = "20261201T080000-abcdef"


def _results() -> list[CellResult]:
    found = []
    for index, run_id in enumerate((FIRST, SECOND, None)):
        settings = {"engine.max_num_seqs": (4, 48, 4)[index], "engine.prefix_caching": index < 2}
        spec = CellSpec(index=index, name=f"cell {index}", settings=settings, overrides=[])
        state = "failed" if run_id is None else "finished"
        error = None if run_id else "no memory left"
        found.append(CellResult(cell=spec, repeat=0, order_index=index, state=state, run_id=run_id, error=error))
    return found


def test_the_page_is_whole_in_light_and_dark_and_links_to_a_cells_report(page: "Page", tmp_path: Path) -> None:
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    shown = SweepPage(
        kind="ablate",
        run_id=SWEEP,
        title="engine-matrix",
        runs=cell_runs(KEPT, _results()),
        matrix={"engine.max_num_seqs": [4, 48], "engine.prefix_caching": [True, False]},
        reports=[FIRST],
        ablation=[Ablated(name="again", effects=effects(KEPT, control=[FIRST], candidate=[SECOND]))],
    )
    path = tmp_path / "runs" / SWEEP / "report.html"
    for file, text in ((path, render(shown)), (tmp_path / "runs" / FIRST / "report.html", "<h1>of the cell</h1>")):
        file.parent.mkdir(parents=True)
        file.write_text(text, encoding="utf-8")
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        page.goto(path.as_uri())
        screenshot(page, f"sweep-{scheme}", full_page=True)
    for name in ("heat", "forest"):
        box = page.locator(f"svg[aria-labelledby^='{name}-t']").bounding_box()
        assert box is not None and box["width"] > 400 and box["height"] > 80
    assert page.locator("svg text", has_text="30.3").first.is_visible()
    ground = page.evaluate("getComputedStyle(document.querySelector('section')).backgroundColor")
    assert ground == "rgb(25, 31, 38)"
    for width in (1500, 500):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    page.get_by_role("link", name="report", exact=True).click()
    assert page.locator("h1").inner_text() == "of the cell"
    assert complaints == []
