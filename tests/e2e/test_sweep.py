"""Sweeps and an ablation on the real engine, from the command line: who shares an engine, what is recorded, what
becomes of a cell that fails or takes too long."""

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.command import Done, assay, rows
from tests.stores import used_before

BASE = """\
name: small
model: smollm2-135m-instruct
engine: {extends: vllm, core: inprocess, max_num_seqs: 4}
datasets: [{use: arithmetic, limit: 3, max_tokens: 16}]
arms: [free]
sampling: {temperature: 0}
gates: [{metric: arithmetic.exact_match, arm: free, rule: at_least, value: 0.99, on_undecided: fail}]
"""
ANSWERS = """SELECT c.name, c.repeat, q.sample_id, q.output, q.output_token_ids, q.prefill_steps, q.reused
FROM sweep_cells AS c INNER JOIN requests AS q ON q.run_id = c.cell_run_id
ORDER BY c.cell_index, c.repeat, q.sample_id"""
EXACT = ("--set", "model.dtype=float32")


def project(folder: Path, model_dir: Path, **sweeps: str) -> Path:
    """A home with the model, and these sweeps beside their experiment. Gives the home."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "small.yaml").write_text(BASE)
    for name, text in sweeps.items():
        (folder / f"{name}.yaml").write_text(f"base: ./small.yaml\n{text}")
    used_before(folder / "home", model_dir)
    return folder / "home"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, model_dir: Path) -> Path:
    """Of a sweep of three cells: two share an engine, as only the prefill threshold differs; one cannot be planned."""
    return project(
        tmp_path_factory.mktemp("sweep"),
        model_dir,
        thresholds="""\
matrix: {engine.prefill: [{policy: "off"}, {policy: fixed, threshold: 64}]}
include: [{engine.max_model_len: 16}]
tags: {team: "7: blue"}
""",
    )


@pytest.fixture(scope="module")
def done(home: Path) -> Done:
    return assay("sweep", str(home.parent / "thresholds.yaml"), *EXACT, "--json", home=home)


@pytest.fixture(scope="module")
def sweep_id(done: Done) -> str:
    assert done.code == 1, done.stderr
    return str(done.json["run_id"])


@pytest.fixture(scope="module")
def cells(home: Path, sweep_id: str) -> list[dict[str, Any]]:
    return rows(home, "FROM sweep_cells ORDER BY order_index")


def test_a_cell_that_fails_is_recorded_and_the_others_go_on(done: Done, cells: list[dict[str, Any]]) -> None:
    assert [cell["state"] for cell in cells] == ["finished", "finished", "failed"]
    assert [cell["cell_index"] for cell in cells] == [cell["order_index"] for cell in cells] == [0, 1, 2]
    assert cells[2]["name"] == "max_model_len=16" and "max_tokens" in cells[2]["error"]
    assert cells[2]["engine_group"] is None and cells[2]["built"] is None
    assert json.loads(cells[1]["settings"]) == {"engine.prefill": {"policy": "fixed", "threshold": 64}}
    assert {cell["role"] for cell in cells} == {"cell"}
    assert all(cell["error"] is None and cell["seconds"] > 0 for cell in cells[:2])
    told = done.json
    assert (told["status"], told["exit_code"], told["name"]) == ("finished", 1, "thresholds")
    assert [each["state"] for each in told["cells"]] == ["finished", "finished", "failed"]
    assert "1 of 3 runs did not finish: max_model_len=16 (failed)" in done.stderr
    assert done.stdout.count("\n") == 1


def test_the_engine_is_built_once_for_its_group(home: Path, cells: list[dict[str, Any]], done: Done) -> None:
    first, second, _ = cells
    assert first["engine_group"] == second["engine_group"] is not None
    assert (first["built"], second["built"]) == (True, False)
    engines = rows(home, "SELECT run_id, built_by, start_s, cold, engine_id, long_prefill_token_threshold FROM engines")
    by_run = {row["run_id"]: row for row in engines}
    built, reused = by_run[first["cell_run_id"]], by_run[second["cell_run_id"]]
    assert built["built_by"] is None and built["start_s"] > 1
    assert reused["built_by"] == first["cell_run_id"] and reused["start_s"] is None
    assert (built["long_prefill_token_threshold"], reused["long_prefill_token_threshold"]) == (0, 64)
    assert "it stood already" in done.stderr


def test_the_engine_that_was_taken_over_does_as_this_cell_says_and_answers_alike(
    home: Path, cells: list[dict[str, Any]]
) -> None:
    answers = rows(home, ANSWERS)
    whole, split = answers[:3], answers[3:]
    assert [(row["sample_id"], row["output"]) for row in whole] == [(row["sample_id"], row["output"]) for row in split]
    assert [row["output_token_ids"] for row in whole] == [row["output_token_ids"] for row in split]
    assert {row["prefill_steps"] for row in whole} == {1}
    assert max(row["prefill_steps"] for row in split) >= 3  # of some 250 tokens, 64 a step
    assert not any(row["reused"] for row in answers)


def test_each_cell_is_a_run_of_its_own_below_the_sweep(
    home: Path, sweep_id: str, cells: list[dict[str, Any]], done: Done
) -> None:
    runs = rows(home, "SELECT run_id, flow, parent_run_id, status, tags, error FROM runs ORDER BY started_at")
    assert (runs[0]["run_id"], runs[0]["flow"], runs[0]["status"]) == (sweep_id, "sweep", "finished")
    assert runs[0]["parent_run_id"] is None
    assert [run["run_id"] for run in runs[1:]] == [cell["cell_run_id"] for cell in cells]
    assert {run["parent_run_id"] for run in runs[1:]} == {sweep_id}
    assert [run["status"] for run in runs[1:]] == ["finished", "finished", "failed"]
    for run in runs[1:]:
        tags = run["tags"] if isinstance(run["tags"], dict) else json.loads(run["tags"])
        assert tags == {"sweep": sweep_id, "team": "7: blue"}
    assert rows(home, "FROM gates") == []  # a cell is measured, not judged
    with sqlite3.connect(home / "mlflow.db") as store:
        tagged = store.execute("SELECT count(*) FROM tags WHERE key = 'sweep' AND value = ?", (sweep_id,)).fetchone()
    assert tagged[0] >= 2
    with sqlite3.connect(home / "prefect" / "prefect.db") as store:
        found = store.execute("SELECT f.name, r.state_type FROM flow_run r JOIN flow f ON f.id = r.flow_id").fetchall()
    assert sorted(found) == [("experiment", "COMPLETED")] * 2 + [("experiment", "FAILED"), ("sweep", "FAILED")]


def test_mlflow_has_the_cells_below_one_run(home: Path, sweep_id: str, cells: list[dict[str, Any]]) -> None:
    by_run: dict[str, dict[str, Any]] = {}
    with sqlite3.connect(home / "mlflow.db") as store:
        for run, name, status, experiment in store.execute("SELECT run_uuid, name, status, experiment_id FROM runs"):
            tags = dict(store.execute("SELECT key, value FROM tags WHERE run_uuid = ?", (run,)))
            if "assay.cell" not in tags:
                params = dict(store.execute("SELECT key, value FROM params WHERE run_uuid = ?", (run,)))
                metrics = dict(store.execute("SELECT key, value FROM metrics WHERE run_uuid = ?", (run,)))
                known = {"id": run, "name": name, "status": status, "experiment": experiment}
                by_run[tags["assay.run_id"]] = known | {"tags": tags, "params": params, "metrics": metrics}
        [stored] = store.execute("SELECT name FROM experiments WHERE name <> 'Default'").fetchall()
    assert stored == ("small",)  # one page has the sweep and its cells
    above = by_run.pop(sweep_id)
    assert (above["name"], above["status"]) == (f"thresholds {sweep_id}", "FINISHED")
    assert above["tags"]["assay.kind"] == "sweep" and "mlflow.parentRunId" not in above["tags"]
    assert above["tags"]["team"] == "7: blue" and cells[0]["cell_run_id"] in above["tags"]["mlflow.note.content"]
    assert json.loads(above["params"]["matrix.engine.prefill"]) == [
        {"policy": "off"}, {"policy": "fixed", "threshold": 64}
    ]  # fmt: skip
    assert above["metrics"] == {"runs": 3, "runs.finished": 2, "runs.failed": 1, "runs.engines_built": 1}
    assert set(by_run) == {cell["cell_run_id"] for cell in cells}
    assert all(by_run[cell["cell_run_id"]]["name"] == f"{cell['name']} {cell['cell_run_id']}" for cell in cells)
    assert {run["tags"]["mlflow.parentRunId"] for run in by_run.values()} == {above["id"]}
    assert {run["tags"]["assay.parent_run_id"] for run in by_run.values()} == {sweep_id}
    [row] = rows(home, f"SELECT mlflow_run_id FROM runs WHERE run_id = '{sweep_id}'")
    assert row["mlflow_run_id"] == above["id"]
    files = {path.name: path for path in (home / "mlartifacts").rglob(f"{above['id']}/artifacts/*")}
    assert {"report.html", "cells.csv"} <= set(files)
    assert files["cells.csv"].read_text("utf-8").startswith("cell,")


def test_the_pages_say_who_built_the_engine(home: Path, sweep_id: str, cells: list[dict[str, Any]]) -> None:
    first, second, _ = (home / "runs" / cell["cell_run_id"] / "report.html" for cell in cells)
    page = second.read_text("utf-8")
    assert f"It stood already: run <code>{cells[0]['cell_run_id']}</code> built it" in page
    assert "It stood already" not in first.read_text("utf-8")
    whole = (home / "runs" / sweep_id / "report.html").read_text("utf-8")
    assert "max_model_len=16" in whole and "reused" in whole
    again = assay("report", sweep_id, home=home)
    assert again.code == 0 and again.stdout.strip().endswith(f"{sweep_id}/report.html")
    assert (home / "runs" / sweep_id / "report.html").read_text("utf-8") == whole


def test_a_sweep_is_gone_on_with_by_its_own_command(home: Path, sweep_id: str) -> None:
    refused = assay("run", "--resume", sweep_id, home=home)
    assert refused.code == 2 and f"assay sweep --resume {sweep_id}" in refused.stderr
    both = assay("sweep", "thresholds", "--resume", "last", home=home)
    assert both.code == 2 and "keeps its file" in both.stderr


def test_the_plan_is_printed_without_a_run(home: Path, sweep_id: str) -> None:
    before = rows(home, "SELECT count(*) AS n FROM runs")
    shown = assay(
        "sweep", str(home.parent / "thresholds.yaml"), *EXACT, "--repeats", "2", "--plan", "--json", home=home
    )
    assert shown.code == 0, shown.stderr
    runs = shown.json["runs"]
    assert [(run["cell"].split("=")[0], run["repeat"]) for run in runs] == [
        *[("prefill", "1"), ("prefill", "1"), ("prefill", "2"), ("prefill", "2")],
        *[("max_model_len", "1"), ("max_model_len", "2")],
    ]
    assert len({run["engine"] for run in runs}) == 2
    assert rows(home, "SELECT count(*) AS n FROM runs") == before


@pytest.mark.slow
def test_two_groups_in_repeats_and_fresh_engines_answer_as_reused_ones(tmp_path: Path, model_dir: Path) -> None:
    home = project(
        tmp_path,
        model_dir,
        batches='matrix: {engine.max_num_seqs: [2, 4], engine.prefill.policy: ["off", rule]}\nrepeats: 2\n',
    )
    done = assay("sweep", str(tmp_path / "batches.yaml"), *EXACT, home=home)
    assert done.code == 0, done.stderr
    found = rows(home, "SELECT cell_index, repeat, built, engine_group FROM sweep_cells ORDER BY order_index")
    assert [(row["cell_index"], row["repeat"]) for row in found] == [
        *[(0, 0), (1, 0), (1, 1), (0, 1)],
        *[(2, 0), (3, 0), (3, 1), (2, 1)],
    ]
    assert [row["built"] for row in found] == [True, False, False, False] * 2
    assert len({row["engine_group"] for row in found}) == 2
    answers: dict[str, set[str]] = {}
    for row in rows(home, ANSWERS):
        answers.setdefault(row["sample_id"], set()).add(json.dumps([row["output"], row["output_token_ids"]]))
    assert len(answers) == 3 and all(len(each) == 1 for each in answers.values())
    assert "reused" in done.stdout and "max_num_seqs=2, prefill.policy=off" in done.stdout


@pytest.mark.slow
def test_a_cell_over_its_time_is_ended_and_the_next_one_goes_on(tmp_path: Path, model_dir: Path) -> None:
    """The first cell cannot answer in the time that it has; the second asks for little, and takes over its engine."""
    home = project(
        tmp_path,
        model_dir,
        times="""\
include:
  - {datasets: [{use: arithmetic, max_tokens: 200}], engine.max_model_len: 512, engine.memory.kv_cache_bytes: 134217728}
  - {datasets: [{use: arithmetic, limit: 1, max_tokens: 2}], engine.max_model_len: 512,
     engine.memory.kv_cache_bytes: 134217728}
cell_time_limit_s: 40
""",
    )
    done = assay("sweep", str(tmp_path / "times.yaml"), *EXACT, "--json", home=home)
    assert done.code == 1, done.stderr
    found = rows(home, "SELECT state, error, built, engine_group, cell_run_id FROM sweep_cells ORDER BY order_index")
    assert [row["state"] for row in found] == ["timeout", "finished"], found
    assert "the time limit was reached" in found[0]["error"]
    assert found[0]["engine_group"] == found[1]["engine_group"] is not None
    assert [row["built"] for row in found] == [True, False]
    statuses = rows(
        home, f"SELECT status, count(*) AS n FROM runs WHERE run_id = '{found[0]['cell_run_id']}' GROUP BY 1"
    )
    assert statuses == [{"status": "cancelled", "n": 1}]


@pytest.mark.slow
def test_an_engine_that_does_not_start_in_time_costs_its_cell(tmp_path: Path, model_dir: Path) -> None:
    home = project(tmp_path, model_dir, hurried="matrix: {engine.max_num_seqs: [2]}\ncell_time_limit_s: 0.5\n")
    done = assay("sweep", str(tmp_path / "hurried.yaml"), *EXACT, "--json", home=home)
    assert done.code == 1, done.stderr
    [cell] = rows(home, "SELECT state, error, built FROM sweep_cells")
    assert cell["state"] == "timeout" and "before the engine was ready" in cell["error"]


@pytest.mark.slow
def test_an_ablation_over_two_rounds(tmp_path: Path, model_dir: Path) -> None:
    home = project(tmp_path, model_dir)
    done = assay(
        *("ablate", str(tmp_path / "small.yaml"), "--over", "engine.max_num_seqs=1,engine.prefix_caching"),
        *("--rounds", "2", "--json"),
        *EXACT,
        home=home,
    )
    assert done.code == 0, done.stderr
    told = done.json
    assert [(each["cell"]["role"], each["cell"]["name"], each["repeat"]) for each in told["cells"]] == [
        ("control", "as configured", 0),
        ("candidate", "max_num_seqs=1", 0),
        ("candidate", "prefix_caching=false", 0),
        ("candidate", "prefix_caching=false", 1),
        ("candidate", "max_num_seqs=1", 1),
        ("control", "as configured", 1),
    ]
    assert all(each["state"] == "finished" and each["built"] for each in told["cells"])  # starting is measured too
    assert [each["name"] for each in told["settings"]] == ["max_num_seqs=1", "prefix_caching=false"]
    for each in told["settings"]:
        effects = {effect["figure"]: effect for effect in each["effects"]}
        assert {"throughput.output_tokens_per_s", "start_s", "memory.peak_bytes"} <= set(effects)
        assert all(effect["rounds"] == 2 for effect in effects.values())
        assert effects["start_s"]["lo"] < effects["start_s"]["ratio"] < effects["start_s"]["hi"]
        assert each["changed"]["samples"] == 6 and each["failed"] == []
    one_at_a_time = {effect["figure"]: effect for effect in told["settings"][0]["effects"]}
    assert one_at_a_time["throughput.output_tokens_per_s"]["ratio"] < 1
    assert told["settings"][0]["changed"]["changed"] == 0  # float32
    roles = rows(home, "SELECT role, count(*) AS n FROM sweep_cells GROUP BY role ORDER BY role")
    assert roles == [{"role": "candidate", "n": 4}, {"role": "control", "n": 2}]
    [row] = rows(home, "SELECT flow, status FROM runs WHERE parent_run_id IS NULL")
    assert row == {"flow": "ablate", "status": "finished"}
    page = Path(told["report"]).read_text("utf-8")
    assert "max_num_seqs=1" in page and "prefix_caching=false" in page
