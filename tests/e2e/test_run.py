"""The main job, from its file to its report, on the real parts. One run; every test looks at another side of it."""

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.command import Done, assay, rows

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def home(quickstart: tuple[Path, Done]) -> Path:
    return quickstart[0]


@pytest.fixture(scope="module")
def done(quickstart: tuple[Path, Done]) -> Done:
    return quickstart[1]


@pytest.fixture(scope="module")
def run_id(done: Done) -> str:
    assert done.code == 0, done.stderr
    return str(done.json["run_id"])


def test_it_ends_well_and_says_where_everything_is(done: Done, run_id: str) -> None:
    result = done.json
    assert result["status"] == "finished" and result["exit_code"] == 0
    assert result["requests"] == 2 * 2 * 4 + 2 * 4  # four datasets in two arms, and four choices each of `choice`
    assert Path(result["report"]).stat().st_size > 50_000
    steps = ("load datasets", "plan", "build engine", "grammars", "generate")
    for line in (*steps, "arithmetic.exact_match", "guided − free"):
        assert line in done.stderr
    assert done.stdout.count("\n") == 1


def test_the_flow_process_stays_small(done: Done, run_id: str) -> None:
    assert 100e6 < done.json["flow_rss_peak_bytes"] <= 600e6


def test_every_table_has_its_rows(home: Path, run_id: str) -> None:
    counts = {
        table: rows(home, f"SELECT count(*) AS n FROM {table}")[0]["n"]
        for table in ("runs", "datasets", "profiles", "plans", "engines", "grammars", "cells", "samples", "requests")
    }
    assert counts["runs"] == 1
    assert counts["datasets"] == 4
    assert counts["profiles"] == 8
    assert counts["plans"] >= 14
    assert counts["engines"] == 1
    assert counts["cells"] == 2
    assert counts["samples"] == 8
    assert counts["requests"] == 24
    for table in ("scores", "metrics", "comparisons", "telemetry"):
        assert rows(home, f"SELECT count(*) AS n FROM {table}")[0]["n"] > 0


def test_the_answers_are_validated_scored_and_timed(home: Path, run_id: str) -> None:
    guided = rows(home, "SELECT status, valid, validator FROM requests WHERE arm = 'guided' AND dataset = 'extract'")
    assert all(row["status"] in ("ok", "truncated") for row in guided)
    assert all(row["valid"] and "jsonschema" in row["validator"] for row in guided if row["status"] == "ok")
    timed = rows(
        home,
        "SELECT ttft_ms, tpot_ms, e2e_ms, queued_ms, prefill_ms, decode_ms, output_tokens, len(gaps_ms) AS gaps, "
        "list_sum(gap_tokens) AS later FROM requests WHERE kind = 'generate' AND status <> 'refused'",
    )
    for row in timed:
        assert 0 < row["ttft_ms"] <= row["e2e_ms"]
        assert row["queued_ms"] >= 0 and row["prefill_ms"] > 0
        if row["output_tokens"] > 1:
            assert row["later"] == row["output_tokens"] - 1 and row["gaps"] == row["output_tokens"] - 1
            assert row["tpot_ms"] == pytest.approx((row["e2e_ms"] - row["ttft_ms"]) / row["later"], rel=1e-6)
        else:
            assert row["tpot_ms"] is None
    scored = rows(home, "SELECT DISTINCT dataset, metric FROM scores ORDER BY ALL")
    assert {(row["dataset"], row["metric"]) for row in scored} >= {
        ("arithmetic", "exact_match"),
        ("choice", "acc"),
        ("choice", "acc_norm"),
        ("extract", "json_fields"),
        ("extract", "json_valid"),
    }


def test_the_engine_is_read_back_and_its_start_is_told_in_parts(home: Path, run_id: str) -> None:
    engine = rows(home, "SELECT * FROM engines")[0]
    assert engine["engine_version"] and engine["torch_version"]
    assert engine["cudagraph_mode"] == "none" and engine["downgrades"] == []
    assert engine["max_model_len"] % 16 == 0
    parts = [engine["import_s"], engine["load_s"], engine["warmup_s"]]
    assert all(part > 0 for part in parts) and sum(parts) < engine["start_s"]
    assert json.loads(engine["resolved"])["attention_backend"]
    assert engine["compile_s"] is None and engine["capture_s"] is None  # nothing is compiled or captured on a CPU


def test_energy_is_null_where_no_gpu_is(home: Path, run_id: str, done: Done) -> None:
    if rows(home, "SELECT count(*) AS n FROM telemetry WHERE device <> 'cpu'")[0]["n"]:
        pytest.skip("this machine has a GPU")
    assert rows(home, "SELECT count(power_w) + count(energy_j) AS n FROM telemetry")[0]["n"] == 0
    assert done.stderr.count("no GPU power or energy was measured") == 1
    assert rows(home, "SELECT max(process_rss_bytes) AS n FROM telemetry")[0]["n"] > 500e6


def test_mlflow_has_what_people_compare(home: Path, run_id: str, done: Done) -> None:
    store = sqlite3.connect(home / "mlflow.db")
    mlflow_run = done.json["mlflow_run_id"]

    def column(query: str) -> list[Any]:
        return [row[0] for row in store.execute(query, (mlflow_run,))]

    assert column("SELECT status FROM runs WHERE run_uuid = ?") == ["FINISHED"]
    metrics = column("SELECT DISTINCT key FROM metrics WHERE run_uuid = ?")
    assert 10 < len(metrics) < 50 and "arithmetic.exact_match.free" in metrics
    params = column("SELECT key FROM params WHERE run_uuid = ?")
    assert {"model", "vllm", "vllm.max_model_len", "vllm.prefill_policy", "sampling.temperature"} <= set(params)
    tags = dict(store.execute("SELECT key, value FROM tags WHERE run_uuid = ?", (mlflow_run,)))
    assert tags["assay.run_id"] == run_id
    assert {"assay.prefect_flow_run_id", "assay.git_commit", "assay.git_dirty"} <= set(tags)
    artifacts = {path.name for path in (home / "mlartifacts").rglob("*") if path.is_file()}
    assert {"report.html", "experiment.yaml", "engine.log", "plan.json"} <= artifacts
    assert any(name.endswith(".png") for name in artifacts)


def test_prefect_has_the_run_and_its_artifacts(home: Path, run_id: str) -> None:
    store = sqlite3.connect(home / "prefect" / "prefect.db")
    assert [row[0] for row in store.execute("SELECT state_type FROM flow_run")] == ["COMPLETED"]
    keys = {row[0] for row in store.execute("SELECT key FROM artifact")}
    assert {"result", "next", "progress", "engine-plan", "figures"} <= keys
    states = {row[0] for row in store.execute("SELECT state_type FROM task_run")}
    assert states == {"COMPLETED"}


def test_the_commands_that_look_find_it(home: Path, run_id: str) -> None:
    assert run_id in assay("runs", home=home).stdout
    shown = assay("show", "last", home=home).stdout
    assert "arithmetic.exact_match" in shown and run_id in shown
    assert assay("report", run_id, home=home).stdout.strip().endswith("report.html")
    nearest = assay("show", run_id[:-1] + "z", home=home)
    assert nearest.code == 2 and run_id in nearest.stderr


def test_resuming_a_finished_run_starts_nothing(home: Path, run_id: str) -> None:
    before = rows(home, "SELECT request_id, attempt, output FROM requests ORDER BY ALL")
    again = assay("run", "--resume", run_id, "--json", home=home, timeout_s=20)
    assert again.code == 0 and again.json["status"] == "finished"
    assert "nothing is left to do" in again.stderr
    assert rows(home, "SELECT request_id, attempt, output FROM requests ORDER BY ALL") == before
    changed = assay("run", "--resume", run_id, "--limit", "3", "--json", home=home, timeout_s=20)
    assert changed.code == changed.json["exit_code"] == 2
    assert "keeps its config" in changed.stderr and "keeps its config" in changed.json["error"]


def test_grammars_were_compiled_and_schemas_linted_before_the_engine_got_them(home: Path, run_id: str) -> None:
    found = rows(home, "SELECT kind, status, compile_s, cached, keywords, lint FROM grammars")
    assert {row["kind"] for row in found} >= {"regex", "json_schema", "choice"}
    assert all(row["status"] == "accepted" and 0 < row["compile_s"] < 30 and not row["cached"] for row in found)
    (schema,) = [row for row in found if row["kind"] == "json_schema"]
    assert "pattern" in schema["keywords"] and "minItems" in schema["keywords"]
    assert all(each["problem"].startswith("order") for each in schema["lint"]), "no fault of the backend, only a note"
    named = rows(home, "SELECT name, value, n FROM metrics WHERE name LIKE 'grammar.%' ORDER BY name")
    names = [f"grammar.compile_ms.{each}" for each in ("max", "p50", "p95")]
    assert [row["name"] for row in named] == [*names, "grammar.warm_s"]
    assert all(row["n"] == len(found) for row in named)
