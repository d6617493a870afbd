"""How runs are named, and how a name is given, moved and taken: in the warehouse, for prune, in MLflow."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from two_runs import FIRST, SECOND, THIRD, Made, write

from schemas.errors import ConfigError
from tasks.compare.names import find_run, names_of
from tasks.compare.promote import baseline_name, baselines, demote, promote, tell_mlflow
from tests.mlflow_parts import whole_run
from warehouse.parquet import read_rows
from warehouse.retention import Policy, plan_prune

VALUES = {("d", "exact_match", "free"): {"a": 1.0}}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    for run_id in (FIRST, SECOND, THIRD):
        write(home, Made(run_id=run_id, values=VALUES, tags={"team": "search"}))
    return home


def tags(home: Path, run_id: str) -> dict[str, str]:
    [row] = read_rows(home, "runs", run_id)
    found: dict[str, str] = row["tags"]
    return found


def test_a_run_is_found_by_its_id_its_beginning_and_as_the_last(home: Path) -> None:
    assert find_run(home, SECOND) == (SECOND, None)
    assert find_run(home, "20261121") == (SECOND, None)
    assert find_run(home, "20261121:guided") == (SECOND, "guided")
    assert find_run(home, "last:free") == (THIRD, "free")
    for given, words in (
        ("2026112", "3 runs begin with 2026112: "),
        ("", "there is no run"),
        ("20261121T080000-bbbbbc", f"did you mean `{SECOND}`?"),
        ("last:", "names no arm"),
        ("baseline:main", "assay promote RUN --as baseline:main makes one"),
        ("baseline:", "assay promote RUN --as baseline:NAME makes one"),
    ):
        with pytest.raises(ConfigError) as refused:
            find_run(home, given)
        assert words in str(refused.value)


def test_in_an_empty_home_there_are_no_runs(tmp_path: Path) -> None:
    for given in ("last", "x", "baseline:x"):
        with pytest.raises(ConfigError, match=r"there are no runs|there is no baseline"):
            find_run(tmp_path, given)


def test_a_name_is_with_one_run_and_moves(home: Path) -> None:
    assert promote(home, FIRST, name="main") == (True, ())
    assert tags(home, FIRST) == {"team": "search", "baseline": "main"}
    assert find_run(home, "baseline:main:free") == (FIRST, "free")
    assert promote(home, FIRST, name="main") == (False, ())
    promote(home, FIRST, name="release")
    assert promote(home, THIRD, name="main") == (True, (FIRST,))
    assert (tags(home, FIRST)["baseline"], tags(home, THIRD)["baseline"]) == ("release", "main")
    assert find_run(home, "baseline:main").run_id == THIRD
    assert [(each.name, each.run_id) for each in baselines(home)] == [("main", THIRD), ("release", FIRST)]
    with pytest.raises(ConfigError, match=r"did you mean `release`\?"):
        find_run(home, "baseline:relase")
    [row] = read_rows(home, "runs", THIRD, parse_json=True)
    assert (row["name"], row["config"]["model"], row["revision"]) == ("nightly", {"name": "tiny"}, 2)


def test_a_baseline_is_never_pruned_and_one_that_was_taken_down_may_be(home: Path) -> None:
    promote(home, FIRST, name="main")
    fates = {fate.run_id: fate for fate in plan_prune(home, Policy(older_than_s=0)).fates}
    assert (fates[FIRST].goes, fates[SECOND].goes) == (False, True)
    assert fates[FIRST].reason == "it is a baseline (tag baseline=main)"
    demote(home, FIRST, name=None)
    assert tags(home, FIRST)["baseline"] == "false"
    assert baselines(home) == []
    assert {fate.run_id for fate in plan_prune(home, Policy(older_than_s=0)).going} == {FIRST, SECOND, THIRD}


def test_one_name_of_two_is_taken(home: Path) -> None:
    promote(home, FIRST, name="main")
    promote(home, FIRST, name="release")
    demote(home, FIRST, name="main")
    assert tags(home, FIRST)["baseline"] == "release"
    with pytest.raises(ConfigError, match="is not baseline:main: it is baseline:release"):
        demote(home, FIRST, name="main")
    with pytest.raises(ConfigError, match="is not baseline:NAME: it is none"):
        demote(home, SECOND, name=None)


def test_a_name_that_several_configs_set_is_refused_until_one_run_is_chosen(home: Path) -> None:
    for run_id in (FIRST, SECOND):
        write(home, Made(run_id=run_id, values=VALUES, tags={"baseline": "main"}))
    with pytest.raises(ConfigError, match=f"2 runs are tagged baseline:main: {FIRST}, {SECOND}"):
        find_run(home, "baseline:main")
    assert promote(home, SECOND, name="main") == (False, (FIRST,))
    assert find_run(home, "baseline:main").run_id == SECOND


def test_only_a_finished_run_and_only_a_name(home: Path) -> None:
    write(home, Made(run_id=THIRD, values=VALUES, status="crashed"))
    with pytest.raises(ConfigError, match="is crashed: only a finished run can be a baseline"):
        promote(home, THIRD, name="main")
    assert baseline_name("baseline:v1.2-rc_3") == "v1.2-rc_3"
    for given in ("main", "baseline:", "baseline:a b", "baseline:a,b", "baseline:../x", "baseline:False", "tag:x"):
        with pytest.raises(ConfigError, match="is no baseline's name"):
            baseline_name(given)
    assert names_of(None) == names_of({"baseline": "False "}) == names_of({"baseline": " "}) == []


def test_the_tag_reaches_mlflow_and_leaves_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    home = tmp_path / "home"
    run_id = whole_run(home).run.run_id

    def tag() -> list[tuple[str]]:
        with closing(sqlite3.connect(home / "mlflow.db")) as store:
            found = "SELECT t.value FROM tags t JOIN tags r USING (run_uuid) WHERE r.key = 'assay.run_id'"
            return store.execute(f"{found} AND r.value = ? AND t.key = 'baseline'", (run_id,)).fetchall()

    assert tag() == []
    promote(home, run_id, name="main")
    assert tell_mlflow(home, [run_id, "not-there"]) == {}
    assert set(tag()) == {("main",)}
    demote(home, run_id, name="main")
    assert tell_mlflow(home, [run_id]) == {}
    assert set(tag()) == {("false",)}
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    promote(home, run_id, name="main")
    assert "MLflow at http://127.0.0.1:9" in tell_mlflow(home, [run_id])[run_id]
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    assert tell_mlflow(home, [run_id]) == {}
    assert set(tag()) == {("main",)}
