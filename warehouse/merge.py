"""Another host's warehouse into this one: each run as a whole, once, never over one that is here."""

# ruff: noqa: S608 - every name and text that goes into SQL here is quoted first
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import duckdb

from schemas.errors import AssayError, ConfigError
from warehouse import scan
from warehouse.copying import check_files, copy_files, copy_tables
from warehouse.export import EXPORT_MANIFEST
from warehouse.merge_later import WRITTEN_LATER, is_same_run, take_later_rows
from warehouse.parquet import read_rows
from warehouse.parts import RunFiles, run_files, stored_tables, sync_folder, tables_folder
from warehouse.places import FILES, clear_staging, every_run, files_folder, maintenance, new_staging, places, publish
from warehouse.schema import TABLES
from warehouse.schema.table import literal, quoted
from warehouse.unpack import opened

Outcome = Literal["imported", "merged", "here already", "refused", "skipped"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedRun:
    """What became of one run. rows: those that came, of all its tables; reason: why it did not come, or of a merged
    one what came; else None."""

    run_id: str
    name: str | None
    started_at: datetime | None
    host: str | None
    user: str | None
    outcome: Outcome
    rows: int | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What came of an import, run by run."""

    source: Path
    runs: tuple[ImportedRun, ...]

    def count(self, outcome: Outcome) -> int:
        """How many runs ended so."""
        return sum(run.outcome == outcome for run in self.runs)


def import_warehouse(
    *, home: Path, source: Path, on_progress: Callable[[int, int, str], None] | None = None
) -> Imported:
    """Merges a warehouse (an ASSAY_HOME, or what `export_run` wrote) into `home`.

    Everything is checked before anything is changed: the sha256 of an export's files, the schema version, that each
    file holds the run that its folder says. Then each run appears in one step; a kill leaves none half there, and the
    next import goes on. A run that is here with the same rows stays as it is; what was written to it after its end
    (comparisons, its tags) is merged, and the higher revision of a row counts; one with other rows is refused by name.
    A run that had not ended is skipped. on_progress gets the run's number, how many there are, and the run's id.
    Raises ConfigError for a source that is none, or was changed; AssayError for data of a newer assay.
    """
    home = home.resolve()
    if source.resolve() == home:
        raise ConfigError.one(f"{source} is this very warehouse", suggestion="name another host's")
    with maintenance(home):
        clear_staging(home)
        staging = new_staging(home)
        try:
            with opened(source=source, staging=staging) as root:
                return _merged(home=home, source=source, root=root, staging=staging, on_progress=on_progress)
        finally:
            clear_staging(home)


def _merged(
    *,
    home: Path,
    source: Path,
    root: Path,
    staging: Path,
    on_progress: Callable[[int, int, str], None] | None,
) -> Imported:
    _check_tables(root)
    found = every_run(root)
    if not found and not (root / EXPORT_MANIFEST).exists() and not tables_folder(root).is_dir():
        raise ConfigError.one(
            f"{source} is no warehouse: neither a folder `tables` nor {EXPORT_MANIFEST} in it",
            suggestion="name an ASSAY_HOME, or what `assay export` wrote",
        )
    files = {run_id: _files(home=root, run_id=run_id) for run_id in found}
    for run_id, mine in files.items():
        check_files(files=mine, run_id=run_id)
    outcomes = []
    with _connection() as connection:
        for number, run_id in enumerate(found, start=1):
            if on_progress is not None:
                on_progress(number, len(found), run_id)
            outcomes.append(
                _merge_run(connection=connection, home=home, root=root, staged=staging / "runs" / run_id, run_id=run_id)
            )
    return Imported(source=source, runs=tuple(outcomes))


def _check_tables(root: Path) -> None:
    """Raises AssayError for a table that this assay does not have: only a newer one can have written it."""
    folder = tables_folder(root)
    if not folder.is_dir():
        return
    for entry in sorted(folder.iterdir()):
        if entry.is_dir() and not entry.name.startswith((".", "_")) and entry.name not in stored_tables():
            raise AssayError(
                f"{entry}: this assay has no table {entry.name} (use the newer assay that wrote this warehouse)"
            )


def _merge_run(
    *, connection: duckdb.DuckDBPyConnection, home: Path, root: Path, staged: Path, run_id: str
) -> ImportedRun:
    stored = read_rows(root, "runs", run_id)
    row: dict[str, Any] = stored[0] if stored else {}

    def ended(outcome: Outcome, reason: str | None = None, rows: int | None = None) -> ImportedRun:
        told = {name: row.get(name) for name in ("name", "started_at", "host", "user")}
        return ImportedRun(run_id=run_id, outcome=outcome, reason=reason, rows=rows, **told)

    if not row:
        return ended("skipped", "it has no row in `runs`: it was killed as it began")
    theirs = _files(home=root, run_id=run_id)
    here = [name for name, place in places(home=home, run_id=run_id).items() if place.exists()]
    if any(name != FILES for name in here):
        return ended(*_joined(connection=connection, home=home, root=root, theirs=theirs))
    if here:
        return ended("refused", f"{files_folder(home=home, run_id=run_id)} is there, but no rows: move it away")
    if row["status"] == "running":
        return ended("skipped", "it was still running, or killed: import it when it has ended")
    copy_tables(home=root, run_id=run_id, folders={table: staged / table for table in stored_tables()})
    copy_files(source=files_folder(home=root, run_id=run_id), target=staged / FILES)
    sync_folder(staged)
    rows = sum(_digest(connection=connection, files=each)[0] for each in _files_in(staged=staged, like=theirs))
    publish(home=home, run_id=run_id, staged=staged)
    return ended("imported", rows=rows)


def _joined(
    *, connection: duckdb.DuckDBPyConnection, home: Path, root: Path, theirs: Sequence[RunFiles]
) -> tuple[Outcome, str | None, int | None]:
    """The outcome, reason and new rows of a run that is here: what was written to it after its end is merged."""
    run_id = theirs[0].run_id
    ours = _files(home=home, run_id=run_id)
    other = _different_tables(connection=connection, ours=ours, theirs=theirs)
    if set(other) - set(WRITTEN_LATER) or (other and not is_same_run(home=home, other=root, run_id=run_id)):
        return "refused", f"a run of this id is here with other rows in {', '.join(other)}", None
    by_table = [{each.table: each for each in files} for files in (ours, theirs)]
    added = take_later_rows(connection=connection, home=home, ours=by_table[0], theirs=by_table[1]) if other else {}
    if not added:
        return "here already", None, None
    told = ", ".join(f"{n:,} row{'s' if n != 1 else ''} of {name}" for name, n in added.items())
    return "merged", told, sum(added.values())


def _different_tables(
    *, connection: duckdb.DuckDBPyConnection, ours: Sequence[RunFiles], theirs: Sequence[RunFiles]
) -> list[str]:
    """The tables whose rows differ, whatever files they lie in: only the highest revisions are compared."""
    other = {each.table: each for each in theirs}
    return [
        each.table
        for each in ours
        if _digest(connection=connection, files=each) != _digest(connection=connection, files=other[each.table])
    ]


def _files(*, home: Path, run_id: str) -> list[RunFiles]:
    return [run_files(home=home, table=table, run_id=run_id) for table in stored_tables()]


def _files_in(*, staged: Path, like: Sequence[RunFiles]) -> list[RunFiles]:
    """The same files where they were copied to."""
    return [
        RunFiles(
            table=each.table,
            run_id=each.run_id,
            folder=staged / each.table,
            compacted=each.compacted,
            fresh=tuple(staged / each.table / path.name for path in each.fresh),
        )
        for each in like
    ]


def _digest(*, connection: duckdb.DuckDBPyConnection, files: RunFiles) -> tuple[int, int, int]:
    """How many rows, and two sums over their hashes, which do not depend on the order of the rows."""
    if not files.paths:
        return 0, 0, 0
    table = TABLES[files.table]
    columns = ", ".join(quoted(name) for name in table.names)
    select = scan.newest if files.fresh else scan.straight  # compacted files hold each key once
    rows = select(table=table, paths=files.paths)
    sql = f"SELECT count(*), bit_xor(h), sum(h::HUGEINT) FROM (SELECT hash({columns}) AS h FROM ({rows}))"
    try:
        count, mixed, summed = connection.execute(sql).fetchall()[0]
    except duckdb.Error as error:
        told = str(error).strip().splitlines()[0]
        raise ConfigError.one(
            f"run {files.run_id}: its rows of {files.table} cannot be read: {told}", suggestion="take a fresh copy"
        ) from error
    return int(count), int(mixed or 0), int(summed or 0)


@contextmanager
def _connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with (
        TemporaryDirectory(prefix="assay-merge-") as spill,
        duckdb.connect(config={"memory_limit": "512MB", "threads": 2}) as connection,
    ):
        connection.execute(f"SET temp_directory = {literal(spill)}")
        connection.execute("SET TimeZone = 'UTC'")
        yield connection
