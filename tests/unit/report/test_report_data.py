"""What the report says of a run's rows, told from the rows themselves."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import report_rows

from schemas.errors import RunError
from tasks.report import arms, engine, header, latency, samples, usage
from tasks.report.alerts import alerts
from tasks.report.data import ReportData, from_tables, load_report_data
from tasks.report.profiles import profile_table
from tasks.report.quality import quality_rows


def run_of(tables: dict[str, list[dict[str, Any]]]) -> ReportData:
    return from_tables(tables=tables, run_id=report_rows.RUN_ID)


@pytest.fixture(scope="module")
def data() -> ReportData:
    return run_of(report_rows.tables())


def test_the_rows_come_back_from_the_warehouse_as_they_were_written(tmp_path: Path) -> None:
    parquet = pytest.importorskip("warehouse.parquet")
    tables = report_rows.tables(sizes={"extract": 6, "choice": 2})
    for table, rows in tables.items():
        own = [{name: value for name, value in row.items() if name != "revision"} for row in rows]
        parquet.write_rows(home=tmp_path, table=table, run_id=report_rows.RUN_ID, rows=own, part="p0", revision=1)
    loaded = load_report_data(home=tmp_path, run_id=report_rows.RUN_ID)
    made = run_of(tables)
    assert loaded.run["packages"]["torch"] == "2.13.0+cpu"
    assert loaded.run["config"]["model"]["name"] == "smollm2-135m-instruct"
    assert [row["output"] for row in loaded.requests] == [row["output"] for row in made.requests]
    assert loaded.requests[0]["sent_at"] == made.requests[0]["sent_at"]
    assert [row["target"] for row in loaded.samples] == [row["target"] for row in made.samples]
    assert header.verdict(loaded) == header.verdict(made)
    assert [alert.title for alert in alerts(loaded)] == [alert.title for alert in alerts(made)]


def test_a_run_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="no run 20990101"):
        load_report_data(home=tmp_path, run_id="20990101T000000-00000000")


def test_of_a_request_the_last_attempt_counts() -> None:
    tables = report_rows.tables(sizes={"extract": 2})
    first = tables["requests"][0]
    tables["requests"].insert(0, {**first, "attempt": 2, "status": "error", "error": "second try"})
    found = [row for row in run_of(tables).requests if row["request_id"] == first["request_id"]]
    assert [(row["attempt"], row["error"]) for row in found] == [(2, "second try")]


def test_the_verdict_names_form_and_every_comparison(data: ReportData) -> None:
    sentence, reasons = header.verdict(data)
    good = sum(row["valid"] is True for row in data.generated if row["arm"] == "free")
    asked = sum(row["arm"] == "free" for row in data.generated)
    assert sentence.startswith("Guided answers: 99\u00a0% well-formed against ")
    assert f"{100 * good / asked:.0f}\u00a0% free" in sentence
    assert reasons[0]["words"] == "arithmetic exact match 0.31 vs 0.28 (undecided)"


def test_a_refused_request_stays_in_every_denominator(data: ReportData) -> None:
    row = next(row for row in arms.form_rows(data) if (row["dataset"], row["arm"]) == ("extract", "guided"))
    assert (row["n"], row["refused"], row["valid"]) == (60, 1, 59)
    assert row["declared_coverage"] == pytest.approx(59 / 60)
    assert row["empirical_coverage"] == pytest.approx(59 / 60)
    assert row["compliance"] == 1.0


def test_the_free_arm_has_no_coverage(data: ReportData) -> None:
    row = next(row for row in arms.form_rows(data) if (row["dataset"], row["arm"]) == ("extract", "free"))
    assert row["declared_coverage"] is None
    assert row["compliance"] is None
    assert row["well_formed"] == pytest.approx(row["valid"] / 60)


def test_what_the_run_recorded_of_the_form_goes_before_our_own_count() -> None:
    tables = report_rows.tables(sizes={"extract": 6})
    recorded = {**tables["metrics"][0], "name": "extract.form.compliance", "arm": "guided", "value": 0.5}
    tables["metrics"].append(recorded)
    tables["metrics"].append({**recorded, "name": "extract.form.parse_failures", "value": 0.25})
    made = run_of(tables)
    row = next(row for row in arms.form_rows(made) if row["arm"] == "guided")
    assert (row["compliance"], row["parse_failures"]) == (0.5, 0.25)
    assert not any("form" in row["metric"] for row in quality_rows(made))


def test_an_answer_that_the_validator_refused_is_listed_whatever_its_status() -> None:
    tables = report_rows.tables(sizes={"extract": 4})
    for row in tables["requests"]:
        row.update(status="ok", valid=row["arm"] == "guided", error=None, violations=[], finish_reason="stop")
    made = run_of(tables)
    assert [(row["arm"], row["status"]) for row in samples.failures(made)] == [("free", "invalid")] * 4
    assert header.tally(made) == [("4", "ok", "ok"), ("4", "invalid", "invalid")]


def test_times_leave_out_failures_log_likelihoods_and_reused_answers() -> None:
    tables = report_rows.tables(sizes={"choice": 4})
    reused = tables["requests"][0]
    reused["reused"] = True
    kept = {row["request_id"] for row in latency.timed(run_of(tables))}
    assert reused["request_id"] not in kept
    assert len(kept) == 7
    assert not any("-ll" in name for name in kept)


def test_a_time_that_is_missing_is_not_counted_as_zero() -> None:
    tables = report_rows.tables(sizes={"extract": 3})
    for row in tables["requests"]:
        row["tpot_ms"] = None
    assert "tpot" not in {row["name"] for row in latency.by_arm(run_of(tables))}


def test_buckets_hold_every_timed_request_once(data: ReportData) -> None:
    assert sum(row["n"] for row in latency.by_bucket(data)) == len(latency.timed(data))
    assert latency.bucket_name(128, 512) == "128 to 511"


def test_throughput_over_time_adds_up_to_all_output_tokens(data: ReportData) -> None:
    points = usage.throughput(data)
    step = points[1][0] - points[0][0]
    tokens = sum(row["output_tokens"] for row in latency.timed(data))
    assert sum(rate for _, rate in points) * step == pytest.approx(tokens, rel=1e-6)


def test_energy_without_a_gpu_is_missing_and_said(data: ReportData) -> None:
    assert {name: value for name, value, *_ in usage.peaks(data)}["Energy"] is None
    assert any(alert.title == "No energy was measured" for alert in alerts(data))


def test_warnings_tell_of_downgrades_cuts_replacements_refusals_and_zeros(data: ReportData) -> None:
    titles = [alert.title for alert in alerts(data)]
    for title in (
        "The engine changed a setting",
        "needle: prompts were cut",
        "extract: characters were replaced",
        "extract, guided: requests were refused",
        "needle, free: requests failed",
        "A grammar was refused",
        "needle number is exactly 0 (free)",
        "The checkout had changes",
    ):
        assert title in titles
    assert titles.count("The engine changed a setting") == 1
    assert alerts(data)[0].level == "bad"


@pytest.mark.parametrize(
    ("requested", "resolved", "same"),
    [
        ("auto", "none", True),
        (None, 7, True),
        ("FULL", "full", True),
        ("http://host:8000", "http://host:8000/v1", True),
        ("http://host:8000", "http://host:8001/v1", False),
        ([], None, True),
        (True, False, False),
        (0, 512, False),
    ],
)
def test_auto_asks_for_nothing(requested: Any, resolved: Any, same: bool) -> None:
    assert engine.same(requested, resolved) is same


def test_what_a_start_did_not_time_is_shown_as_such() -> None:
    phases = dict(engine.start_phases({"start_s": 10.0, "import_s": 6.0, "load_s": 1.5, "compile_s": None}))
    assert phases == {"imports": 6.0, "weights": 1.5, "not timed apart": 2.5}
    assert engine.start_phases({"start_s": None}) == []


def test_arms_with_the_same_prompts_share_a_profile(data: ReportData) -> None:
    assert [(row["dataset"], row["arms"]) for row in profile_table(data)] == [
        (name, ["free", "guided"]) for name in report_rows.DATASETS
    ]


def test_times_are_no_quality(data: ReportData) -> None:
    assert not any(row["name"].startswith("timing.") for row in quality_rows(data))
    assert {row["dataset"] for row in quality_rows(data)} == set(report_rows.DATASETS)


def test_every_request_that_is_not_ok_has_a_reason(data: ReportData) -> None:
    rows = samples.failures(data)
    assert len(rows) == sum(row["status"] != "ok" for row in data.requests)
    assert rows[0]["why"] == "the engine ended while it answered (restarted once)"
    assert not any(row["why"] == "no reason was recorded" for row in rows)
    assert {row["why"] for row in rows if row["status"] == "truncated"} == {"cut at max_tokens after 100 tokens"}


def test_a_run_that_goes_on_is_timed_up_to_its_last_answer() -> None:
    tables = report_rows.tables(sizes={"extract": 2})
    tables["runs"][0].update(ended_at=None, status="running")
    tables["telemetry"] = []
    length, ended = header.duration(run_of(tables))
    last = max(row["sent_at"] + timedelta(milliseconds=row["e2e_ms"]) for row in tables["requests"])
    assert (length, ended) == ((last - report_rows.START).total_seconds(), False)
