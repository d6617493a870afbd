"""How fast the warehouse is, against its bounds and against bare DuckDB and pyarrow in the same run: `make bench`.

Each stage runs in a process of its own on at most two cores, so that its peak memory is its own. Of what is repeated,
the best and the median are shown, and the best is held against the bound: other programs only ever make it slower.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq

from tests.bench import warehouse_data as data
from warehouse import scan
from warehouse.build import build, ensure_fresh
from warehouse.parquet import compact_runs, remove_superseded, write_rows, write_table
from warehouse.parts import run_files, run_ids, stored_tables, sync_file
from warehouse.query import query
from warehouse.schema import TABLES
from warehouse.schema.table import literal, quoted
from warehouse.views import definitions

ROOT = Path(__file__).resolve().parents[2]
RUNS = 20
REPEATS = 3
CORES = 2
MEMORY_MB = 2_000
MACROS = {"flips": "flips('{0}', '{1}')", "trend": "trend('arithmetic.metric_0')"}


def ingest(home: Path, rows: int) -> list[dict[str, Any]]:
    """Arrow to committed Parquet, two writers at once."""
    pool = data.requests(100_000)

    def ours(number: int) -> None:
        write_table(home=home, table="requests", run_id=f"writer-{number}", arrow=pool, part="part")

    def bare(number: int) -> None:
        path = home / f"bare-{number}.parquet"
        pq.write_table(pool, path, compression="zstd")
        sync_file(path)

    def rate(write: Callable[[int], None]) -> float:
        began = time.perf_counter()
        with ThreadPoolExecutor(CORES) as writers:
            list(writers.map(write, range(2 * CORES)))
        return 2 * CORES * pool.num_rows / (time.perf_counter() - began)

    rates = [(rate(ours), rate(bare)) for _ in range(REPEATS)]
    best, control = (max(each) for each in zip(*rates, strict=True))
    shutil.rmtree(home / "tables")
    return [
        _figure("ingest", best, "rows/s", at_least=300_000, median=statistics.median(each for each, _ in rates))
        | {"ratio": best / control, "control": "pyarrow's defaults with zstd"}
    ]


def fill(home: Path, rows: int) -> list[dict[str, Any]]:
    """Writes the runs that the next stages use."""
    pool = data.requests(25 * data.PART_ROWS)
    with ThreadPoolExecutor(CORES) as writers:
        list(
            writers.map(
                lambda number: data.write_run(home=home, number=number, rows=rows // RUNS, pool=pool), range(RUNS)
            )
        )
    return [{"name": "checksum of the parts", "value": _checksum(home)}]


def compact(home: Path, rows: int) -> list[dict[str, Any]]:
    """All runs, as `assay vacuum` does it; the control copies the parts of one run by DuckDB and compares no keys."""
    control = _bare_copy(home) * RUNS
    began, cpu = time.perf_counter(), time.process_time()
    compact_runs(home=home, run_ids=run_ids(home=home, table="requests"), on_progress=lambda _: None)
    taken, cpu = time.perf_counter() - began, time.process_time() - cpu
    remove_superseded(home, 0)
    return [
        _figure(f"compact {rows:,} requests and scores", taken, "s", at_most=90 * max(1.0, rows / 10_000_000))
        | {"ratio": taken / control, "control": "DuckDB's COPY of the same parts, requests only", "cpu_s": cpu},
        {"name": "checksum after compaction", "value": _checksum(home)},
    ]


def rebuild(home: Path, rows: int) -> list[dict[str, Any]]:
    """The database file from nothing but Parquet."""
    return [_timed("rebuild the database file", lambda: build(home), at_most=2)]


def views(home: Path, rows: int) -> list[dict[str, Any]]:
    """Each view through assay's own query, and each statement on two open connections, assay's file and bare DuckDB."""
    figures = []
    ids = run_ids(home=home, table="runs")
    statements = {}
    for each in definitions():
        source = MACROS.get(each.name, "").format(*ids) if each.macro else each.name
        if source:
            statements[each.name] = f"SELECT count(*), sum(hash(v)) FROM {source} AS v"
    settings: dict[str, Any] = {"threads": CORES, "memory_limit": "1GB"}
    with duckdb.connect(config=settings) as ours, duckdb.connect(config=settings) as bare:
        ours.execute(f"ATTACH {literal(str(ensure_fresh(home)))} AS warehouse (READ_ONLY)")
        ours.execute("USE warehouse")
        _bare_tables(connection=bare, home=home)
        for name, sql in statements.items():
            bound = 1 if name == "leaderboard" else 3
            figure = _timed(f"view {name}", lambda sql=sql: query(home=home, sql=sql), at_most=bound)  # type: ignore[misc]
            pairs = [(_seconds(ours, sql), _seconds(bare, sql)) for _ in range(REPEATS)]
            a, b = (min(each) for each in zip(*pairs, strict=True))
            figures.append(figure | {"ours_s": a, "bare_s": b, "ratio": a / b, "control": "bare DuckDB"})
    ours_s, bare_s = (sum(each[key] for each in figures) for key in ("ours_s", "bare_s"))
    together = _figure("all views together, of bare DuckDB", ours_s / bare_s, "x", at_most=1.2)
    board = next(each for each in figures if each["name"] == "view leaderboard")
    return [*figures, together, _figure("leaderboard, of bare DuckDB", board["ratio"], "x", at_most=1.2)]


def year(home: Path, rows: int) -> list[dict[str, Any]]:
    """A run an hour for seven months: the command's answer when nothing changed, and after one more run."""
    data.write_year(home=home, runs=rows, pool=data.requests(100))
    time.sleep(2.5)  # a folder that changed just now is looked into
    first = _timed("first build", lambda: build(home), repeats=1)
    environment = os.environ | {"ASSAY_HOME": str(home)}
    command = [sys.executable, "-m", "flows.cli", "sql", "FROM leaderboard", "--limit", "5"]

    def ask() -> None:
        subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True)

    def one_more() -> None:
        run = data.run_id(rows + time.time_ns() % 100_000)
        write_rows(home=home, table="runs", run_id=run, rows=[{"status": "finished"}], part="part")
        ensure_fresh(home)

    quiet = _timed(f'assay sql "FROM leaderboard", {rows:,} runs, nothing new', ask, at_most=2)
    return [first, quiet, _timed("bring the database file up to date after one more run", one_more)]


STAGES = {each.__name__: each for each in (ingest, fill, compact, rebuild, views, year)}


def _figure(
    name: str,
    value: float,
    unit: str,
    *,
    at_most: float | None = None,
    at_least: float | None = None,
    median: float | None = None,
) -> dict[str, Any]:
    return {"name": name, "value": value, "unit": unit, "at_most": at_most, "at_least": at_least, "median": median}


def _timed(
    name: str, work: Callable[[], object], *, at_most: float | None = None, repeats: int = REPEATS
) -> dict[str, Any]:
    taken = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        taken.append(time.perf_counter() - began)
    return _figure(name, min(taken), "s", at_most=at_most, median=statistics.median(taken))


def _seconds(connection: duckdb.DuckDBPyConnection, sql: str) -> float:
    began = time.perf_counter()
    connection.execute(sql).fetchall()
    return time.perf_counter() - began


def _checksum(home: Path) -> str:
    """Over every column of every request's newest revision, whatever files the rows lie in."""
    table, total, count = TABLES["requests"], 0, 0
    names = ", ".join(quoted(name) for name in table.names)
    with duckdb.connect(config={"threads": CORES, "memory_limit": "1GB"}) as connection:
        for run in run_ids(home=home, table="requests"):
            rows = scan.winners(table=table, paths=run_files(home=home, table="requests", run_id=run).paths)
            sql = f"SELECT count(*), sum(hash({names})::HUGEINT) FROM ({rows})"
            found = connection.execute(sql).fetchall()[0]
            count, total = count + int(found[0]), total + int(found[1])
    return f"{count:,} rows, {total % 2**64:016x}"


def _bare_copy(home: Path) -> float:
    run = run_ids(home=home, table="requests")[0]
    paths = ", ".join(literal(str(path)) for path in run_files(home=home, table="requests", run_id=run).paths)
    target = home / "bare-copy.parquet"
    with duckdb.connect(config={"threads": CORES, "memory_limit": "1GB"}) as connection:
        sql = f"COPY (FROM read_parquet([{paths}])) TO {literal(str(target))} (FORMAT parquet, COMPRESSION zstd)"
        taken = _seconds(connection, sql)
    target.unlink()
    return taken


def _bare_tables(*, connection: duckdb.DuckDBPyConnection, home: Path) -> None:
    """The tables as plain views over the files that count, and assay's own views over those."""
    for name in stored_tables():
        files = [run_files(home=home, table=name, run_id=run) for run in run_ids(home=home, table=name)]
        paths = [path for each in files for path in each.paths]
        kinds = {"request_attempts": paths} if name == "requests" else {}
        kinds[name] = [path for path in paths if not path.name.startswith("_compacted-earlier")]
        for view, chosen in kinds.items():
            listed = ", ".join(literal(str(path)) for path in chosen)
            source = f"FROM read_parquet([{listed}])" if chosen else scan.empty(TABLES[name])
            connection.execute(f"CREATE VIEW {view} AS {source}")
    for definition in definitions():
        connection.execute(definition.sql)


def _run_stage(*, stage: str, home: Path, rows: int) -> tuple[list[dict[str, Any]], float]:
    """Its figures, and the most memory that it, or a program that it started, took (MB)."""
    command = [sys.executable, "-m", "tests.bench.warehouse", "--stage", stage, "--home", str(home)]
    child = subprocess.Popen(
        [*command, "--rows", str(rows)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    printed = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    if status:
        raise SystemExit(f"the stage {stage} failed")
    return json.loads(printed.splitlines()[-1]), usage.ru_maxrss / 1024


def _fails(figure: dict[str, Any]) -> bool:
    value, most, least = figure["value"], figure.get("at_most"), figure.get("at_least")
    return (most is not None and value > most) or (least is not None and value < least)


def _show(figure: dict[str, Any]) -> None:
    if "unit" not in figure:
        print(f"{figure['name']:<58} {figure['value']}")
        return
    digits = 0 if figure["value"] > 1_000 else 3
    most, least = figure.get("at_most"), figure.get("at_least")
    bound = f"<= {most:g}" if most is not None else f">= {least:,}" if least is not None else ""
    verdict = "" if not bound else "FAIL" if _fails(figure) else "pass"
    median = f"median {figure['median']:,.{digits}f}" if figure.get("median") is not None else ""
    ratio = f"{figure['ratio']:.2f}x of {figure['control']}" if "ratio" in figure else ""
    cpu = f"{figure['cpu_s']:.0f} s of CPU" if "cpu_s" in figure else ""
    value = f"{figure['value']:,.{digits}f} {figure['unit']}"
    print(f"{figure['name']:<58} {value:>16}  {bound:<11} {verdict:<5} {median:<18} {ratio} {cpu}".rstrip(), flush=True)


def _cpu() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown CPU")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000, help="requests in all, over 20 runs")
    parser.add_argument("--runs", type=int, default=5_000, help="runs of the year's warehouse; 0 leaves it out")
    parser.add_argument("--keep", action="store_true", help="leave the data where it is")
    parser.add_argument("--home", type=Path, help="folder for the data (12 GB for 10,000,000 rows)")
    parser.add_argument("--stage", choices=STAGES, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.stage:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
        print(json.dumps(STAGES[given.stage](given.home, given.rows)))
        return
    base = Path(tempfile.mkdtemp(prefix="assay-bench-", dir=given.home))
    print(
        f"{_cpu()}, {CORES} cores, load {os.getloadavg()[0]:.1f}; {given.rows:,} requests of {data.TOKENS} ids and gaps"
    )
    failed, sums = [], []
    try:
        for stage in STAGES:
            if stage == "year" and not given.runs:
                continue
            home = base / ("year" if stage == "year" else "home")
            home.mkdir(exist_ok=True)
            figures, peak = _run_stage(stage=stage, home=home, rows=given.runs if stage == "year" else given.rows)
            if stage != "fill":  # it holds the rows that it makes
                figures.append(_figure(f"peak memory of {stage}", peak, "MB", at_most=MEMORY_MB))
            for figure in figures:
                _show(figure)
            failed += [figure["name"] for figure in figures if "unit" in figure and _fails(figure)]
            sums += [figure["value"] for figure in figures if "unit" not in figure]
    finally:
        if given.keep:
            print(f"the data is in {base}")
        else:
            shutil.rmtree(base)
    if len(set(sums)) != 1:
        failed.append("the rows after compaction are not those before")
    if failed:
        sys.exit("out of bounds: " + "; ".join(failed))


if __name__ == "__main__":
    main()
