"""The page's sections: one list, each by itself, none where a run has nothing for it."""

import json
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
import report_rows

from tasks.report import sections as registry
from tasks.report import timeline, usage
from tasks.report.arms import form_rows
from tasks.report.build import render
from tasks.report.data import ReportData, from_tables
from tasks.report.figures.free_vs_guided import table as effects_table
from tasks.report.figures.quality import table as figure_table
from tasks.report.links import links
from tasks.report.memory import memory_rows
from tasks.report.quality import quality_rows
from tasks.report.sections import Section, sections


def run_of(tables: dict[str, list[dict[str, Any]]]) -> ReportData:
    return from_tables(tables=tables, run_id=report_rows.RUN_ID)


@pytest.fixture(scope="module")
def data() -> ReportData:
    return run_of(report_rows.tables())


def test_a_run_with_nothing_has_only_what_is_always_there() -> None:
    bare = run_of({"runs": report_rows.tables(sizes={"extract": 1})["runs"]})
    assert [section.anchor for section in sections(bare)] == ["top", "warnings", "sql", "terms"]


def test_a_section_that_is_added_to_the_list_is_in_the_page_and_its_contents(
    data: ReportData, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gates(found: ReportData) -> Section | None:
        return Section(
            anchor="gates", title="Gates", template="_sql.html.j2", count=3,
            context={"queries": [("Is <it> worse?", f"SELECT {len(found.samples)};")]}, data={"gate-data": "QUJD"},
        )  # fmt: skip

    monkeypatch.setattr(registry, "SECTIONS", (*registry.SECTIONS[:2], gates))
    page = render(data, drawn={})
    assert '<li><a href="#gates">Gates <span class="pill">3</span></a></li>' in page
    assert '<section id="gates" aria-labelledby="h-gates">\n<h2 id="h-gates">Gates</h2>' in page
    assert "Is &lt;it&gt; worse?" in page
    assert '<script type="text/plain" id="gate-data">QUJD</script>' in page


def test_a_group_of_datasets_has_its_row_with_its_interval() -> None:
    tables = report_rows.tables()
    like = next(row for row in tables["metrics"] if row["name"] == "extract.exact_match" and row["arm"] == "free")
    details = {"datasets": ["extract", "choice"], "weight": "equal"}
    mean = {"scope": "group", "name": "both.exact_match", "value": 0.297, "lo": 0.213, "hi": 0.397, "n": 120}
    tables["metrics"] += [like | mean | {"details": json.dumps(details)}]
    lacking = {"datasets": ["extract", "needle"], "missing": ["needle"]}
    tables["metrics"] += [
        like | mean | {"name": "few.inspect.acc", "value": None, "lo": None, "hi": None, "details": json.dumps(lacking)}
    ]
    data = run_of(tables)
    *_, first, second = quality_rows(data)
    assert [(row["dataset"], row["metric"], row["members"]) for row in (first, second)] == [
        ("both", "exact_match", ["extract", "choice"]),
        ("few", "inspect.acc", ["extract", "needle"]),
    ]
    assert ("both", "exact match", "free", "0.297", "0.213", "0.397") in figure_table(data)[1]
    page = render(data, drawn={})
    quality = page.partition('<section id="quality"')[2].partition("</section>")[0]
    assert "Dataset or group" in quality
    row = next(each for each in quality.split("<tr") if "both" in each)
    for part in ('<span class="quiet" title="extract, choice">mean of 2 datasets</span>', "0.297", "0.213", ">120<"):
        assert part in row, part
    assert "scope IN ('dataset', 'group')" in page or "scope IN (&#39;dataset&#39;, &#39;group&#39;)" in page
    assert "Dataset or group" not in render(run_of(report_rows.tables()), drawn={})


def test_a_warning_leads_only_to_a_section_that_is_there() -> None:
    tables = {"runs": report_rows.tables(sizes={"extract": 1})["runs"]}
    tables["runs"][0].update(status="failed", error="it broke")
    page = render(run_of(tables))
    assert "it broke" in page
    assert 'href="#failures"' not in page


def test_accepted_grammars_are_one_row_and_a_refused_one_is_told_apart() -> None:
    tables = report_rows.tables(sizes={"extract": 3})
    refused = tables["grammars"][0]
    accepted = [
        {**refused, "grammar_id": f"a{n}", "status": "accepted", "message": None, "compile_s": n / 10}
        for n in range(40)
    ]
    tables["grammars"] += accepted
    for sample, grammar in zip(tables["samples"], ("a1", "a1", "g7"), strict=True):
        sample["grammar_id"] = grammar
    (section,) = [made for made in sections(run_of(tables)) if made.anchor == "grammars"]
    assert section.count == 41
    rows = section.context["grammars"]
    assert (rows[0]["status"], rows[0]["samples"], rows[0]["message"]) == (
        "refused", 1, "unsupported keyword: uniqueItems",
    )  # fmt: skip
    assert sum(row["grammars"] for row in rows[1:]) == 40
    assert max(row["slowest"] for row in rows[1:]) == 3.9


def test_what_the_lint_found_is_shown_faults_first() -> None:
    tables = report_rows.tables(sizes={"extract": 3})
    shape = {**tables["grammars"][0], "status": "accepted", "message": None, "compile_s": 0.01}
    note = {"path": "", "problem": "order: only in this order", "instance": '{"b":1}'}
    fault = {"path": "/required", "problem": "under-constrained: not <enforced>", "instance": '{"x":""}'}
    tables["grammars"] = [
        {**shape, "grammar_id": "a", "lint": [note]},
        {**shape, "grammar_id": "b", "lint": [fault]},
        {**shape, "grammar_id": "c", "lint": None},
        {**shape, "grammar_id": "d", "lint": [], "kind": "regex"},
    ]
    run = run_of(tables)
    (section,) = [made for made in sections(run) if made.anchor == "grammars"]
    context = section.context
    assert (context["linted"], context["schemas"], context["wrong"]) == (2, 3, 1)
    assert [(row["grammar_id"], row["fault"]) for row in context["findings"]] == [("b", True), ("a", False)]
    page = render(run)
    assert "the backend gets 1 silently wrong" in page and "not &lt;enforced&gt;" in page and "/required" in page


def test_the_links_follow_the_bases_and_without_one_say_what_shows_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    run = {
        "mlflow_run_id": "24189472eb6a452db55c080c29753a2b",
        "prefect_flow_run_id": "3a25eebe-72fa-4b55-a63c-dc6dfe08a920",
    }
    monkeypatch.setenv("ASSAY_MLFLOW_UI", "http://127.0.0.1:5000/")
    monkeypatch.delenv("ASSAY_PREFECT_UI", raising=False)
    mlflow, prefect = links(run)
    assert mlflow.url == "http://127.0.0.1:5000/#/runs/24189472eb6a452db55c080c29753a2b"
    assert prefect.url is None
    assert "assay up" in prefect.hint
    monkeypatch.setenv("ASSAY_PREFECT_UI", "http://127.0.0.1:4200")
    assert links(run)[1].url == "http://127.0.0.1:4200/runs/flow-run/3a25eebe-72fa-4b55-a63c-dc6dfe08a920"
    assert links({"mlflow_run_id": None}) == []


@pytest.mark.parametrize(
    "base", ["javascript:alert(1)", "file:///etc", "http://", "127.0.0.1:5000", "http://host:port"]
)
def test_a_base_that_is_no_http_address_makes_no_link(base: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_MLFLOW_UI", base)
    (link,) = links({"mlflow_run_id": "24189472eb6a452db55c080c29753a2b"})
    assert link.url is None
    assert "ASSAY_MLFLOW_UI" in link.hint


def test_an_id_that_is_no_id_makes_no_link(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_MLFLOW_UI", "http://127.0.0.1:5000")
    (link,) = links({"mlflow_run_id": "x' onclick='alert(1)"})
    assert link.url is None


def test_requests_in_flight_add_up(data: ReportData) -> None:
    everything = timeline.in_flight(data, most=10_000)
    assert everything[-1][1] == 0
    assert min(count for _, count in everything) >= 0
    thinned = timeline.in_flight(data, most=50)
    assert len(thinned) <= 51
    assert max(count for _, count in thinned) == max(count for _, count in everything)


def test_the_phases_follow_each_other_to_the_end_of_the_run(data: ReportData) -> None:
    late = {**data.run, "ended_at": report_rows.START + timedelta(hours=1)}
    spans = timeline.phases(replace(data, run=late))
    assert [name for name, _, _ in spans] == ["data, plan and engine start", "requests", "scores and records"]
    assert all(before[2] == after[1] for before, after in pairwise(spans))
    assert spans[-1][2] == 3_600


def test_what_was_not_read_is_said_in_words_and_never_a_zero() -> None:
    tables = report_rows.tables(sizes={"extract": 2})
    assert any("No GPU was read" in text for text in usage.unread(run_of(tables)))
    gpu = {
        **tables["telemetry"][0],
        "device": "GPU-1",
        "power_w": 310.0,
        "process_cpu": None,
        "process_rss_bytes": None,
    }
    tables["telemetry"].append(gpu)
    made = run_of(tables)
    said = usage.unread(made)
    assert not any("No GPU" in text for text in said)
    assert any("SM clock" in text for text in said)
    powers = [row for row in usage.readings(made) if row["name"] == "power"]
    assert [(row["device"], row["highest"], row["n"]) for row in powers] == [("GPU GPU-1", 310.0, 1)]
    tables["telemetry"] = []
    assert "missing, not 0" in usage.unread(run_of(tables))[0]


def test_an_interval_says_how_it_was_made(data: ReportData) -> None:
    tables = report_rows.tables(sizes={"extract": 2})
    tables["metrics"][0].update(method="cluster sandwich, t", details='{"clusters": 14}', stderr=0.05)
    page = render(run_of(tables), drawn={})
    assert 'title="method: cluster sandwich, t; standard error 0.0500; clusters: 14"' in page


def test_won_and_lost_lead_to_the_samples_behind_them(data: ReportData) -> None:
    page = render(data, drawn={})
    assert 'href="#samples?dataset=extract&amp;metric=exact_match&amp;changed=won"' in page
    assert 'href="#samples?dataset=needle&amp;arm=free&amp;status=error"' in page


def test_the_plan_says_what_would_change_each_option_and_what_memory_was_predicted(data: ReportData) -> None:
    page = render(data, drawn={})
    plan = page[page.index('<section id="plan"') :]
    plan = plan[: plan.index("</section>")]
    assert "Would change with: " in plan and "engine.max_model_len" in plan
    assert "Memory, predicted and found" in plan
    rows = {row["part"]: row for row in memory_rows(data)}
    assert (rows["weights"]["predicted"], rows["weights"]["found"], rows["weights"]["ratio"]) == (269_060_552,) * 2 + (
        1,
    )
    assert rows["keys and values"]["ratio"] == 1
    assert (rows["a step at its peak"]["found"], rows["a step at its peak"]["ratio"]) == (None, None)
    assert rows["CUDA graphs"]["predicted"] is None and "no graphs are recorded" in plan
    resident = [row["process_rss_bytes"] for row in data.telemetry if row.get("process_rss_bytes")]
    assert rows["together"]["found"] == max(resident)


def test_a_plan_without_a_prediction_has_no_table_of_memory() -> None:
    tables = report_rows.tables()
    for engine in tables["engines"]:
        engine["predicted"] = None
    for option in tables["plans"]:
        del option["would_change"]
    page = render(run_of(tables), drawn={})
    assert "Memory, predicted and found" not in page


def did(*, more: dict[str, Any], engine_id: str = "e1", **details: Any) -> dict[str, Any]:
    totals = {"engine_id": engine_id, "sampling": "1 of 10", "graphs": [], "prompt_steps": {}}
    row = {"run_id": report_rows.RUN_ID, "revision": 1, "scope": "engine", "arm": None, "cell_id": None, "value": 900.0}
    return row | {"name": "engine.steps", "details": json.dumps(totals | details)} | more


def engine_section(*metrics: dict[str, Any]) -> str:
    tables = report_rows.tables()
    tables["metrics"] += metrics
    page = render(run_of(tables), drawn={})
    return page[page.index('<section id="engine"') :].partition("</section>")[0]


def test_the_engine_says_what_its_steps_add_up_to() -> None:
    graphs = [
        {"mode": "full", "size": 8, "steps": 3, "tokens": 18, "padded_tokens": 6},
        {"mode": "none", "size": None, "steps": 1, "tokens": 900, "padded_tokens": 0},
    ]
    found = engine_section(
        did(more={}, graphs=graphs, prompt_steps={"1": 40, "5": 2}, drafted_by_position=[20, 0],
            accepted_by_position=[12, 0]),
        did(more={"name": "engine.kv_usage.max", "value": 0.62}),
        did(more={"name": "engine.spec.acceptance", "value": 0.6}),
        did(more={"name": "engine.padding_waste", "value": 0.9}, engine_id="another"),
    )  # fmt: skip
    assert "<dt>KV cache in use, most</dt><dd>62\u00a0%</dd>" in found
    assert "100 of the 900 steps: 1 of 10" in found, "a sampling is said"
    assert "<td>full graph</td>" in found
    assert "75\u00a0%" in found, "steps from it"
    assert "25\u00a0%" in found, "of its tokens are padding"
    assert '<td class="n">5</td><td class="n">2</td>' in found, "two prompts took five steps"
    assert "60\u00a0%" in found
    assert "nothing was drafted there" in found
    assert "Padding, of all" not in found, "that is of another engine"


def test_an_engine_without_graphs_says_so_in_words() -> None:
    found = engine_section(did(more={}))
    assert "CUDA graphs: none." in found
    assert "is not known" in found, "into how many steps prompts were split"
    assert "What it did" not in engine_section(), "nothing was told, so nothing is said"


def test_an_engine_that_stood_already_has_no_start() -> None:
    tables = report_rows.tables(sizes={"extract": 4})
    timed = dict.fromkeys(("start_s", "import_s", "device_s", "load_s", "compile_s", "capture_s", "warmup_s", "cold"))
    tables["engines"] = [
        {**row, **{name: None for name in timed if name in row}, "resolved": {}, "built_by": "20261128T153520-19db44"}
        for row in tables["engines"]
    ]
    page = render(run_of(tables), drawn={})
    assert "It stood already: run <code>20261128T153520-19db44</code> built it." in page
    assert "no phase was timed" not in page
    assert "It stood already" not in render(run_of(report_rows.tables(sizes={"extract": 4})), drawn={})


def test_arms_of_names_of_their_own_are_listed_and_compared_by_them() -> None:
    tables = report_rows.tables()
    renamed = {"free": "free", "guided": "tuned"}
    for table in ("profiles", "requests", "scores", "metrics", "cells"):
        for row in tables.get(table, []):
            row["arm"] = renamed.get(row.get("arm"), row.get("arm"))
    for row in tables["comparisons"]:
        row["candidate_arm"] = "tuned"
    again = [{**row, "candidate_arm": "other", "baseline_arm": "tuned"} for row in tables["comparisons"]]
    config = {"arms": ["free", {"name": "tuned", "like": "free", "adapter": "legal"}]}
    tables["runs"][0]["config"] = json.dumps(config)
    one, two = run_of(tables), run_of(tables | {"comparisons": [*tables["comparisons"], *again]})
    assert one.pair == ("free", "tuned") and one.arms == ["free", "tuned"]
    assert all(row["kind"] == "free" for row in form_rows(one))
    for data, words in ((one, "tuned less free."), (two, "tuned less free, other less tuned.")):
        page = render(data, drawn={})
        assert '<h2 id="h-arms">Arms compared</h2>' in page and "Free against guided" not in page
        assert words in page and "Changed from free to tuned" in page
    assert {row[2] for row in effects_table(two)[1]} == {"tuned − free", "other − tuned"}
