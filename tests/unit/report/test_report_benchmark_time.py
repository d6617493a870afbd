"""What the report shows of one measured cell over its time, and of what is traded for what."""

import json
from dataclasses import replace
from typing import Any

import benchmark_rows
import pytest
import report_rows

from tasks.report import usage
from tasks.report.benchmark import points, value
from tasks.report.benchmark_time import (
    Gap,
    Step,
    all_gaps,
    answers_left_out,
    first_tokens,
    powers,
    shown_cell,
    stalls,
    steps_of,
    stretched,
    thinned,
    why,
)
from tasks.report.benchmark_trade import Dot, best, loads_plane, quality_plane
from tasks.report.build import render
from tasks.report.data import ReportData, from_tables
from tasks.report.figures import load_latency, load_pareto, load_timeline


def test_the_highest_load_is_shown_and_its_stall_has_its_cause(data: ReportData) -> None:
    shown = shown_cell(data)
    assert shown is not None
    assert (shown.point.name, shown.cell["repeat"]) == ("closed-64", 0)
    assert len(first_tokens(data, shown)) == 39 + 2
    assert len(all_gaps(data, shown)) == 23 * 41
    (stall,) = stalls(data)
    assert stall.ms == pytest.approx(844, abs=1)
    assert stall.begin < 1.5 < stall.end
    assert (
        stall.why
        == "2 requests were preempted, the KV cache 98\u00a0% full; a step of 800 ms that read 3,000 prompt tokens"
    )
    assert "that read 3,000 prompt tokens" in render(data)
    (power,) = powers(data, shown)
    assert power[0] == "GPU-1"
    assert len(power[1]) > 20


def test_an_offline_load_is_shown_only_where_there_is_no_other(tables: dict[str, list[dict[str, Any]]]) -> None:
    cells = [row | {"kind": "offline"} if "closed-64" in str(row.get("point_id")) else row for row in tables["cells"]]
    shown = shown_cell(from_tables(tables=tables | {"cells": cells}, run_id=report_rows.RUN_ID))
    assert shown is not None
    assert shown.point.name == "closed-16"


def _step(end: float, ms: float | None, **told: float) -> Step:
    told = dict.fromkeys(Step._fields[3:]) | told  # type: ignore[assignment]
    return Step(begin=end - (ms or 0.0) / 1000, end=end, step_ms=ms, **told)


@pytest.mark.parametrize(
    ("steps_", "words"),
    [
        ([], "the engine tells nothing of its steps"),
        ([_step(9.0, 20.0)], "the engine made no step"),
        ([_step(9.0, 20.0, stands_for=10)], "of its steps then none was kept: 1 of 10 is"),
        ([_step(1.0, 450.0, prompt_tokens=2048)], "a step of 450 ms that read 2,048 prompt tokens"),
        ([_step(1.0, 450.0, prompt_tokens=0, running=7)], "a step of 450 ms without prompts, 7 requests in it"),
        (
            [_step(0.6 + 0.1 * n, 90.0, waiting=3, prompt_tokens=10, kv_usage=0.99) for n in range(4)],
            "4 steps, none longer than 90.0 ms, reading 40 prompt tokens; 3 requests waited; the KV cache was full",
        ),
        ([_step(0.8, 20.0, preempted=1)], "1 request was preempted"),
    ],
)  # fmt: skip
def test_a_stalls_cause_is_what_the_engine_did_then(steps_: list[Step], words: str) -> None:
    assert why(steps_, begin=0.5, end=1.0) == words


def test_thinning_keeps_what_matters(data: ReportData) -> None:
    gaps = [Gap(index / 10, 900.0 if index == 777 else 10.0 + index % 3) for index in range(5000)]
    kept = thinned(gaps, most=100)
    assert len(kept) <= 101
    assert gaps[777] in kept
    shown = shown_cell(data)
    assert shown is not None
    every = steps_of(data, shown)
    few = stretched(every, most=5)
    assert len(few) <= 5
    assert max(step.step_ms or 0 for step in few) == max(step.step_ms or 0 for step in every)
    assert sum(step.preempted or 0 for step in few) == sum(step.preempted or 0 for step in every) == 2


def test_many_readings_keep_their_extremes(data: ReportData) -> None:
    every = {name: found for name, _, found in usage.series(data, most=10**9)}
    few = {name: found for name, _, found in usage.series(data, most=100)}
    name = "GPU GPU-1: power"
    assert len(few[name]) <= 100 < len(every[name])
    assert {max(value for _, value in found[name]) for found in (every, few)} == {max(v for _, v in every[name])}
    assert [at for at, _ in few[name]] == sorted(at for at, _ in few[name])


def test_nothing_better_on_both_axes() -> None:
    dots = [Dot("free", name, x, y, "r") for name, x, y in (("a", 1, 1), ("b", 2, 3), ("c", 3, 2), ("d", 2, 3))]
    assert [dot.name for dot in best(dots, x_is="lower") if dot.is_best] == ["a", "b", "d"]
    assert [dot.name for dot in best(dots, x_is="higher") if dot.is_best] == ["b", "c", "d"]


def test_quality_stands_against_what_the_cheapest_point_costs(data: ReportData) -> None:
    plane = quality_plane(data)
    assert plane is not None
    assert plane.x == "EUR a million output tokens"
    assert {dot.arm: round(dot.y, 3) for dot in plane.own} == {"free": 0.28, "guided": 0.31}
    cheapest = min(value(each, "cost_per_million_output_tokens") or 9e9 for each in points(data))
    assert {dot.x for dot in plane.own} == {cheapest}
    loads = loads_plane(data)
    assert loads is not None
    assert len(loads.own) == 12


def test_earlier_runs_are_behind_this_one(data: ReportData) -> None:
    names = ("output_tokens_per_s", "e2e_ms.p50", "cost_per_million_output_tokens")
    rows = [
        {"run_id": "r1", "cell_id": "free-closed-4", "name": f"perf.{name}", "arm": "free", "value": 10.0 + index}
        for index, name in enumerate(names)
    ]
    scores = [
        {"run_id": "r1", "cell_id": None, "name": f"{name}.exact_match", "arm": "free", "value": 0.5}
        for name in ("extract", "arithmetic")
    ]
    made = replace(data, earlier_points=[*rows, *scores])
    loads, quality = loads_plane(made), quality_plane(made)
    assert loads is not None
    assert quality is not None
    assert loads.earlier == [Dot("free", "", 11.0, 10.0, "r1")]
    assert quality.earlier == [Dot("free", "", 12.0, 0.5, "r1")]
    assert "1 earlier runs behind" in load_pareto.describe(made)


def test_of_many_loads_both_ends_are_drawn(data: ReportData) -> None:
    names = load_latency.chosen(data)
    assert len(names) == 5
    assert names[0] == "closed-1"
    assert names[-1] == "closed-64"


def test_an_engine_that_tells_nothing_of_its_steps_leaves_those_panels_out(
    tables: dict[str, list[dict[str, Any]]],
) -> None:
    made = replace(
        benchmark_rows.data_of(tables | {"steps": [], "telemetry": []}),
        run=tables["runs"][0] | {"config": json.loads(tables["runs"][0]["config"])},
    )
    drawn = load_timeline.draw(made)
    assert drawn is not None
    assert len(drawn.axes) == 2
    assert {stall.why for stall in stalls(made)} == {"the engine tells nothing of its steps"}


def test_answers_whose_gaps_were_not_read_are_told(data: ReportData) -> None:
    shown = shown_cell(data)
    assert shown is not None
    assert answers_left_out(data, shown) == 0
    few = replace(data, gaps={name: gaps for name, gaps in data.gaps.items() if int(name.rpartition("-")[2]) < 33})
    assert answers_left_out(few, shown) == 10
    page = render(few)
    assert "The gaps of the last 10 answers are not looked at." in page


def test_steps_that_were_not_all_kept_are_told(tables: dict[str, list[dict[str, Any]]]) -> None:
    sparse = [row | {"stands_for": 10} for row in tables["steps"]]
    assert "1 of 10 was kept" in render(benchmark_rows.data_of(tables | {"steps": sparse}))
