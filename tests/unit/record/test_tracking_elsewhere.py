"""Runs of answers that another program made, in MLflow: imported, scored, rescored, promoted; and MLflow being down."""

import datetime
from pathlib import Path

import pytest

from flows.commands.tracking import tell_mlflow
from tasks.compare.promote import promote
from tasks.compare.promote import tell_mlflow as tell_of_tags
from tasks.predictions.inspect_ai import read_inspect
from tasks.predictions.offline import Asked, score_file
from tasks.predictions.record import record_import, record_offline
from tasks.predictions.rescore import rescore, write_rescored
from tasks.record.tracking import spool
from tests.mlflow_parts import Stored
from warehouse.parquet import read_rows

LOG = Path(__file__).resolve().parents[2] / "data" / "inspect" / "cities.json"


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the command sets for MLflow goes with the test."""
    monkeypatch.setattr("flows.commands.tracking.prepare_environment", lambda home: None)


def scored(home: Path, folder: Path) -> str:
    (folder / "rows.jsonl").write_text('{"id": "a", "q": "1+1", "a": "2"}\n{"id": "b", "q": "1+2", "a": "3"}\n')
    (folder / "sums.yaml").write_text(
        "source: {kind: jsonl, path: rows.jsonl}\nid_field: id\nprompt: {text: '{{ q }}'}\ntarget: '{{ a }}'\n"
        "metrics: [exact_match]\n"
    )
    (folder / "answers.jsonl").write_text('{"id": "a", "output": "2"}\n{"id": "b", "output": "4"}\n')
    offline = score_file(Asked(dataset=str(folder / "sums.yaml"), predictions=folder / "answers.jsonl"))
    return record_offline(offline, home=home, name="sums", started_at=datetime.datetime.now(datetime.UTC))


def test_an_imported_run_is_in_mlflow_with_what_is_known_of_it(empty_home: Path) -> None:
    made = read_inspect(LOG)
    record_import(made, home=empty_home)
    told = tell_mlflow(empty_home, made.run_id)
    assert told.warning is None
    [run] = Stored(empty_home / "mlflow.db").runs(made.run_id)
    assert (run["id"], run["name"], run["status"]) == (told.mlflow_run_id, made.run_id, "FINISHED")
    metrics = {name: value for name, value, _ in run["metrics"]}
    assert metrics["cities.inspect.includes.free"] == 0.75
    assert run["params"] == {
        "model": "mockllm/model", "datasets": "cities (4)", "arms": "free", "sampling.temperature": "0.5",
        "sampling.max_tokens": "64",
    }  # fmt: skip
    tags = run["tags"]
    assert (tags["assay.kind"], tags["mlflow.source.name"]) == ("import", "assay import cities")
    assert "assay.host" not in tags and "assay.git_commit" not in tags
    assert "engine log" not in tags["mlflow.note.content"] and "report" in tags["mlflow.note.content"]
    [row] = read_rows(empty_home, "runs", made.run_id)
    assert row["mlflow_run_id"] == told.mlflow_run_id
    assert promote(empty_home, made.run_id, name="main").changed
    assert tell_of_tags(empty_home, [made.run_id]) == {}
    [run] = Stored(empty_home / "mlflow.db").runs(made.run_id)
    assert run["tags"]["baseline"] == "main"


def test_a_scored_run_and_its_new_numbers(empty_home: Path, tmp_path: Path) -> None:
    run_id = scored(empty_home, tmp_path)
    told = tell_mlflow(empty_home, run_id)
    [run] = Stored(empty_home / "mlflow.db").runs(run_id)
    assert {name: value for name, value, _ in run["metrics"]} == {"sums.exact_match.free": 0.5}
    assert run["params"] == {"datasets": "sums (2)", "arms": "free"}  # no model and no sampling: nobody said which
    assert "assay.model" not in run["tags"] and run["tags"]["assay.kind"] == "score"
    write_rescored(empty_home, rescore(empty_home, run_id, metrics=["contains"]))
    assert spool.waiting(empty_home) == [run_id]
    assert tell_mlflow(empty_home, run_id) == told
    [run] = Stored(empty_home / "mlflow.db").runs(run_id)
    assert {name for name, _, _ in run["metrics"]} == {"sums.exact_match.free", "sums.contains.free"}


def test_mlflow_being_down_costs_a_warning_and_the_run_waits(
    empty_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    run_id = scored(empty_home, tmp_path)
    told = tell_mlflow(empty_home, run_id)
    assert told.mlflow_run_id is None
    assert told.warning is not None and "`assay sync` or the next run brings it" in told.warning
    assert spool.waiting(empty_home) == [run_id]
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    assert tell_mlflow(empty_home, run_id).mlflow_run_id is not None
    assert spool.waiting(empty_home) == []
