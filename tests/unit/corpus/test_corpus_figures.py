"""Counts, comparisons and the page of a corpus, from rows made by hand."""

import datetime
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from schemas.errors import ConfigError
from tasks.corpus.compare import are_corpora, compare_corpora, save
from tasks.corpus.figures import figures, metric_rows, share_of, stored_masks, stored_schemas
from tasks.corpus.read import read_corpus
from tasks.corpus.tables import backends_table, splits_table
from tasks.report.corpus import corpus_page
from warehouse.parquet import read_rows, write_rows

RUN, OTHER = "20260101T000000-aaaaaa", "20260102T000000-bbbbbb"


def row(
    number: int, backend: str, verdict: str, *, split: str = "a", tests: int = 2, ms: float = 1.0
) -> dict[str, Any]:
    accepted = verdict not in ("refused", "timeout", "crashed", "error")
    return {
        "case_id": f"{number:05d}-x",
        "backend": backend,
        "split": split,
        "name": f"n{number}",
        "kind": "json_schema",
        "schema": "{}",
        "keywords": ["type"],
        "backend_version": "1.0",
        "status": "accepted" if accepted else verdict,
        "message": None if accepted else "says <no>",
        "check_s": 0.0 if accepted else None,
        "compile_s": ms / 1000 if accepted else None,
        "peak_bytes": 1 << 20,
        "tests": tests,
        "tests_right": 1 if accepted and tests else None,
        "over": (verdict in ("over", "both")) * 1 if accepted else None,
        "under": (verdict in ("under", "both")) * 1 if accepted else None,
        "reordered": 0 if accepted else None,
        "unjudged": 0 if accepted else None,
        "disputed": 0 if accepted else None,
        "verdict": verdict,
        "mask_us_mean": 2.0 if accepted else None,
    }


ROWS = [
    *(row(n, "xgrammar", v) for n, v in enumerate(["right", "right", "over", "both", "refused"])),
    row(5, "xgrammar", "untested", split="b", tests=0, ms=9.0),
    row(6, "xgrammar", "timeout", split="b"),
]


def stored(home: Path, run_id: str, rows: list[dict[str, Any]]) -> None:
    (home / "runs" / run_id).mkdir(parents=True)
    began = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    run = {"name": "c", "flow": "grammars", "status": "finished", "started_at": began, "config": {}, "tags": {}}
    tests = [
        {
            "case_id": each["case_id"],
            "backend": each["backend"],
            "test_index": 0,
            "split": each["split"],
            "expected": True,
            "validated": True,
            "accepted": each["verdict"] != "over",
            "status": "answered",
            "instance": '"<b>"',
            "mask_us": [1.0, 3.0],
        }
        for each in rows
        if each["status"] == "accepted" and each["tests"]
    ]
    for table, own in (("runs", [run]), ("corpus_schemas", rows), ("corpus_tests", tests)):
        write_rows(home=home, table=table, run_id=run_id, rows=own, part="0", revision=0)


def test_counts_shares_and_percentiles(tmp_path: Path) -> None:
    stored(tmp_path, RUN, ROWS)
    rows = stored_schemas(tmp_path, RUN)
    whole, a, b = figures(rows, stored_masks(tmp_path, RUN), backends=["xgrammar"])
    assert (whole.split, a.split, b.split) == (None, "a", "b")
    assert (whole.schemas, whole.accepted, whole.refused, whole.timeout, whole.crashed) == (7, 5, 1, 1, 0)
    assert (whole.right, whole.over, whole.under, whole.untested, whole.with_tests) == (2, 2, 1, 1, 6)
    assert (whole.over_tests, whole.under_tests, whole.mask_tokens) == (2, 1, 8)
    assert whole.mask_us == {"mean": 2.0, "p50": 2.0, "p95": 3.0, "p99": 3.0, "max": 3.0}
    assert whole.compile_ms["max"] == pytest.approx(9.0) and whole.compile_ms["p50"] == pytest.approx(1.0)
    # Wilson, by hand, of 2 in 6: (p + z²/2n ± z √(p(1-p)/n + z²/4n²)) / (1 + z²/n)
    value, lo, hi = share_of(whole, "right") or (0.0, 0.0, 0.0)
    z, n, p = 1.959964, 6, 1 / 3
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    assert (value, lo, hi) == pytest.approx((p, middle - half, middle + half), abs=1e-6)
    assert share_of(b, "right") == (0.0, 0.0, pytest.approx(0.7935, abs=1e-3))  # one with tests, and it was lost
    assert b.mask_us == {} and b.mask_tokens == 0


def test_what_is_not_known_is_a_dash_and_no_row() -> None:
    (lost,) = figures([row(1, "outlines", "crashed", tests=0)], {}, backends=["outlines"])
    (line,) = backends_table([lost], versions={}, narrow=True)
    assert line["right"] == line["mask µs p50/p99"] == line["compile ms p50/p99"] == line["version"] == "–"
    assert (line["takes"], line["crashed"]) == ("0.0%", "1")
    assert splits_table([lost]) == []
    names = {each["name"] for each in metric_rows([lost])}
    assert "grammars.outlines.declared_coverage" in names and not any("right" in name or "ms" in name for name in names)
    (nothing,) = figures([], {("outlines", "a"): np.array([])}, backends=["outlines"])
    assert share_of(nothing, "accepted") is None


def test_two_runs_are_compared_schema_by_schema(tmp_path: Path) -> None:
    better = [row(n, "xgrammar", "right", ms=2.0) for n in range(5)] + [ROWS[5]]
    stored(tmp_path, RUN, ROWS)
    stored(tmp_path, OTHER, better)
    found = compare_corpora(tmp_path, candidate=OTHER, baseline=RUN, arms=(None, None), margin=0.02)
    (only,) = found.backends
    shares = {each.metric: each for each in only.shares}
    assert (only.n_pairs, found.unpaired) == (6, 1)
    right = shares["right"]
    assert (right.n_pairs, right.candidate, right.baseline, right.wins, right.losses) == (5, 1.0, 0.4, 3, 0)
    assert right.p_value == pytest.approx(0.25)  # 2 / 2^3
    assert (shares["takes"].effect, shares["silently_wrong"].effect) == pytest.approx((1 / 6, -0.4))
    assert shares["silently_wrong"].wins == 2  # lower is better
    ratios = {each.figure: each for each in only.ratios}
    assert ratios["compile_ms"].value == pytest.approx(2 ** (4 / 5)) and ratios["compile_ms"].n == 5
    assert [(each.before, each.after) for each in only.changed] == [
        ("over", "right"),
        ("both", "right"),
        ("refused", "right"),
    ]
    save(tmp_path, found)
    save(tmp_path, found)
    kept = read_rows(tmp_path, "comparisons", OTHER)
    assert {(each["dataset"], each["metric"], each["candidate_arm"]) for each in kept} == {
        ("c", name, "xgrammar") for name in ("takes", "right", "silently_wrong")
    }
    assert len(kept) == 3 and all(each["baseline_run_id"] == RUN for each in kept)


def test_what_cannot_be_compared_is_refused(tmp_path: Path) -> None:
    stored(tmp_path, RUN, ROWS)
    stored(tmp_path, OTHER, [row(50, "guidance", "right")])
    with pytest.raises(ConfigError, match="no backend `lark`"):
        compare_corpora(tmp_path, candidate=RUN, baseline=OTHER, arms=("lark", None), margin=0.02)
    with pytest.raises(ConfigError, match="no schema in common"):
        compare_corpora(tmp_path, candidate=RUN, baseline=OTHER, arms=("xgrammar", "guidance"), margin=0.02)
    assert are_corpora(tmp_path, RUN, OTHER)
    began = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    plain = {"name": "q", "flow": "experiment", "status": "finished", "started_at": began, "config": {}, "tags": {}}
    write_rows(home=tmp_path, table="runs", run_id="20260103T000000-cccccc", rows=[plain], part="0", revision=0)
    with pytest.raises(ConfigError, match="none over a corpus"):
        are_corpora(tmp_path, RUN, "20260103T000000-cccccc")


def test_the_page_shows_what_is_wrong_with_an_instance(tmp_path: Path) -> None:
    stored(tmp_path, RUN, ROWS)
    rows = stored_schemas(tmp_path, RUN)
    found = figures(rows, stored_masks(tmp_path, RUN), backends=["xgrammar"])
    page = corpus_page(
        home=tmp_path, run_id=RUN, corpus=read_corpus("faults"), rows=rows, found=found, notes=["mind <this>"]
    )
    assert "xgrammar is right on 33%" in page and "mind &lt;this&gt;" in page
    assert "&#34;&lt;b&gt;&#34;" in page and "<b>" not in page.replace("<br>", "")
    assert "says &lt;no&gt;" in page and page.count("<svg") == 4
