"""kill -9 in the middle of a write, a compaction and a rebuild: nothing committed is lost, nothing is there twice."""

import os
import random
import signal
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.e2e.command import ROOT, environment
from tests.faults.warehouse_work import BIG_ROWS, KILLED_RUN, OPERATIONS
from warehouse.build import build
from warehouse.parquet import compact_run, read_rows, remove_superseded, write_rows
from warehouse.parts import COMPACTED_PREFIX, read_manifest
from warehouse.query import query

MEASURED = 3
SPREAD = (0.0, 1.05)
"""Moments of the kills, as shares of how long the operation takes when nobody kills it."""
EVERY_EARLY = 10
"""One kill in so many comes before the operation begins."""


@dataclass
class Tally:
    """What the kills did. inside: the operation had begun and had not ended."""

    before: int = 0
    inside: int = 0
    after: int = 0
    with_leftovers: int = 0
    committed: dict[str, int] = field(default_factory=dict)
    durations_s: list[float] = field(default_factory=list)

    @property
    def usual_s(self) -> float:
        """Of late: what else the machine does changes."""
        return statistics.median(self.durations_s[-7:])

    def row(self, operation: str, *, rows: int) -> str:
        kills = self.before + self.inside + self.after
        return (
            f"| {operation} | {self.usual_s * 1000:.0f} ms | {kills} | {self.before} | {self.inside} | {self.after} |"
            f" {self.with_leftovers} | {rows:,} | 0 | 0 |"
        )


HEAD = """
| operation | takes | kills | before | inside | after | left half-made files | committed rows | lost | twice |
|---|---|---|---|---|---|---|---|---|---|"""


class Forks:
    """The process that forks the victims: nothing has to be imported for each."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def line(self) -> list[str]:
        assert self._process.stdout is not None
        found = self._process.stdout.readline().split()
        assert found, f"the victims' process ended: {self._process.poll()}"
        return found

    def ask(self, operation: str, number: int) -> int:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{operation} {number}\n")
        self._process.stdin.flush()
        return int(self.line()[1])


@contextmanager
def _forks(home: Path) -> Iterator[Forks]:
    command = [sys.executable, "-m", "tests.faults.warehouse_work", "victims", str(home)]
    with subprocess.Popen(
        command, env=environment(home), cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as process:
        yield Forks(process)
        assert process.stdin is not None
        process.stdin.close()


@pytest.mark.parametrize("kills", [5, pytest.param(50, marks=pytest.mark.slow)])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_killed_in_the_middle(operation: str, kills: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    seed = 20261128
    choose, tally = random.Random(f"{seed} {operation}"), Tally()
    with _forks(tmp_path) as forks:
        for number in range(MEASURED):
            _let_live(forks=forks, operation=operation, number=number, tally=tally)
        for number in range(MEASURED, MEASURED + kills):
            early = number % EVERY_EARLY == EVERY_EARLY - 1
            moment = choose.uniform(*SPREAD)
            print(f"{operation} {number}: seed {seed}, {'before it' if early else f'at {moment:.2f} of it'}")
            _kill(forks=forks, operation=operation, number=number, tally=tally, moment=None if early else moment)
            tally.with_leftovers += bool(_leftovers(tmp_path))
            rows = _check(home=tmp_path, tally=tally, with_sql=operation == "rebuild" or number % 5 == 0)
    _check_that_all_goes_on(home=tmp_path, tally=tally)
    with capsys.disabled() if kills > 5 else nullcontext():
        print(HEAD if operation == "write" else "", tally.row(operation, rows=rows), sep="\n")
    assert tally.inside >= (0.6 if kills > 5 else 0.4) * kills, "too few kills hit the operation itself"
    if kills > 5:
        assert tally.with_leftovers > kills / 10, "hardly a kill left anything half-made: they missed the writing"


def _let_live(*, forks: Forks, operation: str, number: int, tally: Tally) -> None:
    child = forks.ask(operation, number)
    while (line := forks.line()) != ["gone"]:
        _note(line=line, tally=tally)
        if line[0] == "end":
            os.kill(child, signal.SIGKILL)


def _kill(*, forks: Forks, operation: str, number: int, tally: Tally, moment: float | None) -> None:
    """Kills the child at a share of the operation's usual time, or with None as soon as it has committed something."""
    child = forks.ask(operation, number)
    reached = "before"
    while reached == "before":
        line = forks.line()
        _note(line=line, tally=tally)
        if line == ["begin"]:
            reached = "inside"
        elif moment is None:
            break
    time.sleep(tally.usual_s * (moment or 0.0))
    os.kill(child, signal.SIGKILL)
    while (line := forks.line()) != ["gone"]:
        _note(line=line, tally=tally)
        reached = {"begin": "inside", "end": "after"}.get(line[0], reached)
    setattr(tally, reached, getattr(tally, reached) + 1)


def _note(*, line: list[str], tally: Tally) -> None:
    if line[0] == "committed":
        tally.committed[line[1]] = int(line[2])
    elif line[0] == "end":
        tally.durations_s.append(float(line[1]))


def _leftovers(home: Path) -> list[Path]:
    """What a killed process left half-made: files under a temporary name, compacted ones that no manifest names."""
    found = [*home.glob(".build-*-*"), *home.rglob("*.tmp")]
    for folder in home.glob("tables/*/run=*"):
        manifest = read_manifest(folder)
        named = {each.name for each in manifest.compacted} | manifest.superseded.keys()
        found += [path for path in folder.glob(f"{COMPACTED_PREFIX}*.parquet") if path.name not in named]
    return found


def _check(*, home: Path, tally: Tally, with_sql: bool) -> int:
    """All that was committed is there once; of what was not, all of a part or nothing. Returns the rows committed."""
    rows = read_rows(home, "requests", KILLED_RUN, columns=["request_id", "attempt", "revision"])
    keys = Counter((row["request_id"], row["attempt"]) for row in rows)
    wanted = {(name, attempt) for name in tally.committed for attempt in range(2)} | {("revised", 0)}
    assert wanted <= keys.keys(), f"lost: {sorted(wanted - keys.keys())}"
    assert set(keys.values()) == {1}, "a row is there twice"
    revision = next(row["revision"] for row in rows if row["request_id"] == "revised")
    assert revision >= max(tally.committed.values()), "an older revision came back"
    big = Counter(name.rpartition("-")[0] for name, _ in keys if name.startswith("big-"))
    assert set(big.values()) <= {BIG_ROWS}, "a part is there in part"
    if with_sql:
        sql = "SELECT request_id, attempt FROM request_attempts ORDER BY ALL"
        assert query(home=home, sql=sql).rows == sorted(keys)
        sql = "SELECT count(*), count(DISTINCT request_id) FROM requests"
        assert query(home=home, sql=sql).rows == [(len({name for name, _ in keys}),) * 2]
        # One that was killed when its file was in place already leaves its empty folders to the next that has work.
        left = [path for path in home.glob(".build-*-*/**/*") if path.is_file()]
        assert not left, "the next build takes away what a killed one left"
    return len(wanted)


def _check_that_all_goes_on(*, home: Path, tally: Tally) -> None:
    """Writing, compacting, cleaning up and building work after the last kill, and leave nothing half-made."""
    rows = [{"request_id": "last", "attempt": attempt} for attempt in range(2)]
    write_rows(home=home, table="requests", run_id=KILLED_RUN, rows=rows, part="last")
    tally.committed["last"] = 0
    build(home)
    _check(home=home, tally=tally, with_sql=True)
    compact_run(home=home, run_id=KILLED_RUN)
    remove_superseded(home, 0)
    build(home)
    _check(home=home, tally=tally, with_sql=True)
    assert not _leftovers(home)
    files = sorted(path.name.partition("-")[0] for path in (home / "tables" / "requests").rglob("*") if path.is_file())
    assert files == ["_compacted", "_compacted", "_lock", "_manifest.json"]
