"""Prune and vacuum: what goes, what never goes, what readers see meanwhile."""

import fcntl
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from schemas.errors import AssayError, ConfigError
from warehouse import places, retention
from warehouse.parquet import compact_run, write_rows
from warehouse.places import maintenance, retire
from warehouse.query import query
from warehouse.retention import Policy, plan_prune, prune
from warehouse.vacuum import vacuum

NOW = datetime(2026, 12, 1, tzinfo=UTC)
DAY = 86_400.0


def add(home: Path, run_id: str, *, days: float, status: str = "finished", size: int = 0, **tags: str) -> None:
    ended = NOW - timedelta(days=days)
    row: dict[str, Any] = {"name": run_id, "status": status, "started_at": ended, "tags": tags}
    row["ended_at"] = None if status == "running" else ended
    write_rows(home=home, table="runs", run_id=run_id, rows=[row], part="p")
    answers = [{"request_id": str(number), "attempt": 0, "status": "ok"} for number in range(3)]
    write_rows(home=home, table="requests", run_id=run_id, rows=answers, part="p")
    write_rows(home=home, table="metrics", run_id=run_id, rows=[{"scope": "run", "name": "m", "value": 1.0}], part="p")
    folder = home / "runs" / run_id
    folder.mkdir(parents=True)
    (folder / "report.html").write_bytes(b"x" * size)


def compare(home: Path, run_id: str, baseline: str) -> None:
    row = {"baseline_run_id": baseline, "dataset": "d", "metric": "m", "verdict": "same"}
    write_rows(home=home, table="comparisons", run_id=run_id, rows=[row], part=f"with-{baseline}")


def going(home: Path, policy: Policy) -> list[str]:
    return [fate.run_id for fate in plan_prune(home, policy, now=NOW).going]


def reasons(home: Path, policy: Policy) -> dict[str, str]:
    return {fate.run_id: fate.reason for fate in plan_prune(home, policy, now=NOW).fates}


def test_age_status_and_tags_say_what_goes(home: Path) -> None:
    add(home, "a-old", days=100, team="search")
    add(home, "b-old", days=95, status="failed")
    add(home, "c-new", days=3, team="ads")
    add(home, "d-new", days=2, status="cancelled", team="search")
    assert going(home, Policy(older_than_s=90 * DAY)) == ["a-old", "b-old"]
    assert going(home, Policy(statuses=frozenset({"failed", "cancelled"}))) == ["b-old", "d-new"]
    assert going(home, Policy(tags={"team": "search"})) == ["a-old", "d-new"]
    assert going(home, Policy(tags={"team": None})) == ["a-old", "c-new", "d-new"]
    assert going(home, Policy(tags={"team": "search"}, older_than_s=90 * DAY)) == ["a-old"]
    assert going(home, Policy(older_than_s=DAY, keep_tags={"team": None})) == ["b-old"]
    assert going(home, Policy(older_than_s=DAY, keep_tags={"team": "ads"})) == ["a-old", "b-old", "d-new"]
    said = reasons(home, Policy(older_than_s=90 * DAY, tags={"team": "search"}))
    assert said["a-old"] == "it ended 100.0 days ago"
    assert said["b-old"] == "it has not the tag team=search"


def test_size_takes_the_oldest_until_the_rest_fits(home: Path) -> None:
    for day in range(4):
        add(home, f"r{day}", days=10 - day, size=1_000_000)
    total = sum(fate.bytes for fate in plan_prune(home, Policy(max_bytes=0), now=NOW).fates)
    assert total > 4_000_000
    assert going(home, Policy(max_bytes=total)) == []
    assert going(home, Policy(max_bytes=total - 1)) == ["r0"]
    assert going(home, Policy(max_bytes=total // 2)) == ["r0", "r1"]
    assert going(home, Policy(max_bytes=0)) == ["r0", "r1", "r2", "r3"]
    # What age takes counts before size takes more.
    assert going(home, Policy(older_than_s=9.5 * DAY, max_bytes=3_100_000)) == ["r0"]


def wait_for_mlflow(home: Path, run_id: str) -> None:
    """As a run that could not be published leaves it."""
    folder = home / "spool" / "mlflow" / run_id
    folder.mkdir(parents=True)
    (folder / "publication.json").write_text("{}")


@pytest.mark.parametrize(
    ("protect", "words"),
    [
        (lambda home: add(home, "x", days=99, baseline="main"), "it is a baseline (tag baseline=main)"),
        (lambda home: add(home, "x", days=99, baseline=""), "it is a baseline"),
        (lambda home: add(home, "x", days=99, status="running"), "it is running"),
        (lambda home: (add(home, "x", days=99), compare(home, "fresh", "x")), "it is the baseline of fresh"),
        (
            lambda home: (add(home, "x", days=99), wait_for_mlflow(home, "x")),
            "MLflow has not got it yet",
        ),
    ],
)
def test_some_never_go(home: Path, protect: Callable[[Path], Any], words: str) -> None:
    add(home, "fresh", days=1)
    protect(home)
    for policy in (Policy(older_than_s=90 * DAY), Policy(max_bytes=1), Policy(statuses=frozenset({"finished"}))):
        if policy.statuses:
            write_rows(home=home, table="runs", run_id="fresh", rows=[{"status": "crashed"}], part="q", revision=1)
        assert "x" not in going(home, policy) or policy.max_bytes == 1
    assert words in reasons(home, Policy(older_than_s=90 * DAY))["x"]


def test_false_is_no_baseline_and_a_chain_of_them_stays(home: Path) -> None:
    add(home, "a", days=99)
    add(home, "b", days=98)
    add(home, "c", days=97, baseline="False")
    add(home, "d", days=1)
    compare(home, "b", "a")
    compare(home, "d", "b")
    compare(home, "a", "a")  # two arms of one run
    assert going(home, Policy(older_than_s=90 * DAY)) == ["c"]
    # If all that was compared with it goes as well, so may a baseline.
    assert going(home, Policy(older_than_s=0)) == ["a", "b", "c", "d"]
    # By size the youngest that was compared goes first, then its baseline, since the oldest cannot.
    assert going(home, Policy(max_bytes=0)) == ["a", "b", "c", "d"]


def sweep(
    home: Path, run_id: str, *, days: float, cells: int = 2, status: str = "finished", size: int = 0
) -> list[str]:
    """A sweep with its cells' runs, the last of which failed, each with a lock file as a session leaves it."""
    add(home, run_id, days=days, status=status, size=size)
    ids = [f"{run_id}-{number}" for number in range(cells)]
    for number, cell in enumerate(ids):
        add(home, cell, days=days + 0.1, status="failed" if number == cells - 1 else "finished", size=size)
        row = {"cell_index": number, "repeat": 0, "state": "finished", "cell_run_id": cell}
        write_rows(home=home, table="sweep_cells", run_id=run_id, rows=[row], part=f"p{number}", revision=1)
        below(home, cell, run_id)
    return ids


def below(home: Path, run_id: str, parent: str) -> None:
    row = dict(zip(("name", "status", "ended_at"), _row(home, run_id), strict=True))
    write_rows(home=home, table="runs", run_id=run_id, rows=[row | {"parent_run_id": parent}], part="z", revision=3)
    (home / "runs" / run_id / "lock").touch()


def _row(home: Path, run_id: str) -> tuple[Any, ...]:
    return query(home=home, sql=f"SELECT name, status, ended_at FROM runs WHERE run_id = '{run_id}'").rows[0]


def test_a_sweep_and_its_runs_go_or_stay_together(home: Path) -> None:
    old = sweep(home, "a", days=89.95)
    new = sweep(home, "b", days=2)
    add(home, "c", days=99)
    # The cells of `a` ended before the 90 days, the sweep itself did not.
    assert going(home, Policy(older_than_s=90 * DAY)) == ["c"]
    assert reasons(home, Policy(older_than_s=90 * DAY))[old[0]] == "it belongs to a, which stays"
    assert going(home, Policy(older_than_s=80 * DAY)) == ["a", *old, "c"]
    assert reasons(home, Policy(older_than_s=80 * DAY))[old[1]] == "it belongs to a, which goes"
    # Of the status only the sweep's own counts: a failed cell is a result of it.
    assert going(home, Policy(statuses=frozenset({"failed"}))) == []
    done = prune(home, plan_prune(home, Policy(older_than_s=80 * DAY), now=NOW))
    assert done.run_ids == ("a", *old, "c") and not done.stayed
    assert query(home=home, sql="SELECT run_id FROM runs ORDER BY 1").rows == [("b",), *((each,) for each in new)]
    assert query(home=home, sql="SELECT DISTINCT run_id FROM sweep_cells").rows == [("b",)]
    assert not any((home / "runs" / each).exists() for each in ("a", *old))


def test_what_keeps_one_run_of_a_sweep_keeps_it_all(home: Path) -> None:
    cells = sweep(home, "a", days=99)
    everything = Policy(older_than_s=0.0)
    row = {"status": "finished", "ended_at": NOW - timedelta(days=99), "tags": {"keep": "x"}}
    write_rows(home=home, table="runs", run_id="a", rows=[row], part="t", revision=5)
    assert going(home, Policy(older_than_s=0.0, keep_tags={"keep": None})) == []
    add(home, "user", days=1, keep="x")
    compare(home, "user", cells[0])
    said = reasons(home, Policy(older_than_s=90 * DAY))
    assert said["a"] == "it is the baseline of user, which stays"
    wait_for_mlflow(home, cells[1])
    assert reasons(home, everything)["a"] == f"of its run {cells[1]}: MLflow has not got it yet (`assay sync`)"
    assert going(home, everything) == ["user"]


def test_a_run_of_a_sweep_that_is_gone_on_with_keeps_the_sweep(home: Path) -> None:
    cells = sweep(home, "a", days=99)
    plan = plan_prune(home, Policy(older_than_s=90 * DAY), now=NOW)
    with (home / "runs" / cells[0] / "lock").open("r+b") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = prune(home, plan)
    assert done.run_ids == () and set(done.stayed) == {"a", *cells}
    assert query(home=home, sql="SELECT count(*) FROM runs").rows == [(3,)]
    assert prune(home, plan).run_ids == ("a", *cells)


def test_by_size_the_oldest_sweep_goes_as_a_whole(home: Path) -> None:
    old, new = sweep(home, "a", days=9, size=1_000_000), sweep(home, "b", days=8, size=1_000_000)
    total = sum(fate.bytes for fate in plan_prune(home, Policy(max_bytes=0), now=NOW).fates)
    assert going(home, Policy(max_bytes=total - 1)) == ["a", *old]
    assert going(home, Policy(max_bytes=100)) == ["a", *old, "b", *new]


def test_runs_without_their_sweep_are_runs_of_their_own(home: Path) -> None:
    """As after an import of a cell alone, or a prune that was killed after the sweep itself had gone."""
    cells = sweep(home, "a", days=99)
    with maintenance(home):
        retire(home=home, run_id="a")
    assert going(home, Policy(older_than_s=90 * DAY)) == cells
    below(home, cells[0], cells[1])  # rows of a broken home: each above the other
    below(home, cells[1], cells[0])
    assert going(home, Policy(older_than_s=90 * DAY)) == cells


def test_the_runs_of_a_noise_band_are_one(home: Path) -> None:
    for run_id, days in (("at-16", 89.9), ("at-1", 91.0)):
        add(home, run_id, days=days, noise=run_id)
    row = {"scope": "run", "name": "noise.d.m", "value": 0.1, "details": {"runs": ["at-1", "at-16"]}}
    write_rows(home=home, table="metrics", run_id="at-16", rows=[row], part="noise")
    assert going(home, Policy(older_than_s=90 * DAY)) == []
    assert reasons(home, Policy(older_than_s=90 * DAY))["at-1"] == "it belongs to at-16, which stays"
    assert going(home, Policy(older_than_s=89 * DAY)) == ["at-1", "at-16"]


def test_a_run_that_is_being_resumed_stays(home: Path) -> None:
    add(home, "x", days=99, status="cancelled")
    policy = Policy(older_than_s=90 * DAY)
    plan = plan_prune(home, policy, now=NOW)
    with (home / "runs" / "x" / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert reasons(home, policy)["x"] == "it is being resumed"
        done = prune(home, plan)
        assert (done.run_ids, dict(done.stayed)) == ((), {"x": "it is being resumed"})
    assert query(home=home, sql="SELECT count(*) FROM runs").rows == [(1,)]
    assert prune(home, plan).run_ids == ("x",)


def test_what_changed_since_the_plan_is_looked_at_again(home: Path) -> None:
    for run_id in ("a", "b", "c"):
        add(home, run_id, days=99)
    plan = plan_prune(home, Policy(statuses=frozenset({"finished"})), now=NOW)
    write_rows(home=home, table="runs", run_id="a", rows=[{"status": "running"}], part="q", revision=2)
    with maintenance(home):
        retire(home=home, run_id="b")
    done = prune(home, plan)
    assert done.run_ids == ("c",)
    assert done.stayed == {"a": "it is running, or was killed and can be resumed", "b": "it is gone already"}


def test_a_plan_changes_nothing_and_pruning_leaves_nothing(home: Path) -> None:
    add(home, "old", days=99, size=500_000)
    add(home, "new", days=1)
    compact_run(home=home, run_id="old")
    before = sorted(path for path in home.rglob("*"))
    plan = plan_prune(home, Policy(older_than_s=90 * DAY), now=NOW)
    assert sorted(path for path in home.rglob("*")) == before
    done = prune(home, plan)
    assert done.run_ids == ("old",)
    assert done.bytes == plan.bytes > 500_000
    assert [path for path in home.rglob("*") if "old" in path.name or path.is_symlink()] == []
    for table in ("runs", "requests", "metrics"):
        assert query(home=home, sql=f"SELECT DISTINCT run_id FROM {table}").rows == [("new",)]
    assert prune(home, plan).stayed == {"old": "it is gone already"}


def test_a_policy_must_say_something(home: Path) -> None:
    for policy, words in (
        (Policy(), "nothing says which runs"),
        (Policy(keep_tags={"a": None}), "nothing says which runs"),
        (Policy(statuses=frozenset({"running"})), "no status running"),
        (Policy(older_than_s=-1), "less than nothing"),
    ):
        with pytest.raises(ConfigError, match=words):
            plan_prune(home, policy)


def test_readers_see_a_run_as_a_whole_or_not_at_all(home: Path) -> None:
    for number in range(12):
        add(home, f"r{number:02}", days=99)
    sql = (
        "SELECT (SELECT count(*) FROM runs), (SELECT count(*) FROM requests), (SELECT count(*) FROM metrics),"
        " (SELECT count(DISTINCT run_id) FROM requests)"
    )
    seen: list[tuple[Any, ...]] = []
    failed: list[AssayError] = []
    over = threading.Event()

    def read() -> None:
        try:
            while not over.is_set():
                seen.append(query(home=home, sql=sql).rows[0])
        except AssayError as error:
            failed.append(error)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    try:
        prune(home, plan_prune(home, Policy(older_than_s=90 * DAY), now=NOW))
    finally:
        over.set()
        for reader in readers:
            reader.join()
    assert failed == []
    assert query(home=home, sql=sql).rows == [(0, 0, 0, 0)]
    for runs, requests, metrics, ids in seen:
        assert (requests, metrics, ids) == (3 * runs, runs, runs)


@pytest.mark.parametrize("step", range(6))
def test_a_prune_that_dies_between_two_steps_leaves_a_whole_run_or_none(
    home: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    add(home, "x", days=99)
    real, calls = places._exchange, []

    def dying(one: Path, other: Path) -> bool:
        calls.append(one)
        if len(calls) > step:
            raise KeyboardInterrupt
        return real(one, other)

    monkeypatch.setattr(places, "_exchange", dying)
    try:
        prune(home, plan_prune(home, Policy(older_than_s=90 * DAY), now=NOW))
        gone = True
    except KeyboardInterrupt:
        gone = False
    monkeypatch.undo()
    for _ in range(2):
        counts = [query(home=home, sql=f"SELECT count(*) FROM {t}").rows[0][0] for t in ("runs", "requests", "metrics")]
        assert counts == ([0, 0, 0] if gone else [1, 3, 1])
        assert (home / "runs" / "x" / "report.html").exists() == (not gone)
        vacuum(home)
    assert [path for path in home.rglob("*") if path.is_symlink()] == []
    assert gone == (step >= 4), "a run has three folders in tables, and one of its own"


def test_without_exchange_of_names_it_works_as_well(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on file systems that cannot: network file systems, mostly."""
    monkeypatch.setattr(places, "_exchange", lambda one, other: False)
    add(home, "x", days=99)
    add(home, "y", days=1)
    assert prune(home, plan_prune(home, Policy(older_than_s=90 * DAY), now=NOW)).run_ids == ("x",)
    assert query(home=home, sql="SELECT run_id FROM metrics").rows == [("y",)]
    staged = places.new_staging(home)
    (staged / "runs").mkdir()
    source = home / "tables" / "runs" / "run=y" / "p.parquet"
    (staged / "runs" / "p.parquet").write_bytes(source.read_bytes())
    with maintenance(home), pytest.raises(AssayError, match="there already"):
        places.publish(home=home, run_id="y", staged=staged)
    with maintenance(home):
        places.publish(home=home, run_id="z", staged=staged)
    assert query(home=home, sql="SELECT count(*) FROM runs").rows == [(2,)]
    vacuum(home)
    with maintenance(home):
        assert retire(home=home, run_id="z") > 0
    assert query(home=home, sql="SELECT count(*) FROM runs").rows == [(1,)]


def test_vacuum_joins_parts_and_removes_what_nobody_reads(home: Path) -> None:
    add(home, "done", days=9)
    for part in range(5):
        rows = [{"request_id": f"{part}", "attempt": 1, "status": "ok", "output": "x" * 1000}]
        write_rows(home=home, table="requests", run_id="done", rows=rows, part=f"part-{part}")
    add(home, "busy", days=0, status="running")
    write_rows(home=home, table="requests", run_id="busy", rows=[{"request_id": "q", "attempt": 0}], part="more")
    (home / ".trash" / "gone-1").mkdir(parents=True)
    (home / ".trash" / "gone-1" / "p.parquet").write_bytes(b"x" * 3_000)
    (home / ".staging-1-x" / "runs").mkdir(parents=True)
    (home / ".staging-1-x" / "runs" / "p.parquet").write_bytes(b"x" * 4_000)
    models = home / "cache" / "models"
    for name in ("tiny-1.partial-ab", "tiny-2.partial-cd", "tiny-3"):
        (models / name).mkdir(parents=True)
        (models / name / "model.safetensors").write_bytes(b"x" * 5_000)
    left = home / "tables" / "requests" / "run=done" / "p.parquet.1-ab.tmp"
    left.write_bytes(b"x" * 6_000)
    before = query(home=home, sql="SELECT * FROM request_attempts ORDER BY ALL").rows
    with (models / "tiny-2.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # somebody converts this model just now
        freed = vacuum(home, grace_s=0)
    assert freed.compacted == ("done",)
    assert (freed.trash, freed.staging, freed.caches) == (3_000, 4_000, 5_000)
    assert freed.superseded > 6_000
    assert freed.bytes >= 18_000
    assert sorted(path.name for path in models.iterdir() if path.is_dir()) == ["tiny-2.partial-cd", "tiny-3"]
    assert len(list((home / "tables" / "requests" / "run=busy").glob("*.parquet"))) == 2
    assert not left.exists()
    assert query(home=home, sql="SELECT * FROM request_attempts ORDER BY ALL").rows == before
    again = vacuum(home, grace_s=0)
    assert (again.compacted, again.superseded, again.trash, again.staging, again.caches) == ((), 0, 0, 0, 5_000)


def test_vacuum_leaves_time_to_readers(home: Path) -> None:
    add(home, "done", days=9)
    write_rows(home=home, table="requests", run_id="done", rows=[{"request_id": "q", "attempt": 0}], part="more")
    vacuum(home)
    assert (home / "tables" / "requests" / "run=done" / "more.parquet").exists()
    assert vacuum(home, grace_s=0).superseded > 0
    assert not (home / "tables" / "requests" / "run=done" / "more.parquet").exists()


def test_orphans_are_named(home: Path) -> None:
    add(home, "x", days=1)
    write_rows(home=home, table="cells", run_id="rowless", rows=[{"cell_id": "c"}], part="p")
    assert retention.orphans(home) == ["rowless"]
