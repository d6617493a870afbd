"""A real run as MLflow has it: children, datasets, tags, files, and the same ids on both sides."""

import json
from pathlib import Path

import pytest

from tests.e2e.command import Done, rows
from tests.mlflow_parts import Stored

pytestmark = pytest.mark.engine


def test_a_run_in_mlflow(quickstart: tuple[Path, Done]) -> None:
    home, done = quickstart
    assert done.code == 0, done.stderr
    assert done.stdout.count("\n") == 1
    run_id = done.json["run_id"]
    parent, free, guided = Stored(home / "mlflow.db").runs(run_id)
    assert [run["status"] for run in (parent, free, guided)] == ["FINISHED"] * 3
    assert [run["tags"].get("assay.cell") for run in (parent, free, guided)] == [None, "quality.free", "quality.guided"]

    stored = rows(home, f"SELECT * FROM runs WHERE run_id = '{run_id}'")[0]
    assert done.json["mlflow_run_id"] == stored["mlflow_run_id"] == parent["id"]
    assert parent["tags"]["assay.prefect_flow_run_id"] == stored["prefect_flow_run_id"]
    assert parent["tags"]["assay.config_hash"] == stored["config_hash"]

    fingerprints = {row["dataset"]: row["fingerprint"] for row in rows(home, "FROM datasets")}
    assert {name: parent["tags"][f"assay.dataset.{name}"] for name in fingerprints} == fingerprints
    assert dict(parent["datasets"]) == {name: value[:16] for name, value in fingerprints.items()}

    numbers = {name: value for name, value, _ in parent["metrics"]}
    assert 20 < len(numbers) < 50
    scores = "scope = 'dataset' AND NOT regexp_matches(name, '[.](form|guide)[.]')"
    for row in rows(home, f"SELECT name, arm, value FROM metrics WHERE {scores}"):
        assert numbers[f"{row['name']}.{row['arm']}"] == pytest.approx(row["value"], rel=1e-5)
        child = free if row["arm"] == "free" else guided
        assert {name: value for name, value, _ in child["metrics"]}[row["name"]] == numbers[
            f"{row['name']}.{row['arm']}"
        ]

    planned = {
        row["option"]: json.loads(row["value"])
        for row in rows(home, "SELECT option, value FROM plans WHERE value IS NOT NULL")
    }
    assert parent["params"]["vllm.max_model_len"] == str(planned["max_model_len"])
    assert parent["params"]["datasets"] == "arithmetic (2), extract (2), choice (2), needle (2)"

    files = {path.name for path in Path(parent["artifacts"].removeprefix("file://")).rglob("*")}
    assert {"report.html", "experiment.yaml", "plan.md", "plan.json", "engine.log", "figures", "quality.png"} <= files
    note = parent["tags"]["mlflow.note.content"]
    assert "[report](#/experiments/" in note and "arithmetic.exact_match" in note
    assert not (home / "spool" / "mlflow" / run_id).exists()
