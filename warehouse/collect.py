"""What a build reads: the files that count, and how much of it the present database already holds."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import duckdb

from warehouse import folders, scan
from warehouse.folders import Columns, Content, Key, Look
from warehouse.parts import RunFiles
from warehouse.schema import TABLES
from warehouse.schema.table import literal

DATABASE = "assay.duckdb"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One moment's files. changed: the folders whose rows are not in the present database as they are now; reused: its
    rows are taken over for the others; files: all but the small tables' that are taken over."""

    home: Path
    setup: str
    seen: Look
    contents: dict[Key, Content]
    files: Sequence[RunFiles]
    changed: frozenset[Key]
    reused: bool
    known: dict[Key, list[Columns | None]]
    _columns: dict[Path, Columns] = field(default_factory=dict)

    def columns_of(self, path: Path) -> Columns:
        """The columns of a file, which is opened only if they are not known. Raises as `scan.columns_of` does."""
        if path not in self._columns:
            self._columns[path] = scan.columns_of(path)
        return self._columns[path]

    def note(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Notes in the open database what it was built from."""
        columns = dict(self.known)
        for each in self.files:
            columns[each.table, each.run_id] = [self._columns.get(path) for path in each.paths]
        folders.write_noted(connection, setup=self.setup, seen=self.seen, contents=self.contents, columns=columns)


def collect(*, home: Path, setup: str, anew: bool) -> Source:
    """Looks at every folder, and lists those that the present database does not know as they are. anew: list all."""
    seen = folders.look(home)  # first: what changes from here on is newer than the database and will be seen
    contents: dict[Key, Content] = {}
    known: dict[Key, list[Columns | None]] = {}
    changed = set(seen.stamps)
    reused = False
    if not anew:
        with reading(home) as connection:
            if connection is not None:
                try:
                    noted = folders.read_noted(connection)
                    if noted.setup == setup:
                        contents, known = folders.read_all(connection)
                        changed, reused = set(noted.maybe_changed(seen)), True
                except duckdb.Error:
                    contents, known, changed, reused = {}, {}, set(seen.stamps), False  # broken: do without it
    files = []
    columns: dict[Path, Columns] = {}
    now: dict[Key, Content] = {}
    for key in seen.stamps:
        if key in changed:
            listed = folders.listed(home=home, key=key)
            now[key] = folders.content(listed)
            if key in contents and now[key] == contents[key]:
                changed.discard(key)
        else:
            now[key] = contents[key]
            if TABLES[key[0]].small:
                continue
            listed = folders.from_content(home=home, key=key, noted=contents[key])
        if key not in changed:
            pairs = zip(listed.paths, known.get(key, ()), strict=False)
            columns |= {path: names for path, names in pairs if names is not None}
        files.append(listed)
    return Source(
        home=home,
        setup=setup,
        seen=seen,
        contents=now,
        files=files,
        changed=frozenset(changed),
        reused=reused,
        known={key: known[key] for key in now if key in known},
        _columns=columns,
    )


@contextmanager
def reading(home: Path) -> Iterator[duckdb.DuckDBPyConnection | None]:
    """A connection with the present database attached as `warehouse`; None where there is none that can be read.

    Attached to a database of its own: connecting by path would share an instance that still has the old file."""
    if not (home / DATABASE).exists():
        yield None
        return
    with duckdb.connect(config={"threads": 1}) as connection:
        try:
            connection.execute(attach(home))
        except duckdb.Error:
            attached = False
        else:
            attached = True
        yield connection if attached else None


def attach(home: Path) -> str:
    """The statement that attaches the present database as `warehouse`."""
    return f"ATTACH {literal(str(home / DATABASE))} AS warehouse (READ_ONLY)"
