"""What the processes of the warehouse's fault tests do: `python -m tests.faults.warehouse_work ROLE HOME NOTES …`."""

import json
import os
import secrets
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from warehouse.build import build, ensure_fresh
from warehouse.compact import compact_run, remove_superseded
from warehouse.parquet import write_rows
from warehouse.parts import run_ids
from warehouse.query import query

GRACE_S = 10.0
"""How long replaced files stay in the stress test; in use it is longer. A reader takes far less."""
RUNS = ("20261127T220355-000000", "20261127T220355-000001", "20261127T220355-000002", "20261127T220355-000002")
"""Of the four writers two write to one run."""
BATCH = 5
BIG_ROWS = 300
BIG_TEXT = 8_000

COUNTS = """
SELECT 'samples' AS name, count(*) AS n, count(DISTINCT (run_id, dataset, sample_id)) AS keys FROM samples
UNION ALL SELECT 'scores', count(*), count(DISTINCT (run_id, dataset, sample_id)) FROM scores
UNION ALL SELECT 'requests', count(*), count(DISTINCT (run_id, request_id)) FROM requests
UNION ALL SELECT 'repeated', sum(attempt)::BIGINT, sum(attempt)::BIGINT FROM requests
UNION ALL SELECT 'attempts', count(*), count(DISTINCT (run_id, request_id, attempt)) FROM request_attempts
UNION ALL SELECT 'metrics', count(*), count(DISTINCT (run_id, name)) FROM metrics
UNION ALL SELECT 'revisions', sum(value)::BIGINT, sum(value)::BIGINT FROM metrics
UNION ALL SELECT 'runs', count(*), count(DISTINCT run_id) FROM runs
"""
"""Each name is counted by the writers too. `repeated` are requests whose second attempt is there, `revisions` the
sum of the metrics' revisions: both fall if an older row comes back."""


def write(*, home: Path, notes: Path, until: float, who: int) -> dict[str, int]:
    """Commits small parts of many tables, and after each batch says durably how many rows are committed."""
    run_id = RUNS[who]
    counts = dict.fromkeys(("samples", "scores", "requests", "repeated", "attempts", "metrics", "revisions"), 0)
    counts["runs"] = int(who < 3)
    number = 0

    def put(table: str, rows: list[dict[str, Any]], revision: int = 0) -> None:
        write_rows(home=home, table=table, run_id=run_id, rows=rows, part=f"p{who}-{number:05}", revision=revision)

    while number == 0 or time.time() < until:
        names = [f"{who}-{number}-{index}" for index in range(BATCH)]
        keys = [{"dataset": "d", "sample_id": name} for name in names]
        put("runs", [{"name": f"writer {who}", "status": "running"}], revision=number * 4 + who)
        put("samples", [key | {"row_index": 0, "prompt": "2+2?", "raw": b"{}"} for key in keys])
        first = [{"request_id": name, "attempt": 0, "status": "error"} for name in names]
        put("requests", [key | row for key, row in zip(keys, first, strict=True)])
        again = [{"request_id": name, "attempt": 1, "status": "ok"} for name in names[:2]]
        put("requests", [key | row for key, row in zip(keys, again, strict=False)])
        score = {"arm": "free", "repeat": 0, "metric": "m", "metric_version": 1}
        put("scores", [key | score | {"value": 0.0} for key in keys])
        put("metrics", [{"scope": "dataset", "name": f"d.{who}", "value": float(number)}], revision=number)
        for name, more in {"samples": BATCH, "scores": BATCH, "requests": BATCH, "repeated": 2}.items():
            counts[name] += more
        counts["attempts"] += BATCH + 2
        counts |= {"metrics": 1, "revisions": number}
        _publish(notes / f"writer-{who}.json", counts)
        number += 1
        time.sleep(0.05)
    return {"batches": number}


def compact(*, home: Path, notes: Path, until: float, who: int) -> dict[str, int]:
    """Compacts every run and takes old files away."""
    del notes, who
    done = removed = 0
    while done == 0 or time.time() < until:
        for run_id in run_ids(home=home, table="runs"):
            done += len(compact_run(home=home, run_id=run_id))
        removed += len(remove_superseded(home, GRACE_S))
        time.sleep(0.2)
    return {"compactions": done, "files removed": removed}


def rebuild(*, home: Path, notes: Path, until: float, who: int) -> dict[str, int]:
    """Builds the database file, whether that is needed or not."""
    del notes, who
    done = 0
    while done == 0 or time.time() < until:
        build(home)
        done += 1
        time.sleep(0.1)
    return {"builds": done}


def read(*, home: Path, notes: Path, until: float, who: int) -> dict[str, int]:
    """Asks as `assay sql` does. Raises AssertionError for a row that is missing, there twice, or gone again."""
    done, before = 0, dict.fromkeys(_acknowledged(notes), 0)
    while done == 0 or time.time() < until:
        committed = _acknowledged(notes)
        answers = {name: (n or 0, keys or 0) for name, n, keys in query(home=home, sql=COUNTS).rows}
        for name, (n, keys) in answers.items():
            assert n == keys, f"reader {who}: {name} has {n} rows with {keys} keys"
            assert n >= committed[name], f"reader {who}: {name} has {n} of {committed[name]} committed"
            assert n >= before.get(name, 0), f"reader {who}: {name} had {before[name]}, has {n}"
        before = {name: n for name, (n, _) in answers.items()}
        done += 1
    return {"queries": done, "rows seen last": before.get("attempts", 0)}


def _acknowledged(notes: Path) -> dict[str, int]:
    """What the writers had committed at this moment or before."""
    total = dict.fromkeys(("samples", "scores", "requests", "repeated", "attempts", "metrics", "revisions", "runs"), 0)
    for path in notes.glob("writer-*.json"):
        for name, value in json.loads(path.read_text()).items():
            total[name] += value
    return total


def _publish(path: Path, value: object) -> None:
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(value))
    temporary.replace(path)


KILLED_RUN = RUNS[0]


def committed_before(*, home: Path, number: int) -> Iterator[str]:
    """Small parts that overlap: each name is given out once its rows are committed."""
    for attempt in range(2):
        name = f"{number}-{attempt}"
        rows = [{"request_id": name, "attempt": at, "output": name} for at in range(2)]
        rows.append({"request_id": "revised", "attempt": 0, "output": name})
        revision = number * 2 + attempt + 1
        write_rows(home=home, table="requests", run_id=KILLED_RUN, rows=rows, part="p", revision=revision)
        yield f"{name} {revision}"


def big_write(*, home: Path, number: int) -> None:
    """One part that takes its time: text that does not compress."""
    noise = secrets.token_hex(BIG_TEXT)
    rows = [
        {"request_id": f"big-{number}-{index}", "attempt": 0, "output": noise[index : index + BIG_TEXT]}
        for index in range(BIG_ROWS)
    ]
    write_rows(home=home, table="requests", run_id=KILLED_RUN, rows=rows, part="big")


def compact_and_clean(*, home: Path, number: int) -> None:
    """What the upkeep does, without grace."""
    del number
    compact_run(home=home, run_id=KILLED_RUN)
    remove_superseded(home, 0)


def rebuild_once(*, home: Path, number: int) -> None:
    """One build, of everything or of what changed."""
    if number % 2:
        build(home)
    else:
        ensure_fresh(home)


OPERATIONS: dict[str, Callable[..., None]] = {
    "write": big_write,
    "compaction": compact_and_clean,
    "rebuild": rebuild_once,
}


def victims(*, home: Path) -> None:
    """A forked child for each line `operation number`. It says what it committed, when it begins and when it ended.

    Nothing here has started a thread when it forks: DuckDB and Arrow are imported, and first used in the child."""
    for line in sys.stdin:
        operation, number = line.split()
        child = os.fork()
        if child == 0:
            try:
                _victim(home=home, operation=operation, number=int(number))
            finally:
                os._exit(1)
        _say(f"child {child}")
        os.waitpid(child, 0)
        _say("gone")


def _victim(*, home: Path, operation: str, number: int) -> None:
    for committed in committed_before(home=home, number=number):
        _say(f"committed {committed}")
    _say("begin")
    started = time.monotonic()
    OPERATIONS[operation](home=home, number=number)
    _say(f"end {time.monotonic() - started}")
    signal.pause()  # its number stays its own until it is killed


def _say(line: str) -> None:
    os.write(1, f"{line}\n".encode())


ROLES = {"write": write, "compact": compact, "rebuild": rebuild, "read": read}

if __name__ == "__main__":
    if sys.argv[1] == "victims":
        victims(home=Path(sys.argv[2]))
    else:
        role, where, told, seconds, me = sys.argv[1:]
        print("ready", flush=True)
        sys.stdin.readline()
        begun = time.time()
        result = ROLES[role](home=Path(where), notes=Path(told), until=begun + float(seconds), who=int(me))
        print(json.dumps(result | {"seconds": round(time.time() - begun, 1)}))
