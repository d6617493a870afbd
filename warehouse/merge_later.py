"""What is written to a run after its end, from another host's copy of it: comparisons, and the run's own row anew.

A comparison, a promotion (a tag) and the id in MLflow are later revisions of rows, on whichever host they were made.
"""

# ruff: noqa: S608 - every name that goes into SQL here is quoted first
from collections.abc import Mapping
from pathlib import Path

import duckdb
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from warehouse import scan
from warehouse.parquet import read_rows, write_table
from warehouse.parts import RunFiles
from warehouse.schema import TABLES
from warehouse.schema.table import quoted

WRITTEN_LATER = ("comparisons", "runs")
_SAME_RUN = ["name", "started_at", "host", "user"]


def is_same_run(*, home: Path, other: Path, run_id: str) -> bool:
    """Whether two warehouses mean one run by this id: what its row says of its start is equal."""
    rows = [read_rows(each, "runs", run_id, columns=_SAME_RUN) for each in (home, other)]
    return rows[0] == rows[1]


def take_later_rows(
    *, connection: duckdb.DuckDBPyConnection, home: Path, ours: Mapping[str, RunFiles], theirs: Mapping[str, RunFiles]
) -> dict[str, int]:
    """Adds the rows of WRITTEN_LATER that `home` lacks or has in a lower revision; gives how many, by table.

    Of equal revisions that differ, ours stays: so a second import adds nothing. Each table's rows are durable when the
    next one's begin, and a kill between them leaves only what the next import does.
    """
    added = {}
    for name in WRITTEN_LATER:
        rows = _missing(connection=connection, ours=ours[name], theirs=theirs[name])
        for revision in sorted(set(rows["revision"].to_pylist())):
            some = rows.filter(pc.equal(rows["revision"], revision))
            write_table(
                home=home,
                table=name,
                run_id=theirs[name].run_id,
                arrow=some,
                part=f"{revision:04d}-imported",
                revision=revision,
            )
        if rows.num_rows:
            added[name] = rows.num_rows
    return added


def _missing(*, connection: duckdb.DuckDBPyConnection, ours: RunFiles, theirs: RunFiles) -> pa.Table:
    table = TABLES[theirs.table]
    there, here = (
        scan.newest(table=table, paths=files.paths) if files.paths else scan.empty(table) for files in (theirs, ours)
    )
    same_key = " AND ".join(f"t.{quoted(name)} IS NOT DISTINCT FROM o.{quoted(name)}" for name in table.key)
    return connection.sql(
        f"SELECT t.* FROM ({there}) t WHERE NOT EXISTS"
        f" (SELECT 1 FROM ({here}) o WHERE {same_key} AND o.revision >= t.revision)"
    ).to_arrow_table()
