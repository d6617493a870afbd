"""What the page of a corpus shows beside the figures, and what a comparison of two runs says and refuses."""

import datetime
import re
from pathlib import Path
from typing import Any

import pytest

from schemas.errors import ConfigError
from tasks.corpus.compare import compare_corpora
from tasks.corpus.figures import figures, stored_masks, stored_schemas
from tasks.corpus.read import read_corpus
from tasks.corpus.tables import backends_table, in_two, splits_table
from tasks.report.corpus import corpus_page, queries
from tasks.report.corpus_figures import MOST_SPLITS, draw_splits, splits_numbers
from tests.unit.corpus.test_corpus_figures import OTHER, ROWS, RUN, row, stored
from warehouse.build import ensure_fresh
from warehouse.parquet import write_rows
from warehouse.query import query


def page_of(home: Path) -> str:
    rows = stored_schemas(home, RUN)
    found = figures(rows, stored_masks(home, RUN), backends=["xgrammar"])
    return corpus_page(home=home, run_id=RUN, corpus=read_corpus("faults"), rows=rows, found=found)


def section(page: str, name: str) -> str:
    return page.partition(f'<section id="{name}"')[2].partition("</section>")[0]


def answers_to(case: dict[str, Any], *instances: tuple[str, bool, bool, bool]) -> list[dict[str, Any]]:
    """(instance, the corpus's word, the validator's, the backend's)."""
    return [
        {
            "case_id": case["case_id"],
            "backend": case["backend"],
            "test_index": number,
            "split": case["split"],
            "expected": expected,
            "validated": validated,
            "accepted": accepted,
            "status": "answered",
            "instance": instance,
        }
        for number, (instance, expected, validated, accepted) in enumerate(instances)
    ]


def test_disputed_instances_are_shown_and_blame_nobody(tmp_path: Path) -> None:
    case = row(0, "xgrammar", "under") | {"disputed": 1}
    (tmp_path / "runs" / RUN).mkdir(parents=True)
    tests = answers_to(
        case, ('"longer"', False, False, True), ('"s"', False, True, True), ('"mid"', False, False, True)
    )
    for table, own in (("corpus_schemas", [case]), ("corpus_tests", tests)):
        write_rows(home=tmp_path, table=table, run_id=RUN, rows=own, part="0", revision=0)
    page = page_of(tmp_path)
    disputed = section(page, "disputed")
    assert "&#34;s&#34;" in disputed and disputed.count("<tr><td>") == 1
    assert disputed.index(">invalid<") < disputed.index(">valid<")  # the corpus's word, then the validator's
    wrong = section(page, "wrong")
    assert "&#34;mid&#34;" in wrong and "&#34;s&#34;" not in wrong  # the shortest that counts


def test_short_instances_come_first_and_lists_are_bounded(tmp_path: Path) -> None:
    cases = [row(number, "xgrammar", "over") for number in range(70)]
    (tmp_path / "runs" / RUN).mkdir(parents=True)
    tests = [
        test
        for number, case in enumerate(cases)
        for test in answers_to(case, (f'"{"x" * (70 - number)}"', True, True, False))
    ]
    for table, own in (("corpus_schemas", cases), ("corpus_tests", tests)):
        write_rows(home=tmp_path, table=table, run_id=RUN, rows=own, part="0", revision=0)
    wrong = section(page_of(tmp_path), "wrong")
    assert re.findall("<bdi>(n[0-9]+)</bdi>", wrong)[:3] == ["n69", "n68", "n67"]
    assert wrong.count("<tr><td>") == 60 and "The first 60 of 70" in wrong


def test_no_schema_has_instances(tmp_path: Path) -> None:
    stored(tmp_path, RUN, [row(0, "xgrammar", "untested", tests=0), row(1, "xgrammar", "refused", tests=0)])
    page = page_of(tmp_path)
    assert "2 schemas: xgrammar takes 50%." in page
    assert 'id="wrong"' not in page and 'id="disputed"' not in page and 'id="splits"' not in page


def test_what_came_of_schemas_and_what_it_cost_are_two_tables() -> None:
    found = figures(ROWS, {}, backends=["xgrammar"])
    (verdicts,), (costs,) = in_two(backends_table(found, versions={"xgrammar": "1.0"}))
    assert list(costs) == [
        "backend",
        "version",
        "schemas",
        "compile ms p50/p99",
        "mask µs p50/p99",
        "mask µs mean",
        "peak MiB",
    ]
    assert set(verdicts) | set(costs) == set(backends_table(found, versions={})[0]) and "right" in verdicts
    assert [each["split"] for each in in_two(splits_table(found))[1]] == ["a", "b"]


def test_the_figure_of_splits_has_the_largest_and_none_for_one() -> None:
    assert draw_splits(figures([row(0, "xgrammar", "right")], {}, backends=["xgrammar"])) is None
    rows = [row(n, "xgrammar", "right", split=f"s{n}") for n in range(MOST_SPLITS + 5)]
    rows += [row(n + 100, "xgrammar", "refused", split="s44") for n in range(3)]
    heads, lines = splits_numbers(figures(rows, {}, backends=["xgrammar"]))
    assert heads[:3] == ("Split", "Backend", "Schemas") and len(lines) == MOST_SPLITS
    assert lines[-1][:3] == ("s44", "xgrammar", "4") and lines[-1][3].startswith("25.0% [")  # 1 of 4 is taken


def test_each_question_of_the_page_is_valid_sql(tmp_path: Path) -> None:
    stored(tmp_path, RUN, ROWS)
    ensure_fresh(tmp_path)
    answers = {question: query(home=tmp_path, sql=sql).rows for question, sql in queries(RUN)}
    assert all(answers.values()), answers


def run_row(home: Path, run_id: str, **config: Any) -> None:
    began = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    status = config.pop("status", "finished")
    run = {"name": "c", "flow": "grammars", "status": status, "started_at": began, "config": config, "tags": {}}
    write_rows(home=home, table="runs", run_id=run_id, rows=[run], part="1", revision=1)


def test_what_else_differs_between_two_runs_is_said(tmp_path: Path) -> None:
    stored(tmp_path, RUN, ROWS)
    stored(tmp_path, OTHER, [each | {"backend_version": "2.0"} for each in ROWS])
    like = {"limit_s": 30.0, "memory_gb": 4.0}
    run_row(tmp_path, RUN, fingerprint="a", tokenizer=None, jobs=2, **like)
    run_row(tmp_path, OTHER, fingerprint="b", tokenizer="smollm2", jobs=4, status="failed", **like)
    found = compare_corpora(tmp_path, candidate=OTHER, baseline=RUN, arms=(None, None), margin=0.02)
    assert [note.partition(":")[0] for note in found.notes] == [
        "the candidate is failed",
        "the corpus's file had another content",
        "other tokens, smollm2 against single bytes",
        "4 jobs beside each other against 2",
    ]
    assert (found.backends[0].candidate_version, found.backends[0].baseline_version) == ("2.0", "1.0")


def test_what_is_no_comparison_is_refused(tmp_path: Path) -> None:
    stored(tmp_path, RUN, [*ROWS, row(0, "guidance", "right")])
    stored(tmp_path, OTHER, [row(0, "outlines", "right")])
    for arms in ((None, None), ("xgrammar", None), ("xgrammar", "xgrammar")):
        with pytest.raises(ConfigError, match="compared with itself"):
            compare_corpora(tmp_path, candidate=RUN, baseline=RUN, arms=arms, margin=0.02)
    found = compare_corpora(tmp_path, candidate=RUN, baseline=RUN, arms=("xgrammar", "guidance"), margin=0.02)
    assert found.backends[0].n_pairs == 1 and found.notes == [
        "6 schemas are in one of the two runs only, and are left out"
    ]
    with pytest.raises(ConfigError, match=r"no backend is in both: the candidate has .*guidance"):
        compare_corpora(tmp_path, candidate=RUN, baseline=OTHER, arms=(None, None), margin=0.02)
    for margin in (-1.0, float("nan")):
        with pytest.raises(ConfigError, match="a margin is 0 or more"):
            compare_corpora(tmp_path, candidate=RUN, baseline=OTHER, arms=("xgrammar", "outlines"), margin=margin)
