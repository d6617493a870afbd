"""What the report says of a measured load, and that nothing about answers counts a measured request."""

import json
import re
from datetime import timedelta
from html.parser import HTMLParser
from typing import Any

import benchmark_rows
import pytest
import report_rows
from report_rows import HOSTILE

from tasks.compare.points import Measured
from tasks.report import alerts, header, steps, timeline, usage
from tasks.report.benchmark import (
    bucket_words,
    counts,
    figure,
    figure_words,
    knees,
    load_words,
    parts,
    points,
    remarks,
)
from tasks.report.benchmark_rows import (
    OF_CLIENTS,
    TOO_WIDE,
    Cell,
    arm_grid,
    arm_rows,
    as_cell,
    cell_rows,
    latency_rows,
    part_rows,
)
from tasks.report.benchmark_settings import length_words, settings
from tasks.report.build import render
from tasks.report.data import ReportData, from_tables
from tasks.report.figures import load_throughput
from tasks.report.payload import pack
from tasks.report.sections import sections


@pytest.fixture(scope="module")
def page(data: ReportData) -> str:
    return render(data)


@pytest.fixture(scope="module")
def answers_only() -> ReportData:
    """The same run without its load."""
    made = report_rows.tables(sizes={"extract": 12, "arithmetic": 12})
    return from_tables(tables=made, run_id=report_rows.RUN_ID)


def point(data: ReportData, point_id: str) -> Measured:
    return next(each for each in points(data) if each.point_id == point_id)


def section_of(page: str, anchor: str) -> str:
    return page.partition(f'<section id="{anchor}"')[2].partition("</section>")[0]


@pytest.mark.parametrize("anchor", ["quality", "arms", "grammars", "failures", "latency", "slowest"])
def test_a_measured_load_changes_nothing_of_what_is_said_of_answers(
    page: str, answers_only: ReportData, anchor: str
) -> None:
    without = section_of(render(answers_only), anchor)
    assert without
    assert section_of(page, anchor) == without


def test_measured_requests_and_steps_are_in_no_count_of_the_answers(data: ReportData, answers_only: ReportData) -> None:
    assert {row["phase"] for row in data.measured} == {"warmup", "measure", "cooldown"}
    assert data.requests == answers_only.requests
    assert header.tally(data) == header.tally(answers_only)
    assert timeline.in_flight(data) == timeline.in_flight(answers_only)
    assert usage.throughput(data) == usage.throughput(answers_only)
    assert usage.totals(data) == usage.totals(answers_only)
    assert steps.stretches(data) == steps.stretches(answers_only)
    assert pack(data).chunks == pack(answers_only).chunks
    assert header.measured_tally(data) == [("1,104", "ok", "ok"), ("16", "error", "error")]


def test_a_step_of_a_warm_up_is_the_loads_though_it_names_no_cell(tables: dict[str, list[dict[str, Any]]]) -> None:
    cell = next(row for row in tables["cells"] if row.get("point_id") == "free-closed-4")
    warm = tables["steps"][-1] | {
        "step": 99_999,
        "cell_id": None,
        "ts": cell["warmup_started_at"] + timedelta(seconds=0.2),
    }
    made = from_tables(tables=tables | {"steps": [*tables["steps"], warm]}, run_id=report_rows.RUN_ID)
    assert 99_999 in {row["step"] for row in made.measured_steps}
    assert 99_999 not in {row["step"] for row in made.steps}


def test_a_run_without_a_load_has_no_such_section(answers_only: ReportData) -> None:
    assert "load" not in {made.anchor for made in sections(answers_only)}


def test_a_run_of_load_alone_tells_it_at_the_top_and_keeps_its_time_line() -> None:
    alone = benchmark_rows.data_of(benchmark_rows.tables(alone=True))
    sentence, reasons = header.verdict(alone)
    assert sentence == "Load was measured, and nothing scored."
    assert reasons[0]["words"] == "closed 1, free: 58.6 tokens/s, ttft p50 51.2 ms"
    page = render(alone, drawn={})
    overview = page.partition('<header id="top"')[2].partition("</header>")[0]
    assert "arm-guided" in overview
    assert "only load was measured" in overview
    assert "1,104" in overview
    names = [name for name, _, _ in timeline.phases(alone)]
    assert names == ["data, plan and engine start", "measured load", "scores and records"]
    assert section_of(page, "timeline")


def test_a_points_number_is_the_median_over_its_repeats_with_its_interval(data: ReportData) -> None:
    own = point(data, "guided-closed-16")
    each = [
        row["value"]
        for row in data.metrics
        if row["name"] == "perf.ttft_ms.p50" and str(row["cell_id"]).startswith("e1-guided-closed-16-")
    ]
    assert len(each) == 2
    found = figure(own, "ttft_ms.p50")
    assert found is not None
    assert found.value == pytest.approx(sum(each) / 2)
    assert found.lo is not None
    assert found.hi is not None
    assert found.lo <= min(each)
    assert max(each) <= found.hi
    row = next(row for row in latency_rows(data) if (row["name"], row["arm"]) == ("closed-16", "guided"))
    assert (row["repeats"], row["disturbed"], row["measured"], row["failed"]) == (2, 1, 80, 0)
    assert row["why"] == "repeat 1: host_busy 2.1 of 4 cores"
    assert counts(data, point(data, "free-closed-64")) == {"answered": 78, "failed": 2}


def test_one_repeat_has_no_interval() -> None:
    made = benchmark_rows.tables()
    made["cells"] = [row for row in made["cells"] if row.get("repeat") != 1]
    for row in made["metrics"]:
        if '"repeats"' in row["details"]:
            row |= {"details": json.dumps({"repeats": [row["value"]]})}
    own = point(from_tables(tables=made, run_id=report_rows.RUN_ID), "free-closed-4")
    assert figure(own, "ttft_ms.p50") == (pytest.approx(65.26, abs=0.01), None, None, "ms")


@pytest.mark.parametrize(
    ("kind", "name", "load", "numbers", "words"),
    [
        ("closed", "closed-8", {"kind": "closed"}, {"concurrency": 8}, "closed 8"),
        ("open", "open-2.5", {"arrivals": "poisson"}, {"rate": 2.5}, "open 2.5/s Poisson"),
        ("open", "open-2-gamma0.5", {"arrivals": "gamma", "burstiness": 0.5}, {"rate": 2.0}, "open 2/s gamma 0.5"),
        ("open", "open-2-constant", {"arrivals": "constant"}, {"rate": 2.0}, "open 2/s even gaps"),
        ("open", "knee-0.5", {"arrivals": "poisson"}, {"rate": 9.45}, "50\u00a0% of the knee (9.45/s)"),
        ("ramp", "ramp-0-20", {"start": 0.0, "end": 20.0, "seconds": 60.0}, {}, "ramp 0 to 20/s in 60 s Poisson"),
        ("staged", "staged-1-5", {"stages": [{"rate": 1.0}, {"rate": 5.0}]}, {}, "stages 1, 5/s Poisson"),
        ("trace", "trace-day-x2", {"path": "/a/day.csv", "speed": 2.0}, {}, "trace day.csv at 2 ×"),
        ("offline", "offline", {"requests": 256}, {}, "offline"),
        ("latency", "latency", {"requests": 16}, {"concurrency": 1}, "one at a time"),
        ("later", "later-1", {}, {}, "later-1"),
    ],
)
def test_a_load_in_words(kind: str, name: str, load: dict[str, Any], numbers: dict[str, Any], words: str) -> None:
    own = Measured(point_id=f"free-{name}", arm="free", name=name, kind=kind, rows={}, load=load, **numbers)
    assert load_words(own) == words


def test_loads_stand_in_the_order_of_execution_with_their_arms_side_by_side(data: ReportData) -> None:
    assert [each.point_id for each in points(data)][:4] == [
        "free-closed-1", "guided-closed-1", "free-closed-4", "guided-closed-4",
    ]  # fmt: skip
    assert not [each for each in points(data) if "probe" in each.point_id or "saturate" in each.point_id]


def test_the_knee_is_told_with_both_ends_and_its_probes_put_together(data: ReportData) -> None:
    free, guided = knees(data)
    assert free["words"] == (
        "4.00 requests/s keep the SLO for 95\u00a0% of the requests; 8.00 do not. "
        "Decided: the intervals of both say so."
    )
    assert guided["words"].endswith("Not decided: longer probes, or more of them, would narrow it.")
    assert free["probes"] == [
        {"rate": 4.0, "met": 79, "asked": 80, "probes": 2, "kept": True},
        {"rate": 8.0, "met": 30, "asked": 40, "probes": 1, "kept": False},
    ]


def test_no_knee_is_told_as_none(tables: dict[str, list[dict[str, Any]]]) -> None:
    rows = [
        row | {"value": None} if row["name"] == "perf.knee_requests_per_s" else row for row in tables["metrics"]
    ]  # fmt: skip
    made = from_tables(tables=tables | {"metrics": rows}, run_id=report_rows.RUN_ID)
    assert knees(made)[0]["words"].startswith("No rate that was probed keeps the SLO for 95")
    assert load_throughput.draw(made) is not None


def test_what_must_be_known_first_is_said_out_loud(data: ReportData, page: str) -> None:
    said = {what: (level, words) for level, what, words in remarks(data)}
    assert said["closed 64, free: the client was the bottleneck"][0] == "bad"
    assert "7.50 ms" in said["closed 64, free: the client was the bottleneck"][1]
    assert said["closed 4, guided: prompts were cached"][1].startswith("25\u00a0% of the prompt tokens")
    assert said["closed 16, guided: 1 of 2 repeats disturbed"] == ("warn", "repeat 1: host_busy 2.1 of 4 cores")
    assert "closed 1, free: prompts were cached" not in said
    told = {alert.title: alert for alert in alerts.alerts(data)}
    assert told["Measured requests failed"].text.startswith("12 requests: closed 64, free: 2; closed 64, guided: 2")
    assert told["closed 4, guided: prompts were cached"].section == "load"
    assert "the client was the bottleneck" in section_of(page, "load")


def test_prompts_that_are_meant_to_begin_alike_may_be_cached(tables: dict[str, list[dict[str, Any]]]) -> None:
    cells = [row | {"prompts": "shared_prefix"} if row.get("point_id") else row for row in tables["cells"]]
    made = from_tables(tables=tables | {"cells": cells}, run_id=report_rows.RUN_ID)
    assert not [what for _, what, _ in remarks(made) if "cached" in what]


def test_a_warning_of_the_measuring_step_leads_to_the_load(tables: dict[str, list[dict[str, Any]]]) -> None:
    said = ["free-closed-64: the client itself sent late", "measured cells were disturbed: x", "something of the plan"]
    runs = [tables["runs"][0] | {"warnings": said}]
    found = {
        alert.text: alert.section
        for alert in alerts.alerts(from_tables(tables=tables | {"runs": runs}, run_id=report_rows.RUN_ID))
    }
    assert [found[text] for text in said] == ["load", "load", "plan"]


def test_an_abandoned_cell_is_told_and_in_no_number(tables: dict[str, list[dict[str, Any]]]) -> None:
    left = next(row for row in tables["cells"] if row.get("point_id") == "free-closed-1")
    gone = left | {"cell_id": "e1-gone", "kind": "abandoned", "point_id": None, "disturbed": ["the engine died"]}
    made = from_tables(tables=tables | {"cells": [*tables["cells"], gone]}, run_id=report_rows.RUN_ID)
    assert ("warn", "e1-gone: abandoned, in no number", "the engine died") in remarks(made)
    asked = [row | {"cell_id": "e1-gone", "request_id": f"gone-{n}"} for n, row in enumerate(tables["requests"][-40:])]
    again = benchmark_rows.data_of(
        tables | {"cells": [*tables["cells"], gone], "requests": [*tables["requests"], *asked]}
    )
    assert any(row["cell_id"] == "e1-gone" and row["phase"] == "measure" for row in again.measured)
    assert header.measured_tally(again) == header.measured_tally(made)
    assert len(cell_rows(made)) == len(made.load_cells) == 28


def test_arms_under_the_same_load_have_the_ratio_that_was_recorded(data: ReportData, page: str) -> None:
    figures, lines = arm_grid(data)
    assert figures[:3] == ["ttft p50", "ttft p99", "tpot p50"]
    assert [line["load"] for line in lines][:2] == ["closed 1", "closed 4"]
    tpot = lines[1]["cells"][2]
    recorded = next(
        row for row in data.comparisons if (row["cell_id"], row["metric"]) == ("guided-closed-4", "perf.tpot_ms.p50")
    )
    assert tpot["change"] == f"{100 * recorded['effect']:+.1f}\u00a0%"
    assert tpot["verdict"] == "worse"
    assert len(arm_rows(data)) == 42
    inside = section_of(page, "load")
    assert "guided against free: change of the median" in inside


@pytest.mark.parametrize(
    ("read", "cell"),
    [
        ((41.3, 40.1, 43.0, "ms"), Cell("41.3", "40.1–43.0")),
        ((41.3, None, None, "ms"), Cell("41.3", None)),
        ((0.9, 0.6, 1.3, "share"), Cell("90\u00a0%", "60\u00a0%–100\u00a0%")),
        ((5.0, 0.001, 9000.0, "ms"), Cell("5.00", TOO_WIDE)),
        ((1.0, 1.0, 1.0, "share"), Cell("100\u00a0%", None)),
    ],
)  # fmt: skip
def test_an_interval_stands_in_small_print_where_it_says_something(read: Any, cell: Cell) -> None:
    assert as_cell(figure(_with(read), "x")) == cell


def _with(read: tuple[Any, ...]) -> Measured:
    number, lo, hi, unit = read
    row = {"value": number, "lo": lo, "hi": hi, "unit": unit, "details": {"repeats": [1.0, 2.0]}}
    return Measured(point_id="free-x", arm="free", name="x", kind="closed", rows={"perf.x": row})


def test_the_block_in_words(data: ReportData) -> None:
    said = dict(settings(data))
    assert said["Prompts"] == "drawn ones, mixed: 75\u00a0% of 90 tokens, 25\u00a0% of 3,000 tokens"
    assert said["Answers"] == "exactly 24 tokens"
    assert said["SLO"] == "ttft at most 400 ms and tpot at most 60.0 ms"
    assert said["Warm-up and cool-down"].startswith("3 requests before each cell")
    assert "A B B A" in said["Repeats"]
    assert said["Prices"] == "EUR: an hour of one device 2.50"
    assert "Clients" not in said


@pytest.mark.parametrize(
    ("length", "words"),
    [
        ({"kind": "fixed", "mean": 512.0}, "512 tokens"),
        ({"kind": "uniform", "least": 10, "most": 90}, "10 to 90 tokens"),
        ({"kind": "normal", "mean": 512.0, "sd": 20.0, "most": 600}, "about 512 tokens (normal, sd 20, at most 600)"),
        (None, "an unknown number of tokens"),
    ],
)  # fmt: skip
def test_a_length_in_words(length: Any, words: str) -> None:
    assert length_words(length) == words


def test_buckets_stand_from_the_shortest_on(data: ReportData) -> None:
    found = parts(data)["bucket"]
    assert [part.name for part in found] == ["0-127"] * 12 + ["2048-4095"] * 12
    long = next(part for part in found if part.name == "2048-4095" and part.point.point_id == "free-closed-1")
    short = next(part for part in found if part.name == "0-127" and part.point.point_id == "free-closed-1")
    assert (long.figures["ttft_ms.p50"].value or 0) > 2 * (short.figures["ttft_ms.p50"].value or 0)
    assert [bucket_words(name) for name in ("0-127", "8192-", "math", "a-b")] == [
        "0 to 127", "8,192 and more", "math", "a-b",
    ]  # fmt: skip
    assert figure_words("goodput_requests_per_s") == "goodput requests/s"


def test_hostile_names_make_no_element_and_no_handler() -> None:
    tables = benchmark_rows.tables(hostile=True)
    for row in tables["cells"]:
        if row.get("disturbed"):
            row["disturbed"] = [*row["disturbed"], HOSTILE[6], HOSTILE[4]]
    page = render(benchmark_rows.data_of(tables))
    inside = section_of(page, "load")
    assert "&lt;/script&gt;&lt;img src=x" in inside
    tags, names = _outline(inside)
    assert not {"img", "script", "style"} & tags
    assert not [name for name in names if name.startswith("on") or name == "autofocus"]
    assert "\x1b" not in page


def _outline(html: str) -> tuple[set[str], set[str]]:
    """The tags, and the names of all attributes."""
    tags: set[str] = set()
    names: set[str] = set()

    class Outline(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            tags.add(tag)
            names.update(name for name, _ in attrs)

    Outline().feed(html)
    return tags, names


def test_every_table_of_the_section_has_heads_for_its_columns(page: str) -> None:
    for table in re.findall(r"<table.*?</table>", section_of(page, "load"), re.DOTALL):
        head, _, body = table.partition("</thead>")
        last = head.rpartition("<tr>")[2]
        columns = last.count("<th ") + head.count('rowspan="2"')
        widths = {row.count("<td") + row.count("<th ") for row in re.findall(r"<tr.*?</tr>", body, re.DOTALL)}
        assert widths == {columns}, head


def test_clients_have_a_table_of_their_own(data: ReportData) -> None:
    found = part_rows(data)["client"]
    assert [(row["name"], row["arm"]) for row in found] == [("loadgen-1/1", "free"), ("vm/1", "free")]
    far, near = (dict(zip(OF_CLIENTS, row["cells"], strict=True)) for row in found)
    assert far["clock_error_ms.p99"] is not None and far["clock_error_ms.p99"].text == "0.250"
    assert near["clock_error_ms.p99"] is None and near["ttft_ms.p50"] is not None
