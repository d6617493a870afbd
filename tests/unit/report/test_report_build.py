"""The page as a file: complete, closed to the outside, harmless whatever the run holds."""

import base64
import hashlib
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import benchmark_rows
import matplotlib as mpl
import pytest
import report_rows

from tasks.report.build import render, write_report
from tasks.report.data import from_tables
from tasks.report.figures import KINDS, figures, to_png, to_svg
from warehouse.schema import TABLES

SECTIONS = (
    "top", "warnings", "quality", "arms", "grammars", "samples", "failures", "latency", "timeline", "slowest", "plan",
    "engine", "telemetry", "datasets", "sql", "terms",
)  # fmt: skip


class Outline(HTMLParser):
    """Tags, ids and attributes of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str | None]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]


@pytest.fixture(scope="module")
def page() -> str:
    return render(from_tables(tables=report_rows.tables(), run_id=report_rows.RUN_ID))


@pytest.fixture(scope="module")
def hostile() -> str:
    return render(from_tables(tables=report_rows.tables(hostile=True), run_id=report_rows.RUN_ID))


def test_every_section_is_there_and_every_link_leads_somewhere(page: str) -> None:
    outline = Outline(page)
    ids = [value for _, name, value in outline.attributes if name == "id"]
    assert set(SECTIONS) <= set(ids)
    assert len(ids) == len(set(ids))
    targets = {value[1:] for _, name, value in outline.attributes if name in ("href", "xlink:href") and value}
    assert {target.partition("?")[0] for target in targets} <= set(ids)
    listed = re.findall(r'<li><a href="#([a-z]+)">', page)
    assert listed == list(SECTIONS)


def test_the_page_loads_nothing_and_its_policy_admits_only_its_own_code(page: str) -> None:
    outline = Outline(page)
    policy = next(
        value for tag, name, value in outline.attributes if (tag, name) == ("meta", "content") and "src" in value
    )
    assert policy.startswith("default-src 'none'; img-src data:;")
    assert "unsafe" not in policy
    for tag in ("style", "script"):
        (body,) = re.findall(f"<{tag}>(.*?)</{tag}>", page, re.DOTALL)  # data has a type, and is not run
        digest = base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert not [value for _, name, value in outline.attributes if name in ("src", "style", "srcset", "action")]
    links = [value or "" for _, name, value in outline.attributes if name.endswith("href")]
    assert all(link.startswith("#") for link in links)
    assert not re.search(r"url\((?!#)|@import", page)


def test_hostile_text_makes_no_element_and_no_handler(page: str, hostile: str) -> None:
    tame, wild = Outline(page), Outline(hostile)
    assert set(wild.tags) == set(tame.tags)
    assert wild.tags.count("script") == tame.tags.count("script") == 1 + 2
    kinds = [value for tag, name, value in wild.attributes if (tag, name) == ("script", "type")]
    assert kinds == ["text/plain"] * 2
    assert wild.tags.count("style") == 1
    assert not [name for _, name, _ in wild.attributes if name.startswith("on")]
    assert "img" not in wild.tags
    assert "<!-- <style>" not in hostile
    assert "{{ 7 * 7 }}" in hostile


def test_nothing_invisible_or_unencodable_leaves_in_any_place(hostile: str) -> None:
    hostile.encode("utf-8")
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\U000e0000-\U000e007f]", hostile)
    assert "⟨U+202E⟩" in hostile
    assert "⟨U+D83D⟩" in hostile


def test_missing_numbers_are_dashes_with_a_reason(page: str) -> None:
    row = re.search(r"<td>gap</td>.*?</tr>", page, re.DOTALL)
    assert row
    assert 'title="nothing could be scored">–' in row[0]
    assert ">None<" not in page
    assert ">nan<" not in page


def test_an_empty_run_still_makes_a_page(tmp_path: Path) -> None:
    tables = {
        "runs": [{**report_rows.tables(sizes={"extract": 1})["runs"][0], "status": "failed", "error": "no <model>"}]
    }
    path = write_report(data=from_tables(tables=tables, run_id=report_rows.RUN_ID), path=tmp_path / "a" / "report.html")
    page = path.read_text(encoding="utf-8")
    assert "Nothing was scored in this run." in page
    assert "no &lt;model&gt;" in page
    assert [file.name for file in path.parent.iterdir()] == ["report.html"]


def test_five_hundred_samples_stay_small(tmp_path: Path) -> None:
    sizes = {"arithmetic": 200, "extract": 200, "needle": 100}
    data = from_tables(tables=report_rows.tables(sizes=sizes, prompt_words=6), run_id=report_rows.RUN_ID)
    path = write_report(data=data, path=tmp_path / "report.html")
    assert path.stat().st_size < 700_000
    assert path.read_text(encoding="utf-8") == render(data)


def test_the_same_run_makes_the_same_page() -> None:
    first, second = (
        render(from_tables(tables=report_rows.tables(sizes={"extract": 3}), run_id=report_rows.RUN_ID))
        for _ in range(2)
    )
    assert first == second


def test_figures_come_as_png_and_as_svg_without_style() -> None:
    gate = {"gate": 1, "metric": "extract.exact_match", "arm": "free", "rule": "at_least", "value": 0.3}
    gate |= dict.fromkeys(set(TABLES["gates"].names) - gate.keys()) | {"verdict": "failed", "on_undecided": "warn"}
    point = {"metric": "extract.exact_match", "arm": "free", "value": 0.28, "lo": 0.2, "hi": None, "n": 60}
    trend = [point | {"run_id": run_id} for run_id in ("20261120T080000-aaaaaa", report_rows.RUN_ID)]
    tables = benchmark_rows.tables() | {"gates": [gate]}
    data = replace(benchmark_rows.data_of(tables), gate_trend=trend)
    drawn = figures(data)
    assert set(drawn) == set(KINDS)
    for kind in KINDS.values():
        heads, rows = kind.table(data)
        assert rows
        assert all(len(row) == len(heads) for row in rows)
    assert to_png(drawn["engine_start"], dpi=40).startswith(b"\x89PNG")
    svg = to_svg(drawn["quality"], name="q", title="A <title>", description="words")
    assert 'role="img"' in svg
    assert '<title id="q-t">A &lt;title&gt;</title>' in svg
    assert "style" not in svg
    assert "s-free" in svg
    assert "f-guided" in svg


def test_figures_drawn_before_are_taken_and_not_drawn_again() -> None:
    data = from_tables(tables=report_rows.tables(sizes={"extract": 3}), run_id=report_rows.RUN_ID)
    start = figures(data)["engine_start"]
    page = render(data, drawn={"engine_start": start})
    assert page.count("<svg") == 1
    assert 'id="engine_start-t"' in page


def test_drawing_changes_no_setting_of_others(page: str) -> None:
    assert mpl.rcParams["svg.fonttype"] == mpl.rcParamsDefault["svg.fonttype"]
    assert page
