"""Files that an earlier assay wrote are read; a schema cannot change unnoticed; what cannot be read is named."""

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.data.warehouse.make import HERE, answers, snapshot
from tests.e2e.command import assay
from warehouse.parquet import compact_run, read_rows, write_rows
from warehouse.parts import run_ids
from warehouse.query import query
from warehouse.schema import SCHEMA_VERSION, TABLES
from warehouse.schema.changes import CHANGES, METADATA_KEY, Change

RUN = "20261127T220355-3f9a2c"
VERSIONS = [change.version for change in CHANGES]
Schema = Mapping[str, Mapping[str, str]]


def _kept(version: int) -> Path:
    return HERE / f"v{version}"


def _stored_schema(version: int) -> Schema:
    found: Schema = json.loads((_kept(version) / "schema.json").read_text())
    return found


def _copy(version: int, target: Path) -> Path:
    shutil.copytree(_kept(version), target)
    return target


@pytest.mark.parametrize("version", VERSIONS)
def test_kept_files_of_a_version_tell_the_same_today(version: int, tmp_path: Path) -> None:
    wanted = json.loads((_kept(version) / "answers.json").read_text())
    home = _copy(version, tmp_path / "home")
    for after in ("as kept", "compacted"):
        found = json.loads(json.dumps(answers(home), default=str))
        assert {name: found["tables"][name] for name in wanted["tables"]} == wanted["tables"], after
        assert found["leaderboard"] == wanted["leaderboard"], after
        told = {name for name, rows in wanted["views"].items() if rows}
        assert {name for name, rows in found["views"].items() if rows} >= told, after
        assert {row["tags"]["kept"] for row in read_rows(home, "runs")} == {"yes"}, "the revised row counts"
        for run_id in run_ids(home=home, table="runs"):
            compact_run(home=home, run_id=run_id)


def test_kept_files_of_the_first_version_fill_every_view() -> None:
    wanted = json.loads((_kept(1) / "answers.json").read_text())
    assert set(wanted["tables"]) == set(_stored_schema(1)) - {"schema_version"}
    assert {name for name, rows in wanted["views"].items() if not rows} <= {"flips"}, "its example names other runs"
    files = list(_kept(1).rglob("*.parquet"))
    assert {pq.ParquetFile(path).schema_arrow.metadata[METADATA_KEY] for path in files} == {b"1"}
    assert any(path.name.startswith("_compacted-") for path in files)


def test_flips_reads_kept_files(tmp_path: Path) -> None:
    home = _copy(1, tmp_path / "home")
    first, second = run_ids(home=home, table="runs")
    columns = query(home=home, sql=f"FROM flips('{first}', '{second}')").columns
    assert "sample_id" in columns


@pytest.mark.parametrize("version", VERSIONS)
def test_the_schema_is_as_its_versions_say(version: int) -> None:
    """Tells what to do when it fails."""
    change = next(each for each in CHANGES if each.version == version)
    folder = _kept(version)
    assert folder.is_dir(), (
        f"no files of schema version {version} are kept: python {HERE / 'make.py'} HOME RUN RUN, with two finished runs"
    )
    if version == SCHEMA_VERSION:
        found = differences(old=_stored_schema(version), new=snapshot(), added=())
        assert not found, f"{'; '.join(found)}. {_ADVICE}"
    if version > 1:
        found = differences(old=_stored_schema(version - 1), new=_stored_schema(version), added=change.added)
        assert not found, f"{'; '.join(found)}. {_ADVICE}"


_ADVICE = (
    "Files with another schema are out there: append a Change with the next version to warehouse/schema/changes.py, "
    "name the new `table.column`s in `added`, never take a column away or change its type, then keep files of the new "
    f"version with {HERE.name}/make.py"
)


def differences(*, old: Schema, new: Schema, added: tuple[str, ...]) -> list[str]:
    """What changed from old to new without being named in added."""
    before = {f"{table}.{column}": kind for table, columns in old.items() for column, kind in columns.items()}
    after = {f"{table}.{column}": kind for table, columns in new.items() for column, kind in columns.items()}
    found = [f"{name} is gone" for name in before if name not in after]
    found += [
        f"{name} was {before[name]} and is {kind}" for name, kind in after.items() if before.get(name, kind) != kind
    ]
    found += [f"{name} is new" for name in after if name not in before and name not in added]
    return found + [f"{name} is named as added and is not new" for name in added if name in before or name not in after]


def test_a_change_of_the_schema_is_noticed() -> None:
    old = {"runs": {"run_id": "VARCHAR", "n": "BIGINT"}}
    assert differences(old=old, new=old, added=()) == []
    more = {"runs": {**old["runs"], "cost": "DOUBLE"}}
    assert differences(old=old, new=more, added=()) == ["runs.cost is new"]
    assert differences(old=old, new=more, added=("runs.cost",)) == []
    assert differences(old=more, new=old, added=()) == ["runs.cost is gone"]
    assert differences(old=old, new={"runs": {"run_id": "VARCHAR", "n": "DOUBLE"}}, added=()) == [
        "runs.n was BIGINT and is DOUBLE"
    ]
    assert differences(old=old, new=old, added=("runs.n",)) == ["runs.n is named as added and is not new"]
    assert [Change(version=number, what="").version for number in VERSIONS] == list(range(1, SCHEMA_VERSION + 1))


@pytest.mark.parametrize("compacted", [False, True], ids=["parts", "compacted"])
@pytest.mark.parametrize("table", ["runs", "samples", "requests"])
def test_a_column_that_a_file_lacks_is_null(home: Path, table: str, compacted: bool) -> None:
    """In one of two files, and in both; for a table in the database and for those behind views."""
    column = {"runs": "error", "samples": "prompt", "requests": "output"}[table]
    other = next(name for name in TABLES[table].key if name != "run_id") if table != "runs" else "name"
    value = {"attempt": 0}.get(other, "old")
    old = write_rows(home=home, table=table, run_id=RUN, rows=[{other: value, column: "lost"}], part="old")
    content = pq.ParquetFile(old).read().drop_columns([column])
    pq.write_table(content, old)
    sql = f"SELECT {column} FROM {table} WHERE run_id = '{RUN}'"
    assert query(home=home, sql=sql).rows == [(None,)]
    write_rows(home=home, table=table, run_id="20261128T220355-7b01de", rows=[{other: value, column: "kept"}], part="p")
    if compacted:
        compact_run(home=home, run_id=RUN)
        compact_run(home=home, run_id="20261128T220355-7b01de")
    assert query(home=home, sql=sql).rows == [(None,)]
    assert sorted(query(home=home, sql=f"SELECT {column} FROM {table}").rows, key=str) == [("kept",), (None,)]


def _newer(path: Path) -> None:
    newer = {METADATA_KEY: str(SCHEMA_VERSION + 1).encode()}
    pq.write_table(pq.ParquetFile(path).read().replace_schema_metadata(newer), path)


def _foreign(path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), path)


def _truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-30])


def _cut_in_the_middle(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def _empty(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("table", ["runs", "requests"])
@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (_newer, f"schema version {SCHEMA_VERSION + 1}, and this assay knows versions up to {SCHEMA_VERSION}"),
        (_foreign, "assay did not write it"),
        (_truncated, "no Parquet file"),
        (_cut_in_the_middle, "no Parquet file"),
        (_empty, "no Parquet file"),
    ],
)
def test_a_file_that_cannot_be_read_is_named_by_assay_sql(
    filled: Path, table: str, spoil: Callable[[Path], None], words: str
) -> None:
    path = filled / "tables" / table / f"run={RUN}" / "part-0.parquet"
    spoil(path)
    done = assay("sql", f"FROM {table}", home=filled, timeout_s=30)
    assert done.code == 1
    assert done.stdout == ""
    assert done.stderr.startswith(f"error: {path}: ")
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_manifest_that_is_no_manifest_is_named(filled: Path) -> None:
    compact_run(home=filled, run_id=RUN)
    manifest = filled / "tables" / "requests" / f"run={RUN}" / "_manifest.json"
    manifest.write_bytes(manifest.read_bytes()[:40])
    done = assay("sql", "FROM runs", home=filled, timeout_s=30)
    assert done.code == 1
    assert str(manifest) in done.stderr
    assert "backup" in done.stderr
