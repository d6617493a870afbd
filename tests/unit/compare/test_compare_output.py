"""What is printed and written: for people, for pull requests, for programs, as a page; and the commands' exit codes."""

import base64
import hashlib
import json
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import pytest
from two_runs import FIRST, HOSTILE, SECOND, Made, binary, timing, write

from flows.cli_compare import _baselines, _runs
from flows.commands.compare import exit_code
from tasks.compare.markdown import markdown
from tasks.compare.promote import promote
from tasks.compare.runs import compare_runs
from tasks.compare.save import save_comparison
from tasks.compare.words import sentence
from tasks.report.compare_page import queries, render
from tests.e2e.command import ROOT, assay, rows
from warehouse.query import query

FREE = ("d", "exact_match", "free")
GUIDED = ("d", "exact_match", "guided")


def fill(home: Path, *, hostile: bool = False) -> Path:
    """Two runs: free is worse by far, guided the same; with hostile, every text that a model or a file can write is."""
    texts = {f"s{i:04}": f"{HOSTILE}{i}" for i in range(200)} if hostile else {}
    text = HOSTILE if hostile else "plain"
    before = Made(run_id=FIRST, values={FREE: binary(n=200, right=100), GUIDED: binary(n=200, right=100)})
    before.outputs = before.targets = texts
    before.aggregates = [timing("ttft_ms.p50", 100.0)]
    after = Made(
        run_id=SECOND,
        name=text,
        values={FREE: binary(n=200, right=100, flipped_down=40, flipped_up=1), GUIDED: binary(n=200, right=100)},
        outputs=texts,
        targets=texts,
        prompts={"s0001": text},
        engine={"device": text, "model": text},
        aggregates=[timing("ttft_ms.p50", 50.0)],
    )
    for made in (before, after):
        write(home, made)
    return home


@pytest.fixture(scope="module")
def tame(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fill(tmp_path_factory.mktemp("tame"))


@pytest.fixture(scope="module")
def wild(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fill(tmp_path_factory.mktemp("wild"), hostile=True)


class Outline(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += attrs


def test_the_sentence_says_the_worst_first(tame: Path) -> None:
    found = compare_runs(home=tame, candidate=SECOND, baseline=FIRST)
    assert sentence(found) == "Worse in 1 of 2: d.exact_match (free) 0.500 → 0.305; 1 the same."
    guided = compare_runs(home=tame, candidate=SECOND, baseline=FIRST, arms=("guided", None))
    assert sentence(guided) == "1 of 1 the same."


def test_exit_codes_follow_what_is_asked_for(tame: Path) -> None:
    found = compare_runs(home=tame, candidate=SECOND, baseline=FIRST)
    assert [exit_code(found, fail_on=each) for each in (None, "worse", "undecided")] == [0, 3, 3]
    unsure = compare_runs(home=tame, candidate=SECOND, baseline=FIRST, arms=("guided", None), margin=0)
    assert [exit_code(unsure, fail_on=each) for each in (None, "worse", "undecided")] == [0, 0, 3]


def test_markdown_is_a_table_and_hostile_text_is_text(wild: Path) -> None:
    text = markdown(compare_runs(home=wild, candidate=SECOND, baseline=FIRST), flips=3)
    assert "| ❌ worse | <code>d.exact\\_match</code> | free | 0.305 | 0.500 | −0.195 |" in text
    assert "4 of 41 samples that changed" in text
    assert set(re.findall(r"</?([a-z]+)>", text)) == {"code", "details", "summary", "span"}
    for wrong in ("<script", "![x]", "http://", "www.", "\x1b", "\u202e", " _a_", "`b`"):
        assert wrong not in text, wrong
    # GitHub calls nobody, links nothing and sets no formula where the sign is in an element of its own.
    assert "<span>@</span>team <span>#</span>1" in text and "<span>$</span>a" in text
    assert not re.search(r"[@#$]", re.sub(r"<span>[@#$]</span>", "", text))
    widths = [
        {line.replace("\\|", "").count("|") for line in table.splitlines()}
        for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
    ]
    assert len(widths) == 4
    assert all(len(width) == 1 for width in widths)


def test_the_page_is_closed_and_hostile_text_makes_no_element(tame: Path, wild: Path) -> None:
    pages = [render(compare_runs(home=home, candidate=SECOND, baseline=FIRST)) for home in (tame, wild)]
    outlines = [Outline(page) for page in pages]
    for page, outline in zip(pages, outlines, strict=True):
        values = dict(outline.attributes)
        assert outline.tags["script"] == 1 and "<script></script>" in page
        [css] = re.findall("<style>(.*?)</style>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(css.encode()).digest()).decode()
        policy = next(value for name, value in outline.attributes if name == "content" and "src" in (value or ""))
        assert policy == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
        assert not {"src", "style", "action", "onclick", "onerror", "onload"} & set(values)
        links = [value or "" for name, value in outline.attributes if name.endswith("href")]
        ids = [value for name, value in outline.attributes if name == "id"]
        assert all(link.startswith("#") for link in links)
        assert {link[1:] for link in links} <= set(ids)
        assert len(ids) == len(set(ids))
    assert set(outlines[1].tags) - set(outlines[0].tags) == {"b"}  # a sign for what cannot be seen
    assert "\x1b" not in pages[1] and "\u202e" not in pages[1]
    assert "Worse in 1 of 2: d.exact_match (free) 0.500 → 0.305" in pages[0]
    assert f"{SECOND} says s0000" in pages[0]
    assert "s0039" in pages[0] and pages[0].count('class="verdict verdict-worse">lost') == 40
    assert "0.50×" in pages[0]
    assert "d: prompts of 1 of 200 samples, as in s0001" in pages[0]


def test_the_questions_on_the_page_can_be_asked(tame: Path) -> None:
    found = compare_runs(home=tame, candidate=SECOND, baseline=FIRST)
    answers = [query(home=tame, sql=sql.rstrip(";")) for _, sql in queries(found)]
    assert [len(each.columns) for each in answers] == [11, 8, 8]
    assert len(answers[2].rows) == 41


def test_the_questions_in_the_how_to_can_be_asked(tmp_path: Path) -> None:
    home = fill(tmp_path / "home")
    promote(home, FIRST, name="main")
    save_comparison(home, compare_runs(home=home, candidate=SECOND, baseline=FIRST, margin=0.01))
    page = (ROOT / "docs" / "how-to" / "compare-runs.md").read_text("utf-8")
    answers = [query(home=home, sql=sql).rows for sql in re.findall(r"```sql\n(.*?)```", page, re.DOTALL)]
    assert [len(each) for each in answers] == [1, 2, 40, 1]
    assert answers[2][0] == ("d", "exact_match", "s0000", 1)


def test_the_command_compares_keeps_and_writes(tmp_path: Path) -> None:
    home = fill(tmp_path / "home", hostile=True)
    done = assay("compare", "last", "20261120", "--no-save", "--fail-on", "worse", "--json", home=home)
    assert done.code == 3, done.stderr
    told = done.json
    assert told["verdicts"] == {"worse": 1, "undecided": 0, "better": 0, "same": 1}
    assert (told["exit_code"], told["saved"], told["flips_total"], len(told["flips"])) == (3, False, 41, 6)
    assert told["results"][0]["losses"] == 40
    assert rows(home, "SELECT count(*) AS n FROM comparisons") == [{"n": 0}]

    page, out = tmp_path / "page.html", tmp_path / "pr.md"
    done = assay("compare", SECOND, FIRST, "--html", str(page), "--out", str(out), home=home)
    assert (done.code, done.stdout) == (0, ""), done.stderr
    assert out.read_text("utf-8").startswith("**Worse in 1 of 2: ")
    assert page.read_text("utf-8").startswith("<!doctype html>")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home", "page.html", "pr.md"]
    [kept] = rows(home, "SELECT run_id, baseline_run_id, candidate_arm, effect FROM regressions")
    assert kept == {"run_id": SECOND, "baseline_run_id": FIRST, "candidate_arm": "free", "effect": -0.195}

    done = assay("compare", f"{SECOND}:free", FIRST, home=home)
    assert done.code == 0, done.stderr
    assert "\x1b" not in done.stdout and "\u202e" not in done.stdout
    for words in ("worse", "−0.195", "6 of 41 samples that changed", "What else differs", "ttft_ms.p50", "0.50×"):
        assert words in done.stdout, words

    refused = assay("compare", "last", "last", home=home)
    assert (refused.code, refused.stdout) == (2, "")
    assert "would be compared with itself" in refused.stderr


def test_a_promoted_run_can_be_compared_with(tmp_path: Path) -> None:
    home = fill(tmp_path / "home")
    done = assay("promote", "20261120", "--as", "baseline:main", "--json", home=home)
    assert done.code == 0, done.stderr
    assert done.json == {
        "run_id": FIRST,
        "baseline": "main",
        "taken_from": [],
        "mlflow_waits": {},
        "changed": True,
    }
    assert json.loads(assay("promote", "--list", "--json", home=home).stdout)["baselines"][0]["run_id"] == FIRST
    done = assay("compare", "last:guided", "baseline:main", "--markdown", home=home)
    assert (done.code, done.stdout.splitlines()[0]) == (0, "**1 of 1 the same.**")
    done = assay("promote", "last", home=home)
    assert (done.code, "--as baseline:main" in done.stderr) == (2, True)


def test_tab_offers_runs_and_baselines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = fill(tmp_path / "home")
    write(home, Made(run_id=FIRST, values={FREE: {"a": 1.0}}, tags={"baseline": "main,release"}))
    monkeypatch.setenv("ASSAY_HOME", str(home))
    assert _runs("") == ["last", "baseline:main", "baseline:release", SECOND, FIRST]
    assert _runs("20261121") == [SECOND]
    assert _baselines("baseline:r") == ["baseline:release"]
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "none"))
    assert _runs("") == ["last"]
