"""The report as a reader uses it: opened from a file, searched, filtered, by keyboard, dark, narrow, on paper."""

import json
import random
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tasks.report.build import write_report
from tasks.report.data import ReportData, from_tables
from tasks.report.samples import as_text, reason_of
from tests.browser import screenshot

pytestmark = pytest.mark.ui

_MANY = {"arithmetic": 3_300, "extract": 3_300, "choice": 3_300, "needle": 100}
_MOST_S = 2.0


@pytest.fixture(scope="module")
def data(rows: Any) -> ReportData:
    return from_tables(tables=rows.tables(), run_id=rows.RUN_ID)


@pytest.fixture(scope="module")
def report(data: ReportData, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report(data=data, path=tmp_path_factory.mktemp("report") / "report.html")


@pytest.fixture
def visit(browser: Any) -> Iterator[Callable[..., Any]]:
    """Opens a file and waits for its samples; at the end there was no word in the console and no request elsewhere."""
    complaints: list[str] = []
    contexts = []

    def opened(path: Path, *, view: str = "", **options: Any) -> Any:
        context = browser.new_context(**{"viewport": {"width": 1360, "height": 900}, **options})
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda made: None if made.url.startswith("file:") else complaints.append(made.url))
        page.goto(path.as_uri() + view)
        page.wait_for_selector("html[data-samples=ready]")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []


def until(page: Any, condition: str) -> None:
    """Asks until it holds: the page's policy lets no text be run as code, so the browser cannot wait by itself."""
    end = time.monotonic() + 20
    while not page.evaluate(condition):
        assert time.monotonic() < end, condition
        time.sleep(0.02)


def shown(page: Any, of: int) -> int:
    """How many samples fit, once the filter has settled."""
    until(page, "document.getElementById('list').getAttribute('aria-busy') === 'false'")
    count, _, whole = page.text_content("#shown").partition(" of ")
    assert whole == f"{of:,}"
    return int(count.replace(",", ""))


def holding(data: ReportData, text: str) -> int:
    """How many samples have a text somewhere in id, prompt, target or answers, whatever its case."""
    own: dict[Any, list[str]] = {}
    for row in data.samples:
        own[row["dataset"], row["sample_id"]] = [row["sample_id"], row["prompt"], as_text(row["target"]) or ""]
    for row in data.requests:
        own[row["dataset"], row["sample_id"]] += [row["output"] or "", reason_of(row)]
    return sum(any(text.lower() in each.lower() for each in texts) for texts in own.values())


def ids(page: Any) -> list[str]:
    return page.locator("#list button.open").all_text_contents()


def test_every_section_has_a_size_and_the_page_no_scrollbar_of_its_own(report: Path, visit: Callable[..., Any]) -> None:
    for width in (1360, 400):
        page = visit(report, viewport={"width": width, "height": 900})
        anchors = [href[1:] for href in page.eval_on_selector_all(".toc a", "all => all.map((a) => a.hash)")]
        assert len(anchors) == 16
        for anchor in anchors:
            box = page.locator(f"#{anchor}").bounding_box()
            assert box["width"] > 300
            assert box["height"] > 60
        figures = page.eval_on_selector_all("figure svg", "all => all.map((svg) => svg.getBoundingClientRect().height)")
        assert len(figures) == 8
        assert min(figures) > 60
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        screenshot(page, f"report-light-{width}", full_page=True)


def test_search_and_filters_find_what_the_rows_hold(report: Path, data: ReportData, visit: Callable[..., Any]) -> None:
    page = visit(report)
    every = len(data.samples)
    assert shown(page, every) == every
    page.fill("#search", "question 5:")
    assert shown(page, every) == sum("Question 5:" in row["prompt"] for row in data.samples) == 4
    until(page, "location.hash.includes('q=question+5')")
    page.fill("#search", "")
    page.select_option("[name=dataset]", "choice")
    assert shown(page, every) == 60
    page.select_option("[name=arm]", "free")
    page.select_option("[name=status]", "truncated")
    wanted = [r for r in data.requests if (r["dataset"], r["arm"], r["status"]) == ("choice", "free", "truncated")]
    assert shown(page, every) == len({row["sample_id"] for row in wanted}) > 0
    page.click("button[type=reset]")
    page.select_option("[name=metric]", "exact_match")
    page.select_option("[name=op]", "ge")
    page.fill("[name=value]", "1")
    assert shown(page, every) == len({(r["dataset"], r["sample_id"]) for r in data.scores if r["value"] == 1})
    page.click("button[type=reset]")
    assert shown(page, every) == every
    page.fill("#search", "no such text anywhere")
    assert shown(page, every) == 0
    assert "No sample fits" in page.text_content("#list")


def test_won_lost_and_tied_are_what_the_paired_scores_say(
    report: Path, data: ReportData, visit: Callable[..., Any]
) -> None:
    score = {(row["dataset"], row["sample_id"], row["arm"]): row["value"] for row in data.scores}
    pairs = [(score[d, s, "free"], score[d, s, "guided"]) for d, s, arm in score if arm == "free"]
    pairs = [pair for pair in pairs if None not in pair]
    page = visit(report)
    for word, fits in (("won", lambda f, g: g > f), ("lost", lambda f, g: g < f), ("tied", lambda f, g: g == f)):
        page.select_option("[name=changed]", word)
        assert shown(page, len(data.samples)) == sum(fits(*pair) for pair in pairs)


def test_sorting_puts_the_slowest_first(report: Path, data: ReportData, visit: Callable[..., Any]) -> None:
    page = visit(report, view="#samples?sort=e2e")
    times: dict[str, float] = {}
    for row in data.requests:
        if row["kind"] == "generate" and row["e2e_ms"] is not None:
            times[row["sample_id"]] = max(times.get(row["sample_id"], 0), round(row["e2e_ms"], 1))
    assert [times[name] for name in ids(page)] == sorted(times.values(), reverse=True)[:50]


def test_a_view_can_be_linked_with_its_page_and_opened_sample(report: Path, visit: Callable[..., Any]) -> None:
    page = visit(report)
    page.select_option("[name=dataset]", "extract")
    assert shown(page, 188) == 60
    page.click("#later")
    page.locator("#list button.open").nth(3).click()
    page.wait_for_selector("#detail[open]")
    until(page, "location.hash.includes('open=')")
    address, title = page.url, page.text_content("#detail-name")
    again = visit(report, view="#" + address.split("#")[1])
    assert again.text_content("#detail-name") == title
    assert again.text_content("#page") == "page 2 of 2"
    assert again.input_value("[name=dataset]") == "extract"


def test_keys_alone_search_move_open_compare_and_close(report: Path, visit: Callable[..., Any]) -> None:
    page = visit(report)
    page.keyboard.press("?")
    assert page.locator("#keys[open]").count() == 1
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    page.keyboard.type("Question 1")
    shown(page, 188)
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    page.keyboard.press("j")
    assert page.evaluate("document.activeElement.textContent") == ids(page)[1]
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    page.keyboard.press("ArrowDown")
    page.keyboard.press("k")
    page.keyboard.press("Enter")
    page.wait_for_selector("#detail[open]")
    assert ids(page)[1] in page.text_content("#detail-name")
    assert page.locator("#detail article").count() == 2
    assert page.locator("#detail mark").count() > 0
    page.keyboard.press("d")
    page.wait_for_selector("#detail .diff")
    assert page.locator("#detail .diff ins, #detail .diff del").count() > 0
    assert page.locator("#detail [aria-pressed=true]").count() == 1
    screenshot(page, "report-differences")
    page.keyboard.press("d")
    page.keyboard.press("j")
    until(page, f"document.getElementById('detail-name').textContent.includes({json.dumps(ids(page)[2])})")
    screenshot(page, "report-sample")
    page.keyboard.press("Escape")
    until(page, "!document.querySelector('dialog[open]')")
    assert page.evaluate("document.activeElement.textContent") == ids(page)[2]
    until(page, "!location.hash.includes('open=')")


def test_the_differences_give_both_answers_back(report: Path, visit: Callable[..., Any]) -> None:
    page = visit(report)
    rng = random.Random(5)
    for size in (0, 1, 7, 40, 3_000):
        first = " ".join(rng.choice("abcd") for _ in range(size))
        second = " ".join(rng.choice("abcd") for _ in range(size + 3))
        parts = page.evaluate("([a, b]) => assay.differences(a, b)", [first, second])
        assert "".join(text for kind, text in parts if kind != "ins") == first
        assert "".join(text for kind, text in parts if kind != "del") == second


def test_dark_and_light_follow_the_system_and_the_switch(report: Path, visit: Callable[..., Any]) -> None:
    page = visit(report, color_scheme="dark")

    def ground() -> int:
        return sum(map(int, re.findall(r"\d+", page.evaluate("getComputedStyle(document.body).backgroundColor"))))

    def ink() -> int:
        colour = page.evaluate("getComputedStyle(document.querySelector('figure svg text')).fill")
        return sum(map(int, re.findall(r"\d+", colour)))

    assert ground() < 200
    assert ink() > 350
    screenshot(page, "report-dark", full_page=True)
    page.click("#theme")
    assert ground() > 700
    page.click("#theme")
    assert ground() < 200
    page.emulate_media(media="print")
    assert ground() > 700


def test_on_paper_there_are_no_controls_and_few_samples(
    report: Path, visit: Callable[..., Any], tmp_path: Path
) -> None:
    page = visit(report)
    page.emulate_media(media="print")
    for gone in ("#filters", ".toc", "#bar", "#theme", ".copy"):
        assert not page.locator(gone).first.is_visible(), gone
    assert page.locator("#print-note").is_visible()
    assert "50 of 188 samples" in page.text_content("#print-note")
    paper = tmp_path / "report.pdf"
    page.pdf(path=paper, format="A4")
    assert paper.read_bytes().startswith(b"%PDF")
    assert 8 < len(re.findall(rb"/Type\s*/Page[^s]", paper.read_bytes())) < 60
    page.set_viewport_size({"width": 703, "height": 1000})
    screenshot(page, "report-print", full_page=True)


def test_a_reader_of_the_screen_finds_names_for_all_that_can_be_used(report: Path, visit: Callable[..., Any]) -> None:
    page = visit(report)
    page.locator("#list button.open").first.click()
    page.wait_for_selector("#detail[open]")
    unnamed = page.evaluate(
        """() => [...document.querySelectorAll("button, input, select, a[href], [role=group], dialog, nav, section")]
             .filter((e) => !(e.getAttribute("aria-label") || e.getAttribute("aria-labelledby") || e.textContent.trim()
               || e.closest("label"))).map((e) => e.outerHTML.slice(0, 120))"""
    )
    assert unnamed == []
    assert page.evaluate(
        "[...document.querySelectorAll('figure svg')].every((s) => s.querySelector('title') && s.querySelector('desc'))"
    )
    assert page.locator("figure details table").count() == page.locator("figure svg").count()
    assert page.evaluate("document.getElementById('shown').getAttribute('aria-live')") == "polite"


def test_the_worst_texts_stay_texts_in_list_dialog_and_search(
    rows: Any, visit: Callable[..., Any], tmp_path: Path
) -> None:
    tables = rows.tables(hostile=True, sizes={"extract": 24})
    tables["requests"][0].update(
        output="</script><img src=x onerror=alert(1)>" + "a" * 1_000_000, status="ok", error=None
    )
    data = from_tables(tables=tables, run_id=rows.RUN_ID)
    page = visit(write_report(data=data, path=tmp_path / "hostile.html"))
    page.wait_for_timeout(300)
    for _ in range(len(data.samples)):
        page.keyboard.press("j")
        page.keyboard.press("Enter")
        page.wait_for_selector("#detail[open]")
        if page.locator("#detail button[aria-pressed]").count():
            page.keyboard.press("d")
            page.keyboard.press("d")
        page.keyboard.press("Escape")
        until(page, "!document.querySelector('dialog[open]')")
    assert page.locator("img, iframe, style:not(head style), [onerror], [onmouseover], [onfocus]").count() == 0
    assert "owned" not in page.title()
    page.goto(page.url.split("#")[0] + "#samples?open=0")
    page.wait_for_selector("#detail[open]")
    assert "characters left out" in page.text_content("#detail .cut")
    assert "SELECT r.arm" in page.text_content("#detail-sql")
    assert page.locator("#detail details[open]").count() == 1
    page.keyboard.press("Escape")
    for text in ("\u202egnp", "</script><img", "[31mred", "(.*", "a|b-[", "${1}"):
        page.fill("#search", text)
        assert shown(page, 24) == holding(data, text), text
    page.goto(page.url.split("#")[0] + "#samples?dataset=" + quote("<img src=x>") + "&sort=nonsense&page=-4&open=99999")
    assert shown(page, 24) == 24


def test_keys_quicker_than_the_texts_come_open_the_last_sample_and_never_what_was_closed(
    report: Path, visit: Callable[..., Any]
) -> None:
    page = visit(report)
    place = page.locator("#detail header > .quiet")

    def at_once(*keys: str, close: bool = False) -> None:
        page.evaluate(
            """([keys, close]) => {
              const dialog = document.getElementById("detail");
              for (const key of keys) dialog.dispatchEvent(new KeyboardEvent("keydown", { key }));
              if (close) dialog.close();
            }""",
            [list(keys), close],
        )

    page.locator("#list button.open").first.click()
    page.wait_for_selector("#detail[open]")
    assert place.text_content().startswith("1 of ")
    at_once("j", "j", "d", "d", "j")
    until(page, "document.querySelector('#detail header > .quiet').textContent.startsWith('4 of ')")
    at_once("j", "d", close=True)
    page.wait_for_timeout(300)
    assert page.locator("dialog[open]").count() == 0
    assert "open=" not in page.url
    at_once("d")
    page.locator("#list button.open").nth(2).click()
    page.wait_for_selector("#detail[open]")
    assert place.text_content().startswith("3 of ")


def test_ten_thousand_samples_open_in_two_seconds(
    rows: Any, visit: Callable[..., Any], browser: Any, tmp_path: Path
) -> None:
    tables = rows.tables(sizes=_MANY)
    rng = random.Random(3)
    words = ["".join(rng.choices("abcdefghijklmnop", k=rng.randint(2, 9))) for _ in range(5_000)]
    for sample in tables["samples"]:
        sample["prompt"] = "Read the text and answer the question. " * 8 + " ".join(rng.choices(words, k=80))
    for request in tables["requests"]:
        if request["output"] is not None:
            request["output"] += " ".join(rng.choices(words, k=30))
    begun = time.process_time()
    path = write_report(data=from_tables(tables=tables, run_id=rows.RUN_ID), path=tmp_path / "many.html", drawn={})
    written = time.process_time() - begun
    assert path.stat().st_size < 16_000_000
    assert written < 20  # processor seconds, with room for a machine that others use too
    times = []
    for _ in range(3):  # the best of three: others use the machine as well
        page = visit(path)
        times.append(page.evaluate("performance.getEntriesByName('samples-ready')[0].startTime") / 1000)
        if times[-1] <= _MOST_S:
            break
    assert min(times) <= _MOST_S, times
    assert len(ids(page)) == 50
    page.keyboard.press("/")
    page.keyboard.type(words[17])
    assert 0 < shown(page, 10_000) < 10_000
    print(
        f"10,000 samples: {path.stat().st_size / 1e6:.1f} MB, written in {written:.1f} s of processor time, "
        f"open in {min(times):.2f} s"
    )
    screenshot(page, "report-ten-thousand")
