"""A comparison of two runs over a corpus as a page and as Markdown: its numbers, its bounds, and hostile text."""

import base64
import hashlib
import math
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from tasks.corpus.compare import CorpusComparison, compare_corpora, save
from tasks.corpus.compare_markdown import markdown
from tasks.corpus.compare_words import coverage_rows, sentence, time_rows
from tasks.report.corpus_compare import queries, render
from tests.unit.corpus.test_corpus_figures import OTHER, RUN, row, stored
from warehouse.parquet import write_rows
from warehouse.query import query

HOSTILE = "<script>alert(1)</script> ![x](http://evil) | `b` @team #1 $a$ www.evil \x1b[31m \u202e _a_ [b] (c)\nnext"
SPLITS = {"a": 60, "b": 20}


def rows(*, version: str, wrong: int, ms: float, **changes: Any) -> list[dict[str, Any]]:
    """80 schemas in two splits, of which the first so many come out otherwise than right."""
    found = []
    for number in range(80):
        verdict = "right" if number >= wrong else ("refused", "over")[number % 2]
        split = "a" if number < SPLITS["a"] else "b"
        found.append(row(number, "xgrammar", verdict, split=split, ms=ms * (1 + number)) | {"backend_version": version})
        found[-1] |= changes
    return found


def answers(home: Path, run_id: str, *, valid: int) -> None:
    """A model's answers: the first of 80 were too long to ask, so many of the rest are valid."""
    own = [
        {
            "case_id": f"{number:05d}-x",
            "backend": "xgrammar",
            "split": "a" if number < SPLITS["a"] else "b",
            "request_status": "skipped" if number == 0 else "ok",
            "valid": None if number == 0 else number <= valid,
        }
        for number in range(80)
    ]
    write_rows(home=home, table="corpus_answers", run_id=run_id, rows=own, part="0", revision=0)


def compared(home: Path, **changes: Any) -> CorpusComparison:
    stored(home, RUN, rows(version="1.0", wrong=0, ms=1.0, **changes))
    stored(home, OTHER, rows(version="2.0", wrong=70, ms=2.0, **changes))
    return compare_corpora(home, candidate=OTHER, baseline=RUN, arms=(None, None), margin=0.02)


class Outline(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += attrs


def section(page: str, name: str) -> str:
    return page.partition(f'<section id="{name}"')[2].partition("</section>")[0]


def test_coverage_by_split_has_both_sides_and_the_difference(tmp_path: Path) -> None:
    found = compared(tmp_path)
    whole, a, b = coverage_rows(found)
    assert [each["split"] for each in (whole, a, b)] == ["whole corpus", "a", "b"]
    # Of the first 70 every other one is refused: 30 of split a, 5 of split b; the others of them are over.
    assert (whole["takes"], a["takes"], b["takes"]) == ("100.0% → 56.2%", "100.0% → 50.0%", "100.0% → 75.0%")
    assert (whole["right"], a["right"], b["right"]) == ("100.0% → 12.5%", "100.0% → 0.0%", "100.0% → 50.0%")
    assert b["takes, difference"].startswith("−25.0 [−") and (a["schemas"], b["schemas"]) == ("60", "20")
    assert not any("valid answer" in each for each in (whole, a, b))
    part = next(each for each in found.backends[0].coverage if each.split == "b" and each.figure == "takes")
    assert part.lo is not None and part.hi is not None and -1 < part.lo < -0.25 < part.hi < 0.05


def test_a_models_answers_are_compared_where_both_have_them(tmp_path: Path) -> None:
    compared(tmp_path)
    answers(tmp_path, RUN, valid=79)
    one_sided = compare_corpora(tmp_path, candidate=OTHER, baseline=RUN, arms=(None, None), margin=0.02)
    assert [share.metric for share in one_sided.backends[0].shares] == ["takes", "right", "silently_wrong"]
    answers(tmp_path, OTHER, valid=59)
    found = compare_corpora(tmp_path, candidate=OTHER, baseline=RUN, arms=(None, None), margin=0.02)
    answer = found.backends[0].shares[-1]
    assert (answer.metric, answer.n_pairs, answer.baseline) == ("valid_answer", 79, 1.0)
    assert (answer.candidate, answer.verdict) == (pytest.approx(59 / 79), "worse")
    _, a, b = coverage_rows(found)
    assert (a["valid answer"], b["valid answer"]) == ("100.0% → 100.0%", "100.0% → 0.0%")
    assert "valid answer" in section(render(found), "splits") and "valid answer" in markdown(found)


def test_times_of_both_over_the_schemas_that_both_take(tmp_path: Path) -> None:
    found = compared(tmp_path)
    compile_, mask = found.backends[0].ratios
    taken = [1.0 + number for number in range(80) if number >= 70 or number % 2]
    assert compile_.n == len(taken) == 45 and compile_.value == pytest.approx(2)
    assert compile_.baseline["p50"] == pytest.approx(sorted(taken)[22])
    assert compile_.candidate["p99"] == pytest.approx(2 * compile_.baseline["p99"])
    place = 0.95 * 44
    low, high = sorted(taken)[math.floor(place)], sorted(taken)[math.ceil(place)]
    assert compile_.baseline["p95"] == pytest.approx(low + (place - math.floor(place)) * (high - low))
    assert mask.value == pytest.approx(1) and mask.candidate == {"p50": 2.0, "p95": 2.0, "p99": 2.0}
    first = time_rows(found)[0]
    assert first["time"] == "compile, ms" and first["ratio"] == "2.00×"  # without spread, no interval
    assert [head for head in first if head.startswith("baseline")] == ["baseline p50", "baseline p95", "baseline p99"]
    refused = tmp_path / "refused"
    stored(refused, RUN, [row(0, "xgrammar", "refused")])
    stored(refused, OTHER, [row(0, "xgrammar", "right")])
    nothing = compare_corpora(refused, candidate=OTHER, baseline=RUN, arms=(None, None), margin=0.02)
    assert time_rows(nothing) == [] and 'id="times"' not in render(nothing)


def test_the_page_says_what_changed_at_most_sixty_and_counts_the_rest(tmp_path: Path) -> None:
    found = compared(tmp_path)
    page = render(found)
    assert sentence(found).startswith("Worse in 3 of 3: xgrammar takes 1.000 → 0.562") and sentence(found) in page
    assert "1.0 → 2.0" in page
    changed = section(page, "changed")
    assert changed.count("<tr><td") == 60 and "The first 60 are here" in changed
    assert "right → over: 35; right → refused: 35." in changed and changed.count(">lost<") == 60
    assert "says &lt;no&gt;" in changed
    text = markdown(found, most=5)
    assert "70 schemas came out otherwise" in text and text.count("| lost |") == 5 and "and 65 more" in text
    assert "| lost |" not in markdown(found, most=0)
    back = compare_corpora(tmp_path, candidate=RUN, baseline=OTHER, arms=(None, None), margin=0.02)
    assert "before: says &lt;no&gt;" in section(render(back), "changed") and "lost" not in section(
        render(back), "changed"
    )


def test_the_page_is_closed_and_hostile_text_is_text(tmp_path: Path) -> None:
    tame = compared(tmp_path / "tame")
    wild = compared(tmp_path / "wild", name=HOSTILE, message=HOSTILE, backend_version=HOSTILE, tokenizer=HOSTILE)
    pages = [render(tame), render(wild)]
    outlines = [Outline(page) for page in pages]
    for page, outline in zip(pages, outlines, strict=True):
        assert outline.tags["script"] == 1 and "<script></script>" in page
        [css] = re.findall("<style>(.*?)</style>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(css.encode()).digest()).decode()
        policy = next(value for name, value in outline.attributes if name == "content" and "src" in (value or ""))
        assert policy == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
        names = {name for name, _ in outline.attributes}
        assert not {"src", "style", "action", "onclick", "onerror", "onload"} & names
        links = [value or "" for name, value in outline.attributes if name.endswith("href")]
        ids = [value for name, value in outline.attributes if name == "id"]
        assert {link[1:] for link in links} <= set(ids) and all(link.startswith("#") for link in links)
        assert len(ids) == len(set(ids))
    assert set(outlines[1].tags) - set(outlines[0].tags) == {"b"}  # a sign for what cannot be seen
    assert "\x1b" not in pages[1] and "\u202e" not in pages[1]
    text = markdown(wild)
    assert set(re.findall(r"</?([a-z]+)>", text)) == {"code", "details", "summary", "span"}
    for wrong in ("<script", "![x]", "http://", "www.", "\x1b", "\u202e", " _a_", "`b`"):
        assert wrong not in text, wrong
    assert "http&colon;//evil" in text
    assert not re.search(r"[@#$]", re.sub(r"<span>[@#$]</span>", "", text))
    tables = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
    assert len(tables) == 4
    assert all(len({line.replace("\\|", "").count("|") for line in each.splitlines()}) == 1 for each in tables)


def test_hostile_splits_stay_in_their_cells(tmp_path: Path) -> None:
    found = compared(tmp_path, split=HOSTILE)
    again = tmp_path / "two"
    stored(again, RUN, [row(0, "xgrammar", "right", split=HOSTILE), row(1, "xgrammar", "right", split="b")])
    stored(again, OTHER, [row(0, "xgrammar", "over", split=HOSTILE), row(1, "xgrammar", "right", split="b")])
    two = compare_corpora(again, candidate=OTHER, baseline=RUN, arms=(None, None), margin=0.02)
    for each in (found, two):
        assert "<script>alert" not in render(each) and "<script" not in markdown(each)
    assert "alert(1)&lt;/script&gt;" in section(render(two), "splits")


def test_the_questions_on_the_page_can_be_asked(tmp_path: Path) -> None:
    found = compared(tmp_path)
    save(tmp_path, found)
    answered = [query(home=tmp_path, sql=sql.rstrip(";")) for _, sql in queries(found)]
    assert [len(each.rows) for each in answered] == [3, 70, 20]
    assert answered[2].rows[0][2:] == pytest.approx((80.0, 160.0))
