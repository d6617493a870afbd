"""From scores to a run's numbers."""

import math
from typing import Any

import pytest

from schemas.metric import Score
from schemas.sample import Response
from tasks.score.aggregate import aggregate, aggregate_form
from tasks.score.paired_arms import compare_arms
from tasks.score.stats.wilson import effective_n, wilson

near = pytest.approx


def one(value: float | None, *, sample: str, **changes: Any) -> Score:
    fields: dict[str, Any] = {
        "dataset": "arithmetic",
        "sample_id": sample,
        "arm": "free",
        "repeat": 0,
        "metric": "exact_match",
        "metric_version": 1,
        "value": value,
    }
    return Score(**{**fields, **changes})


def test_a_rate_with_failures() -> None:
    scores = [
        one(1.0, sample="a"),
        one(0.0, sample="b"),
        one(1.0, sample="c"),
        one(None, sample="d", reason="error: died"),
    ]
    (row,) = aggregate(scores=scores)
    assert (row.name, row.arm, row.scope, row.unit, row.direction) == (
        "arithmetic.exact_match",
        "free",
        "dataset",
        "share",
        "higher",
    )
    assert (row.n, row.n_failed, row.value, row.method) == (3, 1, near(2 / 3), "wilson")
    assert (row.lo, row.hi) == wilson(rate=2 / 3, n=3)
    assert row.stderr == near(math.sqrt(1 / 3 / 3))
    assert row.details["reasons"] == {"error: died": 1}


def test_nan_is_a_failure_and_poisons_nothing() -> None:
    (row,) = aggregate(scores=[one(float("nan"), sample="a"), one(1.0, sample="b")])
    assert (row.value, row.n, row.n_failed) == (1.0, 1, 1)


def test_all_failed_has_no_value() -> None:
    (row,) = aggregate(scores=[one(None, sample="a")])
    assert (row.value, row.lo, row.stderr, row.n, row.n_failed) == (None, None, None, 0, 1)


def test_repeats_are_averaged_first() -> None:
    scores = [one(value, sample=sample, repeat=repeat) for sample in "abc" for repeat, value in enumerate((1.0, 0.0))]
    scores.append(one(None, sample="a", repeat=2))
    (row,) = aggregate(scores=scores)
    assert (row.n, row.n_failed, row.value) == (3, 0, 0.5)
    assert (row.stderr, row.method) == (0, "no_spread")  # three samples that are alike are no certainty
    assert row.lo == near(0.5 - 0.5 * wilson(rate=0, n=3)[1])
    assert row.hi == near(0.5 + 0.5 * wilson(rate=0, n=3)[1])
    assert row.details["repeats"] == 3
    assert row.details["failed_scores"] == 1


def test_split_ties_are_no_rate() -> None:
    (row,) = aggregate(scores=[one(0.5, sample="a", metric="acc", ties=2), one(1.0, sample="b", metric="acc")])
    assert (row.method, row.details["samples_with_ties"]) == ("t", 1)


def test_clusters() -> None:
    scores = [one(float(i < 10), sample=str(i)) for i in range(20)]
    clusters = {str(i): f"text {i // 2}" for i in range(20)}
    (row,) = aggregate(scores=scores, clusters=clusters)
    assert (row.method, row.n, row.details["clusters"]) == ("wilson_clustered", 20, 10)
    n = effective_n([float(i < 10) for i in range(20)], clusters=[i // 2 for i in range(20)])
    assert n is not None
    assert (row.lo, row.hi) == wilson(rate=0.5, n=n)
    shares = [one(i / 20, sample=str(i), metric="json_fields") for i in range(20)]
    assert aggregate(scores=shares, clusters=clusters)[0].method == "t_clustered"
    assert aggregate(scores=shares, clusters={"elsewhere": "x"})[0].method == "t"


def test_mixed_versions_and_double_scores_are_refused() -> None:
    with pytest.raises(ValueError, match="versions"):
        aggregate(scores=[one(1.0, sample="a"), one(1.0, sample="b", metric_version=2)])
    with pytest.raises(ValueError, match="scored twice"):
        aggregate(scores=[one(1.0, sample="a"), one(0.0, sample="a")])


def test_arms_and_datasets_stay_apart() -> None:
    scores = [one(1.0, sample="a"), one(0.0, sample="a", arm="guided"), one(0.0, sample="a", dataset="extract")]
    found = {(row.name, row.arm): row.value for row in aggregate(scores=scores)}
    assert found == {
        ("arithmetic.exact_match", "free"): 1.0,
        ("arithmetic.exact_match", "guided"): 0.0,
        ("extract.exact_match", "free"): 0.0,
    }


def _both(free: list[float | None], guided: list[float | None], **changes: Any) -> list[Score]:
    return [one(value, sample=str(i), **changes) for i, value in enumerate(free)] + [
        one(value, sample=str(i), arm="guided", **changes) for i, value in enumerate(guided)
    ]


def test_compare_arms() -> None:
    scores = _both([0.0] * 10 + [1.0] * 20 + [None], [1.0] * 10 + [1.0] * 20 + [1.0])
    scores += _both([0.5, 0.25, 1.0, 0.75] * 5, [0.5, 0.5, 0.75, 1.0] * 5, dataset="extract", metric="json_fields")
    scores += [one(1.0, sample="x", dataset="choice", metric="acc")]
    rows = {row.dataset: row for row in compare_arms(scores=scores, margin=0.02)}
    assert set(rows) == {"arithmetic", "extract"}
    row = rows["arithmetic"]
    assert (row.n_pairs, row.wins, row.losses, row.ties) == (30, 10, 0, 20)
    assert (row.candidate_arm, row.baseline_arm, row.candidate, row.baseline) == ("guided", "free", 1.0, near(2 / 3))
    assert (row.verdict, row.p_value, row.p_adjusted) == ("better", near(2 / 1024), near(4 / 1024))
    assert rows["extract"].method == "paired_t"
    assert rows["extract"].verdict == "undecided"
    assert rows["extract"].n_needed is not None
    assert rows["extract"].p_adjusted == near(rows["extract"].p_value)


def test_compare_arms_without_a_common_sample() -> None:
    (row,) = compare_arms(scores=[one(1.0, sample="a"), one(1.0, sample="b", arm="guided")], margin=0.02)
    assert (row.n_pairs, row.effect, row.candidate, row.verdict, row.p_adjusted) == (0, None, None, "undecided", None)


def test_compare_arms_refuses_another_version() -> None:
    scores = [one(1.0, sample="a"), one(1.0, sample="a", arm="guided", metric_version=2)]
    with pytest.raises(ValueError, match="versions 2 and 1"):
        compare_arms(scores=scores, margin=0.02)


def answer(sample: str, output: str | None, **changes: Any) -> Response:
    fields: dict[str, Any] = {
        "request_id": f"r{sample}",
        "dataset": "extract",
        "sample_id": sample,
        "arm": "guided",
        "kind": "generate",
        "status": "ok",
        "output": output,
        "finish_reason": "stop",
    }
    return Response(**{**fields, **changes})


def test_form() -> None:
    responses = [
        answer("a", '{"a": 1}', valid=True),
        answer("b", '{"a":"x"}', valid=False, status="invalid"),
        answer("c", '{"a":    ', valid=False, status="truncated", finish_reason="length"),
        answer("d", None, status="refused"),
        answer("e", None, status="error"),
        answer("f", None, status="cancelled"),
        answer("g", None, kind="loglikelihood"),
        answer("h", "elsewhere", dataset="other"),
    ]
    rows = {
        row.name.removeprefix("extract.form."): row for row in aggregate_form(dataset="extract", responses=responses)
    }
    expected = {
        "declared_coverage": (3 / 5, 5, 1),
        "empirical_coverage": (1 / 5, 5, 1),
        "compliance": (1 / 3, 3, 3),
        "parse_failures": (1 / 3, 3, 3),
        "length_finishes": (1 / 3, 3, 3),
        "refused": (1 / 5, 5, 1),
        "errors": (1 / 5, 5, 1),
    }
    for name, (value, n, failed) in expected.items():
        assert (rows[name].value, rows[name].n, rows[name].n_failed) == (near(value), n, failed), name
        assert rows[name].method == "wilson"
        assert rows[name].arm == "guided"
    assert rows["whitespace_share"].value == near((1 / 8 + 0 + 4 / 9) / 3)
    assert set(rows) == {*expected, "whitespace_share"}
    assert rows["compliance"].value == near(
        (rows["empirical_coverage"].value or 0) / (rows["declared_coverage"].value or 1)
    )


def test_form_of_answers_that_are_no_json() -> None:
    responses = [answer("a", "yes", valid=True), answer("a", "Well, yes", arm="free", valid=False, status="invalid")]
    found = {(row.name, row.arm): row.value for row in aggregate_form(dataset="extract", responses=responses)}
    assert found[("extract.form.compliance", "guided")] == 1
    assert found[("extract.form.compliance", "free")] == 0
    assert not any("parse_failures" in name or "whitespace" in name for name, _ in found)
    named = aggregate_form(dataset="extract", responses=responses, kind="json_schema")
    assert any(row.name == "extract.form.parse_failures" and row.value == 1 for row in named)


def test_form_without_a_grammar() -> None:
    rows = aggregate_form(dataset="extract", responses=[answer("a", "12", arm="free")])
    assert {row.name for row in rows} == {"extract.form.length_finishes", "extract.form.refused", "extract.form.errors"}
