"""Export and import: what leaves, what arrives, what is refused, what a kill leaves."""

import json
import os
import random
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from schemas.errors import AssayError, ConfigError
from tasks.compare.promote import baselines, promote
from tests.unit.warehouse.cookbook_rows import CRASHED, MONDAY, TUESDAY
from tests.unit.warehouse.cookbook_rows import fill as fill_example
from warehouse.export import EXPORT_MANIFEST, export_run
from warehouse.merge import Imported, import_warehouse
from warehouse.parquet import compact_run, write_rows
from warehouse.parts import stored_tables
from warehouse.query import query
from warehouse.schema import SCHEMA_VERSION
from warehouse.schema.changes import METADATA_KEY
from warehouse.views import definitions

_COUNTS = " UNION ALL ".join(
    f"SELECT run_id, '{table}' AS t, count(*) AS n FROM {'request_attempts' if table == 'requests' else table}"
    " GROUP BY run_id"
    for table in stored_tables()
)


def _fill(home: Path) -> Path:
    fill_example(home)
    for run_id in (MONDAY, TUESDAY):
        folder = home / "runs" / run_id
        (folder / "figures").mkdir(parents=True)
        (folder / "report.html").write_text(f"<h1>{run_id}</h1>")
        (folder / "experiment.yaml").write_text("name: nightly\n")
        (folder / "engine.log").write_text("ready\n" * 1000)
        (folder / "figures" / "quality.png").write_bytes(b"\x89PNG")
        (folder / "lock").touch()
        (folder / "samples.msgpack").write_bytes(b"\x90")
    return home


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """Another host's home."""
    return _fill(tmp_path / "their home [*]")


def counts(home: Path) -> dict[tuple[str, str], int]:
    return {(row[0], row[1]): row[2] for row in query(home=home, sql=_COUNTS).rows}


def outcomes(done: Imported) -> dict[str, str]:
    return {run.run_id: run.outcome for run in done.runs}


def everything(home: Path) -> dict[str, list[Any]]:
    """The rows of every table and view, each as text: one question, as each opens the warehouse anew."""
    asked = {each.name: each.name for each in definitions() if not each.macro}
    asked |= {"flips": f"flips('{MONDAY}', '{TUESDAY}')", "trend": "trend('arithmetic.exact_match')"}
    asked |= {table: table for table in (*stored_tables(), "request_attempts")}
    each = (
        f"SELECT '{name}' AS name, list(whole::VARCHAR) AS rows FROM {source} AS whole"
        for name, source in asked.items()
    )
    return {name: sorted(rows or []) for name, rows in query(home=home, sql=" UNION ALL ".join(each)).rows}


def test_two_homes_become_one_and_every_view_answers_over_both(home: Path, theirs: Path) -> None:
    write_rows(home=home, table="runs", run_id="mine", part="p", rows=[{"status": "finished", "host": "laptop"}])
    score = {"scope": "dataset", "name": "arithmetic.exact_match", "arm": "free", "value": 0.9, "n": 4}
    write_rows(home=home, table="metrics", run_id="mine", part="p", rows=[score])
    compact_run(home=theirs, run_id=TUESDAY)
    before = everything(theirs)
    done = import_warehouse(home=home, source=theirs)
    assert outcomes(done) == {MONDAY: "imported", TUESDAY: "imported", CRASHED: "imported"}
    assert {(run.host, run.user) for run in done.runs} == {("gpu-1", "ana")}
    assert done.runs[0].rows == sum(n for (run_id, _), n in counts(theirs).items() if run_id == MONDAY)
    after = everything(home)
    for name, rows in before.items():
        assert set(rows) <= set(after[name]), name
    assert len(after["runs"]) == 4
    assert len(after["leaderboard"]) == len(before["leaderboard"]) + 1
    assert query(home=home, sql="SELECT host FROM runs ORDER BY run_id").rows == [("gpu-1",)] * 3 + [("laptop",)]


def test_twice_is_once_whatever_was_compacted_since(home: Path, theirs: Path) -> None:
    import_warehouse(home=home, source=theirs)
    first = everything(home)
    compact_run(home=home, run_id=MONDAY)
    compact_run(home=theirs, run_id=TUESDAY)
    again = import_warehouse(home=home, source=theirs)
    assert set(outcomes(again).values()) == {"here already"}
    assert everything(home) == first


def test_what_comes_are_ordinary_folders(home: Path, theirs: Path) -> None:
    import_warehouse(home=home, source=theirs)
    assert [path for path in home.rglob("*") if path.is_symlink()] == []
    assert not any(home.glob(".staging*"))
    folder = home / "runs" / MONDAY
    assert sorted(path.name for path in folder.iterdir()) == ["engine.log", "experiment.yaml", "figures", "report.html"]
    # So it is a run like any other: rows can be added, parts joined.
    write_rows(home=home, table="runs", run_id=MONDAY, rows=[{"status": "failed"}], part="p", revision=7)
    assert "runs" in compact_run(home=home, run_id=MONDAY)
    assert query(home=home, sql=f"SELECT status FROM runs WHERE run_id = '{MONDAY}'").rows == [("failed",)]


def test_a_run_with_other_rows_is_refused_by_name_and_stays(home: Path, theirs: Path) -> None:
    import_warehouse(home=home, source=theirs)
    before = everything(home)
    row = {"dataset": "arithmetic", "sample_id": "a-001", "arm": "free", "repeat": 0, "metric": "exact_match"}
    row |= {"metric_version": 1, "value": 0.25}
    write_rows(home=theirs, table="scores", run_id=MONDAY, rows=[row], part="late", revision=3)
    write_rows(home=theirs, table="runs", run_id="new", rows=[{"status": "finished"}], part="p")
    done = import_warehouse(home=home, source=theirs)
    assert outcomes(done) == {MONDAY: "refused", TUESDAY: "here already", CRASHED: "here already", "new": "imported"}
    refused = next(run for run in done.runs if run.outcome == "refused")
    assert refused.reason == "a run of this id is here with other rows in scores"
    after = everything(home)
    assert after["scores"] == before["scores"]
    assert len(after["runs"]) == len(before["runs"]) + 1


def _compare(home: Path, *, metric: str, revision: int, effect: float) -> None:
    row = {"baseline_run_id": MONDAY, "dataset": "arithmetic", "metric": metric, "candidate_arm": "free"}
    row |= {"baseline_arm": "free", "effect": effect, "verdict": "worse"}
    write_rows(home=home, table="comparisons", run_id=TUESDAY, rows=[row], part=f"{revision:04d}-c", revision=revision)


def _effects(home: Path) -> list[Any]:
    sql = f"SELECT metric, effect, revision FROM comparisons WHERE run_id = '{TUESDAY}' AND metric LIKE 'm_' ORDER BY 1"
    return query(home=home, sql=sql).rows


@pytest.mark.parametrize("compacted", ["nothing", "ours", "theirs"])
def test_what_was_written_to_a_run_after_its_end_is_merged(home: Path, theirs: Path, compacted: str) -> None:
    _compare(theirs, metric="m0", revision=0, effect=-0.1)
    import_warehouse(home=home, source=theirs)
    _compare(home, metric="m1", revision=0, effect=-0.2)  # only here
    _compare(home, metric="m2", revision=0, effect=-0.3)
    _compare(home, metric="m3", revision=4, effect=-0.4)
    _compare(theirs, metric="m2", revision=0, effect=-9)  # of equal revisions ours stays
    _compare(theirs, metric="m3", revision=3, effect=-9)
    _compare(theirs, metric="m0", revision=1, effect=-0.5)  # compared again there
    _compare(theirs, metric="m4", revision=0, effect=-0.6)  # only there
    promote(theirs, MONDAY, name="release")
    if compacted != "nothing":
        compact_run(home={"ours": home, "theirs": theirs}[compacted], run_id=TUESDAY)

    done = import_warehouse(home=home, source=theirs)
    assert outcomes(done) == {MONDAY: "merged", TUESDAY: "merged", CRASHED: "here already"}
    told = {run.run_id: (run.rows, run.reason) for run in done.runs}
    assert told[TUESDAY] == (2, "2 rows of comparisons")
    assert told[MONDAY] == (1, "1 row of runs")
    assert _effects(home) == [("m0", -0.5, 1), ("m1", -0.2, 0), ("m2", -0.3, 0), ("m3", -0.4, 4), ("m4", -0.6, 0)]
    assert [(each.name, each.run_id) for each in baselines(home)] == [("main", MONDAY), ("release", MONDAY)]

    before = everything(home)
    assert set(outcomes(import_warehouse(home=home, source=theirs)).values()) == {"here already"}
    assert everything(home) == before
    # And back: then both have the same, but for what each wrote under an equal revision.
    assert outcomes(import_warehouse(home=theirs, source=home))[TUESDAY] == "merged"
    assert [row for row in _effects(theirs) if row[0] != "m2"] == [row for row in _effects(home) if row[0] != "m2"]


def test_another_run_under_the_same_id_is_never_merged(home: Path, theirs: Path) -> None:
    """Two runs that were killed as they began may have no row but their own."""
    for place, host in ((home, "laptop"), (theirs, "gpu-1")):
        write_rows(home=place, table="runs", run_id="same", rows=[{"status": "failed", "host": host}], part="p")
    done = import_warehouse(home=home, source=theirs)
    assert outcomes(done)["same"] == "refused"
    assert query(home=home, sql="SELECT host FROM runs WHERE run_id = 'same'").rows == [("laptop",)]


def test_a_run_that_has_not_ended_is_skipped(home: Path, theirs: Path) -> None:
    write_rows(home=theirs, table="runs", run_id="busy", rows=[{"status": "running"}], part="p")
    write_rows(home=theirs, table="cells", run_id="rowless", rows=[{"cell_id": "c"}], part="p")
    done = outcomes(import_warehouse(home=home, source=theirs))
    assert (done["busy"], done["rowless"], done[MONDAY]) == ("skipped", "skipped", "imported")
    assert query(home=home, sql="SELECT count(*) FROM runs WHERE run_id = 'busy'").rows == [(0,)]


def _newer(theirs: Path) -> None:
    path = next((theirs / "tables" / "scores" / f"run={TUESDAY}").glob("*.parquet"))
    newer = {METADATA_KEY: str(SCHEMA_VERSION + 1).encode()}
    pq.write_table(pq.ParquetFile(path).read().replace_schema_metadata(newer), path)


def _new_table(theirs: Path) -> None:
    (theirs / "tables" / "of_tomorrow").mkdir()


def _another_run(theirs: Path) -> None:
    path = theirs / "tables" / "scores" / f"run={TUESDAY}" / "p.parquet"
    shutil.copy(theirs / "tables" / "scores" / f"run={MONDAY}" / "p.parquet", path)


def _torn(theirs: Path) -> None:
    path = theirs / "tables" / "scores" / f"run={TUESDAY}" / "p.parquet"
    path.write_bytes(path.read_bytes()[:-20])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_newer, f"schema version {SCHEMA_VERSION + 1}.*use the newer assay"),
        (_new_table, "this assay has no table of_tomorrow"),
        (_another_run, f"holds rows of the run {MONDAY}, in a folder of {TUESDAY}"),
        (_torn, "no Parquet file"),
    ],
)
def test_what_cannot_be_read_is_refused_before_anything_comes(
    home: Path, theirs: Path, change: Callable[[Path], None], words: str
) -> None:
    change(theirs)
    with pytest.raises(AssayError, match=words):
        import_warehouse(home=home, source=theirs)
    assert query(home=home, sql="SELECT count(*) FROM runs").rows == [(0,)]
    assert not any(home.glob(".staging*"))


@pytest.mark.parametrize("name", ["out", "out.zip"])
def test_an_export_is_whole_and_comes_in_elsewhere(home: Path, theirs: Path, tmp_path: Path, name: str) -> None:
    out = export_run(home=theirs, run_id=MONDAY, out=tmp_path / name)
    if name == "out":
        names = {path.relative_to(out.path).as_posix() for path in out.path.rglob("*") if path.is_file()}
        # It is a home by itself.
        assert query(home=shutil.copytree(out.path, tmp_path / "copy"), sql="SELECT name FROM runs").rows == [
            ("nightly",)
        ]
        # A copy that lost its times says the same: they order the parts.
        for path in out.path.rglob("*"):
            os.utime(path, (1, 1))
    else:
        names = set(zipfile.ZipFile(out.path).namelist())
    assert {EXPORT_MANIFEST, f"runs/{MONDAY}/report.html", f"runs/{MONDAY}/experiment.yaml"} <= names
    assert {f"runs/{MONDAY}/engine.log", f"tables/requests/run={MONDAY}/late.parquet"} <= names
    assert not any(name.endswith(("lock", "samples.msgpack", ".tmp")) for name in names)
    assert len(out.files) == len(names) - 1
    assert outcomes(import_warehouse(home=home, source=out.path)) == {MONDAY: "imported"}
    assert outcomes(import_warehouse(home=home, source=theirs))[MONDAY] == "here already"
    assert everything(home) == everything(theirs)
    assert (home / "runs" / MONDAY / "report.html").read_text() == f"<h1>{MONDAY}</h1>"


def test_an_export_is_refused_for_running_runs_and_over_files(theirs: Path, tmp_path: Path) -> None:
    write_rows(home=theirs, table="runs", run_id="busy", rows=[{"status": "running"}], part="p")
    with pytest.raises(ConfigError, match="still running"):
        export_run(home=theirs, run_id="busy", out=tmp_path / "x")
    with pytest.raises(ConfigError, match="no run nobody"):
        export_run(home=theirs, run_id="nobody", out=tmp_path / "x")
    (tmp_path / "x").write_text("mine")
    with pytest.raises(ConfigError, match="exists"):
        export_run(home=theirs, run_id=MONDAY, out=tmp_path / "x")
    assert sorted(path.name for path in tmp_path.iterdir()) == [theirs.name, "x"]


def _edit(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    path = folder / EXPORT_MANIFEST
    manifest = json.loads(path.read_text())
    change(manifest)
    path.write_text(json.dumps(manifest))


def _changed_file(folder: Path) -> None:
    with (folder / "runs" / MONDAY / "engine.log").open("a") as file:
        file.write("one more line\n")


TAMPERED = {
    "sha256": (_changed_file, "its sha256 is another"),
    "missing": (lambda folder: (folder / "runs" / MONDAY / "report.html").unlink(), "report.html is missing"),
    "newer": (lambda folder: _edit(folder, lambda m: m.update(schema_version=99)), "schema version 99.*newer assay"),
    "broken": (lambda folder: (folder / EXPORT_MANIFEST).write_text("{"), "manifest.json is broken"),
    "other": (lambda folder: _edit(folder, lambda m: m.update(format="x")), "is not assay's"),
    "upwards": (lambda folder: _edit(folder, lambda m: m["files"][0].update(path="../../x")), "no file of an export"),
    "absolute": (lambda folder: _edit(folder, lambda m: m["files"][0].update(path="/etc/passwd")), "no file of an exp"),
}


@pytest.mark.parametrize("packed", [False, True], ids=["folder", "zip"])
@pytest.mark.parametrize("name", TAMPERED)
def test_a_changed_export_is_refused(home: Path, theirs: Path, tmp_path: Path, name: str, packed: bool) -> None:
    change, words = TAMPERED[name]
    source = export_run(home=theirs, run_id=MONDAY, out=tmp_path / "out").path
    change(source)
    if packed:
        source = Path(shutil.make_archive(str(tmp_path / "packed"), "zip", source))
    with pytest.raises(AssayError, match=words):
        import_warehouse(home=home, source=source)
    assert not (home / "tables" / "runs").exists()
    assert not any(home.glob(".staging*"))
    assert not (tmp_path / "x").exists()


def test_what_is_no_warehouse_is_said_to_be_none(home: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.zip").write_text("no zip")
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as packed:
        packed.writestr("a.txt", "a")
    for name, words in (
        ("empty", "is no warehouse"),
        ("absent", "there is nothing at"),
        ("text.zip", "no zip that can be read"),
        ("other.zip", "no manifest.json in it"),
    ):
        with pytest.raises(ConfigError, match=words):
            import_warehouse(home=home, source=tmp_path / name)
    with pytest.raises(ConfigError, match="this very warehouse"):
        import_warehouse(home=home, source=home)


_VICTIM = """
import os, signal, sys, time
from pathlib import Path
from warehouse.merge import import_warehouse

for line in sys.stdin:
    child = os.fork()
    if child == 0:
        import_warehouse(home=Path(sys.argv[1]), source=Path(sys.argv[2]))
        os._exit(0)
    time.sleep(float(line))
    os.kill(child, signal.SIGKILL)
    print("killed" if os.WIFSIGNALED(os.waitpid(child, 0)[1]) else "ended", flush=True)
"""


@pytest.mark.parametrize("times", [4, pytest.param(20, marks=pytest.mark.slow)])
def test_an_import_that_is_killed_leaves_each_run_whole_or_absent(home: Path, tmp_path: Path, times: int) -> None:
    source = tmp_path / "source"
    for number in range(8):
        run_id = f"run-{number}"
        for table in ("cells", "metrics", "requests", "runs", "scores"):
            row = {"runs": {"status": "finished"}, "requests": {"request_id": "r", "attempt": 0}}.get(table, {})
            write_rows(home=source, table=table, run_id=run_id, rows=[row], part="p")
        (source / "runs" / run_id).mkdir(parents=True)
        (source / "runs" / run_id / "report.html").write_text(run_id)
    whole = counts(source)
    seen: set[int] = set()
    kills = 0
    random.seed(7)
    victim = subprocess.Popen(
        [sys.executable, "-c", _VICTIM, str(home), str(source)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
    )
    assert victim.stdin is not None
    assert victim.stdout is not None
    began = time.monotonic()
    import_warehouse(home=tmp_path / "at leisure", source=source)
    takes = time.monotonic() - began
    while kills < times:
        victim.stdin.write(f"{random.uniform(0.05 * takes, 1.1 * takes)}\n")
        victim.stdin.flush()
        killed = victim.stdout.readline().strip() == "killed"
        kills += killed
        found = counts(home)
        there = {run_id for run_id, _ in found}
        seen.add(len(there))
        assert found == {key: n for key, n in whole.items() if key[0] in there}, "a run is there as a whole or not"
        for run_id in there:
            assert (home / "runs" / run_id / "report.html").read_text() == run_id
        if not killed or len(there) == 8:
            shutil.rmtree(home)
    victim.stdin.close()
    victim.wait(30)
    assert times < 20 or seen & set(range(1, 8)), "no kill came in the middle"
    import_warehouse(home=home, source=source)
    assert set(outcomes(import_warehouse(home=home, source=source)).values()) == {"here already"}
    assert counts(home) == whole
    assert [path for path in home.rglob("*") if path.is_symlink()] == []
    assert not any(home.glob(".staging*"))


def test_a_manifest_that_leads_elsewhere_is_refused(home: Path, theirs: Path) -> None:
    """Its file is copied beside the others, and would then be looked for where it never was: no query would work."""
    folder = theirs / "tables" / "scores" / f"run={MONDAY}"
    part = next((theirs / "tables" / "runs" / f"run={MONDAY}").glob("*.parquet"))
    aside = folder.parent / "runs"
    aside.mkdir()
    shutil.copy(part, aside / part.name)
    named = [{"name": f"../runs/{part.name}", "holds": "rows"}]
    (folder / "_manifest.json").write_text(json.dumps({"compacted": named, "superseded": {}}))
    with pytest.raises(AssayError, match="is no file's name"):
        import_warehouse(home=home, source=theirs)
    assert query(home=home, sql="SELECT count(*) FROM runs").rows == [(0,)]


def test_rows_of_other_types_are_refused(home: Path, theirs: Path) -> None:
    part = next((theirs / "tables" / "runs" / f"run={MONDAY}").glob("*.parquet"))
    content = pq.read_table(part, partitioning=None)
    at = content.schema.get_field_index("started_at")
    wrong = pa.array(["not a time"] * content.num_rows)
    pq.write_table(content.set_column(at, pa.field("started_at", pa.string()), wrong), part)
    with pytest.raises(AssayError, match="cannot be read"):
        import_warehouse(home=home, source=theirs)
    assert query(home=home, sql="SELECT count(*) FROM runs").rows == [(0,)]
