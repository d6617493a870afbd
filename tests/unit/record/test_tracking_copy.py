"""What MLflow gets of a run, in a real store: names, numbers, children, datasets, files, searches."""

import datetime
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tasks.record import stage
from tasks.record.tracking import names, spool
from tasks.record.tracking.build import build_publication
from tasks.record.tracking.errors import TrackingError
from tasks.record.tracking.note import describe
from tasks.session import Session
from tests.mlflow_parts import Stored, answered, assert_whole, begun, ended, fingerprint, whole_run
from warehouse.parquet import read_rows


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory, mlflow_store: Path) -> Iterator[tuple[Session, Stored]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        patch.setenv("ASSAY_PREFECT_API_URL", "http://prefect.example:4200/api")
        home = tmp_path_factory.mktemp("recorded")
        shutil.copy(mlflow_store, home / "mlflow.db")
        session = whole_run(home)
        yield session, Stored(home / "mlflow.db")


def parent_and_children(recorded: tuple[Session, Stored]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    parent, *children = assert_whole(recorded[1], recorded[0].run.run_id)
    return parent, children


def test_a_child_an_arm_has_the_parents_numbers_under_the_same_names(recorded: tuple[Session, Stored]) -> None:
    parent, (free, guided) = parent_and_children(recorded)
    whole = {name: value for name, value, _ in parent["metrics"]}
    assert whole["arithmetic.exact_match.free"] == 0.5 and whole["arithmetic.exact_match.guided"] == 0.6
    assert whole["timing.output_tokens_per_s"] == 228.487  # six digits: MLflow prints all that it has
    assert whole["timing.engine_rss_peak_gib"] == 3 and whole["engine.start_s"] == 10.25
    assert whole["failed_requests.free"] == 1
    assert "timing.energy_counter" not in whole  # not measured is not 0
    assert not any("refused" in name or "queued" in name for name in whole)
    for arm, child in (("free", free), ("guided", guided)):
        own = {name: value for name, value, _ in child["metrics"]}
        assert own == {name.removesuffix(f".{arm}"): value for name, value in whole.items() if name.endswith(f".{arm}")}
        assert child["params"]["arm"] == child["tags"]["assay.arm"] == arm
        assert child["name"].startswith(arm)


def test_the_params_are_what_people_compare(recorded: tuple[Session, Stored]) -> None:
    parent, _ = parent_and_children(recorded)
    assert parent["params"] == {
        "model": "smollm2-135m-instruct",
        "datasets": "arithmetic (6), choice (6), extract (6), needle (6)",
        "arms": "free, guided",
        "sampling.temperature": "0.0",
        "sampling.top_p": "1.0",
        "sampling.top_k": "0",
        "sampling.max_tokens": parent["params"]["sampling.max_tokens"],
        "model_fingerprint": "ab" * 8,
        "vllm": "0.32.0",
        "torch": "2.13.0",
        "device": "AMD EPYC",
        "vllm.max_num_seqs": "256",
        "vllm.dtype": "bfloat16",
    }


def test_times_and_files_are_the_runs(recorded: tuple[Session, Stored]) -> None:
    session, _ = recorded
    parent, _ = parent_and_children(recorded)
    row = read_rows(session.run.home, "runs", session.run.run_id)[0]
    assert parent["start"] == int(row["started_at"].timestamp() * 1000)
    assert parent["end"] == int(row["ended_at"].timestamp() * 1000)
    assert row["mlflow_run_id"] == parent["id"] == stage.known_mlflow_id(session.run.folder)
    folder = Path(parent["artifacts"].removeprefix("file://"))
    found = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    expected = [
        "engine.log",
        "experiment.yaml",
        "figures/quality.png",
        "plan.json",
        "plan.md",
        "report.html",
        "warnings.txt",
    ]
    assert found == expected
    assert "| max_num_seqs | 256 | 128 | plan | it fits | 6 \\| requests |" in (folder / "plan.md").read_text()
    assert (folder / "warnings.txt").read_text() == "the answers to `choice` are short\n"
    assert spool.waiting(session.run.home) == []


def test_the_description_links_to_report_prefect_and_sql(recorded: tuple[Session, Stored]) -> None:
    session, stored = recorded
    parent, _ = parent_and_children(recorded)
    note = parent["tags"]["mlflow.note.content"]
    experiment = stored.rows("SELECT experiment_id FROM experiments WHERE name = 'quickstart'")[0][0]
    assert f"[report](#/experiments/{experiment}/runs/{parent['id']}/artifacts/report.html)" in note.splitlines()[0]
    assert "[Prefect](http://prefect.example:4200/runs/flow-run/flow-1)" in note.splitlines()[0]
    assert note.count(f"WHERE run_id = '{session.run.run_id}'") == 4
    assert "| arithmetic.exact_match | guided | 0.600 | 0.500 to 0.700 | 6 |" in note
    assert "the answers to \\`choice\\` are short" in note
    assert "resume" not in note


def test_datasets_are_inputs_that_one_can_search(recorded: tuple[Session, Stored]) -> None:
    _, stored = recorded
    source, profile = stored.rows("SELECT dataset_source, dataset_profile FROM datasets WHERE name = 'needle'")[0]
    assert json.loads(source) == {"uri": "/data/needle.jsonl", "revision": "sha256:00"}
    told = json.loads(profile)
    assert told["rows_used"] == 6 and told["tokens_p50"] == 31 and told["tokens_p95"] == 80 and told["tokens_max"] == 92
    assert stored.rows("SELECT DISTINCT name, value FROM input_tags") == [("mlflow.data.context", "evaluation")]


def documented_searches() -> list[str]:
    page = (Path(__file__).resolve().parents[3] / "docs" / "mlflow.md").read_text()
    block = page.partition("```text")[2].partition("```")[0]
    return [line.strip() for line in block.splitlines() if line.strip()]


def test_the_searches_of_the_docs_find_the_run(recorded: tuple[Session, Stored]) -> None:
    from mlflow import MlflowClient

    session, _ = recorded
    run = session.run
    client = MlflowClient(tracking_uri=f"sqlite:///{run.home / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("quickstart")
    assert experiment is not None
    row = read_rows(run.home, "runs", run.run_id)[0]
    tags = client.get_run(row["mlflow_run_id"]).data.tags
    values = {
        "COMMIT": row["git_commit"] or "",
        "CONFIG_HASH": row["config_hash"],
        "PLAN_HASH": tags["assay.plan_hash"],
        "FINGERPRINT": fingerprint("arithmetic"),
        "DIGEST": fingerprint("arithmetic")[:16],
        "MODEL_FINGERPRINT": "ab" * 32,
        "RUN": run.run_id,
        "FLOW_RUN": "flow-1",
        "HOST": row["host"],
    }
    searches = documented_searches()
    assert len(searches) >= 12
    for search in searches:
        if "'COMMIT'" in search and not values["COMMIT"]:
            continue
        filled = search
        for name in sorted(values, key=len, reverse=True):
            filled = filled.replace(f"'{name}'", f"'{values[name]}'")
        found = {each.info.run_id: each for each in client.search_runs([experiment.experiment_id], filled)}
        if "'cell'" in search:
            assert [each.data.tags["assay.cell"] for each in found.values()] == ["quality.guided"]
        else:
            assert row["mlflow_run_id"] in found, filled
        if filled.endswith("'"):
            other = filled.rpartition("= ")[0] + "= 'other'" if "LIKE" not in filled else filled.replace("0.32", "0.1")
            assert client.search_runs([experiment.experiment_id], other) == [], other


def test_a_running_run_has_its_settings_and_no_numbers(empty_home: Path) -> None:
    session = begun(empty_home)
    stage.start_tracking(session)
    (run,) = Stored(empty_home / "mlflow.db").runs(session.run.run_id)
    assert run["status"] == "RUNNING" and run["end"] is None and run["metrics"] == []
    assert run["params"]["model"] == "smollm2-135m-instruct"
    assert "**running**" in run["tags"]["mlflow.note.content"]


def test_a_run_that_goes_on_is_running_again_then_finished(empty_home: Path) -> None:
    stored = Stored(empty_home / "mlflow.db")
    first = begun(empty_home)
    stage.start_tracking(first)
    answered(first, exact_match=0.1)
    stage.end(first, status="cancelled", error="interrupted by <b>you</b>", warnings=[])
    assert stage.track(first, figures={})
    parent, *_ = assert_whole(stored, first.run.run_id, status="KILLED")
    note = parent["tags"]["mlflow.note.content"]
    assert f"assay run --resume {first.run.run_id}" in note and "interrupted by &lt;b\\>you" in note

    second = begun(empty_home, resume=first.run.run_id)
    stage.start_tracking(second)
    assert {run["status"] for run in stored.runs(first.run.run_id)} == {"RUNNING"}
    answered(second, exact_match=0.3)
    ended(second)
    runs = stored.runs(first.run.run_id)
    assert [run["status"] for run in runs] == ["FINISHED"] * 3 and runs[0]["id"] == parent["id"]
    latest = dict(stored.rows("SELECT key, value FROM latest_metrics WHERE run_uuid = ?", parent["id"]))
    assert latest["arithmetic.exact_match.free"] == 0.3
    assert "resume" not in runs[0]["tags"]["mlflow.note.content"]
    assert read_rows(empty_home, "runs", first.run.run_id)[0]["status"] == "finished"


def test_what_is_published_again_is_not_there_twice(empty_home: Path) -> None:
    session = whole_run(empty_home)
    stored = Stored(empty_home / "mlflow.db")
    before = assert_whole(stored, session.run.run_id)
    stage.track(session, figures={})
    assert assert_whole(stored, session.run.run_id) == before


def test_a_run_made_twice_is_one_again(empty_home: Path) -> None:
    from mlflow import MlflowClient

    session = begun(empty_home)
    stage.start_tracking(session)
    client = MlflowClient(tracking_uri=f"sqlite:///{empty_home / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("quickstart")
    client.create_run(experiment.experiment_id, tags={"assay.run_id": session.run.run_id})
    answered(session)
    ended(session)
    assert_whole(Stored(empty_home / "mlflow.db"), session.run.run_id)


def test_a_deleted_experiment_says_how_to_bring_it_back(empty_home: Path) -> None:
    from mlflow import MlflowClient

    session = begun(empty_home)
    stage.start_tracking(session)
    client = MlflowClient(tracking_uri=f"sqlite:///{empty_home / 'mlflow.db'}")
    client.delete_experiment(client.get_experiment_by_name("quickstart").experiment_id)
    answered(session)
    with pytest.raises(TrackingError, match="mlflow experiments restore"):
        ended(session)
    assert spool.waiting(empty_home) == [session.run.run_id]


def test_metrics_stay_below_fifty_whatever_the_datasets() -> None:
    rows = [
        {"name": f"d{i}.exact_match", "arm": arm, "value": 0.5, "cell_id": None, "n_failed": 0}
        for i in range(40)
        for arm in ("free", "guided")
    ]
    assert len(names.parent_metrics(rows, engine=None)) == names.MAX_METRICS < 50
    assert len(names.child_metrics(rows, arm="free", cell_id=None)) == 40


def test_a_group_goes_before_its_many_datasets() -> None:
    """Of 57 datasets MLflow gets no more than it bears; the number that stands for all of them is among these."""
    each = {"arm": "free", "cell_id": None, "n_failed": 0, "n": 20, "lo": 0.4, "hi": 0.6}
    rows = [{"name": f"a{i:02}.acc", "value": 0.5, "scope": "dataset", **each} for i in range(57)]
    rows.append({"name": "zz.acc", "value": 0.51, "scope": "group", **each, "n": 1140, "lo": 0.48, "hi": 0.54})
    found = names.parent_metrics(rows, engine=None)
    assert (found["zz.acc.free"], len(found)) == (0.51, names.MAX_METRICS)
    run = {"run_id": "r", "status": "finished", "flow": "experiment", "prefect_flow_run_id": None, "error": None}
    told = describe(run | {"warnings": None}, rows, prefect_page=None).splitlines()
    head = told.index("| metric | arm | value | 95 % interval | n |")
    assert told[head + 2] == "| zz.acc | free | 0.510 | 0.480 to 0.540 | 1140 |"


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ("a.b", "a.b"),
        ("naïve?", "naïve_"),
        ("../x", "x"),
        ("a//b", "a/b"),
        ("a/../b", "a/._/b"),
        ("", "_"),
        ("a" * 300, "a" * 250),
    ],
)
def test_names_are_made_fit(given: str, taken: str) -> None:
    assert names.safe_key(given) == taken


def test_measured_cells_become_children_of_their_own(empty_home: Path) -> None:
    session = begun(empty_home)
    answered(session)
    now = datetime.datetime.now(datetime.UTC)
    cell = {"cell_id": "e1-free-closed-8", "engine_id": "e1", "arm": "free", "kind": "closed", "concurrency": 8}
    session.store.write("cells", [{**cell, "order_index": 2, "started_at": now, "ended_at": now}])
    perf = {"scope": "run", "name": "perf.tpot_ms.p50", "arm": "free", "cell_id": cell["cell_id"], "value": 7.5}
    session.store.write("metrics", [{**perf, "unit": "ms", "direction": "lower", "n": 6, "n_failed": 0}])
    stage.end(session, status="finished")
    publication = build_publication(empty_home, session.run.run_id)
    assert [child.key for child in publication.children] == ["quality.free", "quality.guided", "e1-free-closed-8"]
    measured = publication.children[2]
    assert measured.metrics == {"perf.tpot_ms.p50": 7.5} and measured.params["concurrency"] == "8"
    assert measured.tags["assay.load"] == "closed"
