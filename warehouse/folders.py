"""What a build saw of the runs' folders, so that the next look costs one `stat` a folder.

A folder's change time moves whenever a file in it appears, goes or is renamed, and nothing that assay does changes a
file in place. So a folder whose change time is the one noted holds what was noted, unless that moment is so close to
the look that another change may bear the same one: such a folder is listed again.
"""

import json
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import duckdb
import pyarrow as pa  # type: ignore[import-untyped]

from warehouse.parts import Compacted, RunFiles, is_name, run_files, run_folder, stored_tables, tables_folder

Key: TypeAlias = tuple[str, str]
"""A table and a run."""
Stamp: TypeAlias = tuple[int, int]
"""A folder's change time in ns, and its inode."""
Content: TypeAlias = list[list[str | int | None]]
"""Of each file that counts its name, what it holds, and of a part its size and the time it was written (ns)."""

Columns: TypeAlias = frozenset[str]
"""The columns that a file has."""

_COLUMN_SETS = "SELECT names FROM warehouse.build.column_sets ORDER BY number"
_UNSURE_NS = 2_000_000_000
"""Covers file systems that note whole seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The folders as of one moment. at_ns: before the first was looked at."""

    at_ns: int
    stamps: Mapping[Key, Stamp]


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted:
    """What a database says that it was built from. setup: all that is not in the folders."""

    setup: str
    look: Look

    def maybe_changed(self, now: Look) -> list[Key]:
        """The folders of `now` that may hold something else than they did, and those that are gone."""
        then, unsure = self.look.stamps, self.look.at_ns - _UNSURE_NS
        changed = [key for key, stamp in now.stamps.items() if then.get(key) != stamp or stamp[0] >= unsure]
        return changed + [key for key in then if key not in now.stamps]


def look(home: Path) -> Look:
    """All folders of runs, as they are now."""
    at_ns = time.time_ns()
    stamps: dict[Key, Stamp] = {}
    for table in stored_tables():
        try:
            entries = os.scandir(tables_folder(home) / table)
        except FileNotFoundError:
            continue
        with entries:
            for entry in entries:
                run_id = entry.name.removeprefix("run=")
                if run_id != entry.name and is_name(run_id) and entry.is_dir():
                    try:
                        state = entry.stat()
                    except FileNotFoundError:
                        continue  # it went meanwhile
                    stamps[table, run_id] = (state.st_ctime_ns, entry.inode())
    return Look(at_ns=at_ns, stamps=stamps)


def listed(*, home: Path, key: Key) -> RunFiles:
    """The files of a folder that count now."""
    return run_files(home=home, table=key[0], run_id=key[1])


def content(files: RunFiles) -> Content:
    """What tells these files from others, as JSON may hold it."""
    found: Content = [[each.name, each.holds, None, None] for each in files.compacted]
    for path in files.fresh:
        try:
            state = path.stat()
        except FileNotFoundError:
            found.append([path.name, None, None, None])
        else:
            found.append([path.name, None, state.st_size, state.st_mtime_ns])
    return found


def from_content(*, home: Path, key: Key, noted: Content) -> RunFiles:
    """The files that were noted so."""
    folder = run_folder(home=home, table=key[0], run_id=key[1])
    return RunFiles(
        table=key[0],
        run_id=key[1],
        folder=folder,
        compacted=tuple(Compacted(name=str(name), holds=str(holds)) for name, holds, *_ in noted if holds is not None),
        fresh=tuple(folder / str(name) for name, holds, *_ in noted if holds is None),
    )


def read_noted(connection: duckdb.DuckDBPyConnection) -> Noted:
    """What the attached database `warehouse` was built from. Raises duckdb.Error where it does not say."""
    state = connection.execute("SELECT setup, looked_at_ns FROM warehouse.build.state").fetchall()
    folders = connection.execute("SELECT table_name, run_id, changed_ns, inode FROM warehouse.build.folders").fetchall()
    (setup, at_ns), *_ = state or [("", 0)]
    stamps = {(table, run_id): (changed_ns, inode) for table, run_id, changed_ns, inode in folders}
    return Noted(setup=setup, look=Look(at_ns=at_ns, stamps=stamps))


def read_contents(connection: duckdb.DuckDBPyConnection, keys: Iterable[Key]) -> dict[Key, Content]:
    """The contents that the attached database `warehouse` notes of these folders."""
    wanted = [{"t": table, "r": run_id} for table, run_id in keys]
    if not wanted:
        return {}
    rows = connection.execute(
        "SELECT table_name, run_id, content FROM warehouse.build.folders"
        " WHERE {'t': table_name, 'r': run_id} IN (SELECT unnest(?::STRUCT(t VARCHAR, r VARCHAR)[]))",
        [wanted],
    ).fetchall()
    return {(table, run_id): json.loads(text) for table, run_id, text in rows}


def read_all(connection: duckdb.DuckDBPyConnection) -> tuple[dict[Key, Content], dict[Key, list[Columns | None]]]:
    """All contents that it notes, and the columns of their files as far as the builder knew them."""
    sets = [frozenset(names) for (names,) in connection.execute(_COLUMN_SETS).fetchall()]
    rows = connection.execute("SELECT table_name, run_id, content, columns FROM warehouse.build.folders").fetchall()
    contents = {(table, run_id): json.loads(text) for table, run_id, text, _ in rows}
    columns = {
        (table, run_id): [None if number is None else sets[number] for number in numbers]
        for table, run_id, _, numbers in rows
    }
    return contents, columns


def write_noted(
    connection: duckdb.DuckDBPyConnection,
    *,
    setup: str,
    seen: Look,
    contents: Mapping[Key, Content],
    columns: Mapping[Key, list[Columns | None]],
) -> None:
    """Notes in the open database what it was built from."""
    keys = list(contents)
    sets = {names: number for number, names in enumerate({each for key in keys for each in columns[key] if each})}
    noted = pa.table(
        {
            "table_name": pa.array([table for table, _ in keys], pa.string()),
            "run_id": pa.array([run_id for _, run_id in keys], pa.string()),
            "changed_ns": pa.array([seen.stamps[key][0] for key in keys], pa.int64()),
            "inode": pa.array([seen.stamps[key][1] for key in keys], pa.uint64()),
            "content": pa.array([json.dumps(contents[key]) for key in keys], pa.string()),
            "columns": pa.array(
                [[sets[each] if each else None for each in columns[key]] for key in keys], pa.list_(pa.int64())
            ),
        }
    )
    numbered = pa.table(
        {
            "number": pa.array(range(len(sets)), pa.int64()),
            "names": pa.array([sorted(names) for names in sets], pa.list_(pa.string())),
        }
    )
    connection.execute(
        "CREATE TABLE build.state AS SELECT ?::VARCHAR AS setup, ?::BIGINT AS looked_at_ns", [setup, seen.at_ns]
    )
    connection.register("noted", noted)
    connection.execute("CREATE TABLE build.folders AS SELECT * FROM noted")
    connection.unregister("noted")
    connection.register("numbered", numbered)
    connection.execute("CREATE TABLE build.column_sets AS SELECT * FROM numbered")
    connection.unregister("numbered")
