"""`assay rescore`: a recorded run's answers scored again, as a new revision."""

import datetime
from dataclasses import replace
from pathlib import Path

import pytest
from offline_files import assay, cities, last_object, write_lines

from schemas.errors import ConfigError
from tasks.predictions.offline import Asked, score_file
from tasks.predictions.record import record_offline, run_row, write_run
from tasks.predictions.rescore import rescore, write_rescored
from tasks.record.rows import metric_rows, sample_rows, score_rows
from warehouse.parquet import read_rows

NOW = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)
FREE = [{"id": "riga", "output": "Latvia"}, {"id": "oslo", "output": "It is Norway."}, {"id": "bern", "output": "no"}]
GUIDED = [{"id": "riga", "output": "Latvia"}, {"id": "oslo", "output": "Norway"}, {"id": "bern", "output": "Norway"}]
GUIDE = "id_field: id\nguide: {kind: choice, options: [Latvia, Norway, Switzerland]}\n"


def one_run(tmp_path: Path, home: Path) -> str:
    """A run of `assay score`."""
    asked = Asked(dataset=str(cities(tmp_path)), predictions=write_lines(tmp_path / "free.jsonl", FREE))
    return record_offline(score_file(asked), home=home, name="towns", started_at=NOW)


def two_arms(tmp_path: Path, home: Path, *, version: int = 1) -> str:
    """A run with both arms, as it was scored by some version of the metric."""
    dataset = str(cities(tmp_path, extra=GUIDE))
    arms = {
        arm: score_file(Asked(dataset=dataset, predictions=write_lines(tmp_path / f"{arm}.jsonl", answers), arm=arm))
        for arm, answers in (("free", FREE), ("guided", GUIDED))
    }
    from tasks.predictions.record import answer_row

    free = arms["free"]
    scores = [replace(score, metric_version=version) for each in arms.values() for score in each.scores]
    metrics = [
        replace(row, details=row.details | {"metric_version": version}) if row.name.endswith("exact_match") else row
        for each in arms.values()
        for row in each.metrics
    ]
    config = {
        "name": "arms",
        "arms": ["free", "guided"],
        "datasets": [free.dataset.model_dump(mode="json", by_alias=True)],
    }
    return write_run(
        home=home,
        run=run_row(flow="experiment", config=config, started_at=NOW, warnings=[]),
        tables={
            "samples": sample_rows(free.samples),
            "requests": [answer_row(answer) for each in arms.values() for answer in each.answers],
            "scores": score_rows(scores, scored_at=NOW),
            "metrics": metric_rows(metrics),
        },
    )


def test_the_same_metrics_give_the_same_numbers(tmp_path: Path) -> None:
    run_id = one_run(tmp_path, tmp_path / "home")
    before = read_rows(tmp_path / "home", "scores", run_id, columns=["sample_id", "value", "reason", "extracted"])
    done = rescore(tmp_path / "home", run_id)
    assert [(change.name, change.new, change.same) for change in done.changes] == [
        ("cities.exact_match", pytest.approx(1 / 3), True)
    ]
    assert write_rescored(tmp_path / "home", done) == []
    after = read_rows(tmp_path / "home", "scores", run_id, columns=["sample_id", "value", "extracted", "reason"])
    assert {(row["sample_id"], row["value"], row["extracted"]) for row in after} == {
        (row["sample_id"], row["value"], row["extracted"]) for row in before
    }


def test_other_metrics_join_the_run(tmp_path: Path) -> None:
    home = tmp_path / "home"
    run_id = one_run(tmp_path, home)
    said = last_object(assay("rescore", "last", "--metric", "contains", "--json", home=home))
    assert [(c["name"], c["old"], c["new"], c["new_failed"]) for c in said["changes"]] == [
        ("cities.contains", None, pytest.approx(2 / 3), 1)
    ]
    assert said["revision"] == 1
    names = {row["name"]: row["value"] for row in read_rows(home, "metrics", run_id)}
    assert names == {"cities.exact_match": pytest.approx(1 / 3), "cities.contains": pytest.approx(2 / 3)}
    [run] = read_rows(home, "runs", run_id)
    assert any("cities.contains (version 1)" in warning for warning in run["warnings"])
    assert run["status"] == "finished"
    assert "contains" in (home / "runs" / run_id / "report.html").read_text()


def test_another_option_changes_the_number_and_a_dry_run_nothing(tmp_path: Path) -> None:
    home = tmp_path / "home"
    run_id = one_run(tmp_path, home)
    options = 'exact_match:{"after": "It is"}'
    dry = assay("rescore", run_id, "--metric", options, "--dry-run", home=home)
    assert dry.returncode == 0, dry.stderr
    assert "nothing was written" in dry.stdout
    assert [row["revision"] for row in read_rows(home, "metrics", run_id, columns=["revision"])] == [0]
    done = rescore(home, run_id, metrics=[options])
    write_rescored(home, done)
    scores = {row["sample_id"]: row["value"] for row in read_rows(home, "scores", run_id)}
    assert scores == {"cities:riga": 0, "cities:oslo": 1, "cities:bern": 0, "cities:zürich": None}


def test_a_higher_version_is_said_and_the_old_scores_stay(tmp_path: Path) -> None:
    home = tmp_path / "home"
    run_id = two_arms(tmp_path, home, version=0)
    done = rescore(home, run_id)
    assert {(c.arm, c.old_version, c.new_version, c.same) for c in done.changes} == {
        ("free", 0, 1, False),
        ("guided", 0, 1, False),
    }
    write_rescored(home, done)
    versions = [row["metric_version"] for row in read_rows(home, "scores", run_id)]
    assert (versions.count(0), versions.count(1)) == (8, 8)
    [run] = read_rows(home, "runs", run_id)
    assert any("version 0 → 1" in warning for warning in run["warnings"])
    assert [c.same for c in rescore(home, run_id).changes] == [True, True]


def test_the_arms_are_compared_again_over_all_metrics(tmp_path: Path) -> None:
    home = tmp_path / "home"
    run_id = two_arms(tmp_path, home)
    write_rescored(home, rescore(home, run_id, metrics=["contains"]))
    rows = {row["metric"]: row for row in read_rows(home, "comparisons", run_id)}
    assert set(rows) == {"exact_match", "contains"}
    assert (rows["exact_match"]["wins"], rows["exact_match"]["losses"], rows["exact_match"]["n_pairs"]) == (1, 0, 3)
    assert rows["contains"]["ties"] == 3


def test_what_cannot_be_rescored_says_why(tmp_path: Path) -> None:
    home = tmp_path / "home"
    run_id = one_run(tmp_path, home)
    for options, said in (
        ({"dataset": "citis"}, "--dataset: run .* has no dataset `citis`.*did you mean `cities`"),
        ({"metrics": ["choice"]}, "needs `choices`"),
        ({"metrics": ["exact_mach"]}, "did you mean exact_match"),
    ):
        with pytest.raises(ConfigError, match=said):
            rescore(home, run_id, **options)
    with pytest.raises(ConfigError, match="there is no run 2026"):
        rescore(home, "20260101T000000-aaaaaa")
    done = assay("rescore", "20260101T000000-aaaaaa", home=home)
    assert done.returncode == 2
    assert "assay runs" in done.stderr
