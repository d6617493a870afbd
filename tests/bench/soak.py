"""A schedule of every minute, for an hour, on real servers: is every run accounted for, and does nothing leak?

    python -m tests.bench.soak --minutes 60 [--home DIR]

`assay up`, a small experiment on the CPU each minute, then: Prefect, MLflow and the warehouse must agree by id, and no
process, file handle, lock or slot may be left. Prints a table a row for each five minutes; exit code 1 if something is
not as it must be."""

import argparse
import json
import sqlite3
import statistics
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil
from filelock import FileLock, Timeout

from tests.e2e.command import assay, rows
from tests.stores import SHARED_CACHE, with_model
from tests.up import SMALL, Up, running

EVERY_S = 15.0
FIELDS = {**SMALL, "limit": 4}
GROWTH = 1.10
"""The most that the median memory of the last quarter may be above that of the second."""


@dataclass(frozen=True)
class Reading:
    """One look. processes, handles, rss: of everything that `assay up` leads, runs in progress not counted."""

    minute: float
    processes: int
    handles: int
    rss_mb: dict[str, float]
    in_progress: int
    slots: int

    @property
    def total_mb(self) -> float:
        return sum(self.rss_mb.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--home", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home = given.home or Path(folder) / "home"
        if not (home / "cache").exists():
            from tasks.model.resolve import model_folder
            from tests.conftest import SMALL_MODEL

            with_model(home, model_folder(SMALL_MODEL, cache=SHARED_CACHE))
        with running(home) as up:
            print(f"up in {up.healthy_s:.1f} s, {up.rss_bytes() / 1e9:.2f} GB")
            readings, deployment = _soak(up, minutes=given.minutes)
            faults = _accounts(up, deployment) + _leaks(up, readings)
            pids = [process.pid for part in up.processes().values() for process in part]
        mine = str(home)
        engines = [each.pid for each in psutil.process_iter() if _home_of(each) == mine]
        left = [pid for pid in {*pids, *engines} if psutil.pid_exists(pid)]
        faults += [f"process {pid} is left after `assay down`" for pid in left]
    print("\n".join(faults) or "nothing was lost, nothing leaked")
    sys.exit(1 if faults else 0)


def _home_of(process: psutil.Process) -> str | None:
    """The ASSAY_HOME of a process, whoever its parent is."""
    try:
        return process.environ().get("ASSAY_HOME")
    except psutil.Error:
        return None


def _soak(up: Up, *, minutes: float) -> tuple[list[Reading], str]:
    deployment = up.deployment("experiment/quickstart")["id"]
    schedule = {"schedule": {"cron": "* * * * *"}, "active": True, "slug": "soak", "parameters": FIELDS}
    up.post(f"/deployments/{deployment}/schedules", [schedule])
    made = next(each for each in up.deployment("experiment/quickstart")["schedules"] if each["slug"] == "soak")
    started = time.monotonic()
    readings: list[Reading] = []
    print(f"{'minute':>6} {'runs':>5} {'processes':>9} {'handles':>8} {'slots':>5}  memory, MB")
    while (passed := time.monotonic() - started) < 60 * minutes:
        readings.append(_read(up, minute=passed / 60))
        if len(readings) % int(300 / EVERY_S) == 1:
            _show(readings[-1], up)
        time.sleep(EVERY_S)
    up.send("PATCH", f"/deployments/{deployment}/schedules/{made['id']}", {"active": False})
    end = time.monotonic() + 300
    while (up.flow_processes() or up.scheduled(deployment)) and time.monotonic() < end:
        time.sleep(2)
    time.sleep(20)
    readings.append(_read(up, minute=(time.monotonic() - started) / 60))
    _show(readings[-1], up)
    return readings, deployment


def _read(up: Up, *, minute: float) -> Reading:
    processes, handles, rss = 0, 0, {}
    for name, part in [*up.processes().items(), ("up", [psutil.Process(up.state()["pid"])])]:
        # Below a worker, what comes after the supervisor and the worker itself are runs.
        own = part[:2] if name.startswith("worker") else part
        size = 0
        for process in own:
            try:
                size += process.memory_info().rss
                handles += process.num_fds()
                processes += 1
            except psutil.NoSuchProcess:
                continue
        rss[name] = round(size / 1e6, 1)
    return Reading(minute, processes, handles, rss, len(up.flow_processes()), up.slots_in_use())


def _show(reading: Reading, up: Up) -> None:
    memory = ", ".join(f"{name} {size:.0f}" for name, size in reading.rss_mb.items())
    done = up.count_events("assay.run.finished")
    print(
        f"{reading.minute:6.1f} {done:5d} {reading.processes:9d} {reading.handles:8d} {reading.slots:5d}  "
        f"{reading.total_mb:.0f}: {memory}",
        flush=True,
    )


def _accounts(up: Up, deployment: str) -> list[str]:
    """Every flow run of the schedule against its row in the warehouse and its run in MLflow."""
    synced = assay("sync", home=up.home)
    faults = [] if synced.code == 0 else [f"assay sync: {synced.stderr}"]
    flow_runs = [each for each in up.all_flow_runs(deployment) if each["auto_scheduled"]]
    due = [each for each in flow_runs if each["state_type"] != "SCHEDULED"]
    stored = {row["flow"]: row for row in rows(up.home, _RUNS)}
    tracked = _mlflow(up.home / "mlflow.db")
    known = {row["run_id"] for row in stored.values()}
    faults += [f"{run_id} is in MLflow and not in the warehouse" for run_id in tracked if run_id not in known]
    counts: dict[str, int] = {}
    for flow_run in due:
        state = flow_run["state_name"]
        counts[state] = counts.get(state, 0) + 1
        row = stored.pop(flow_run["id"], None)
        if state == "Cancelled" and "stands for it" in str(flow_run["state"]["message"]):
            faults += [f"{flow_run['id']}: never began, and yet has a row"] if row else []
            continue
        wanted = {"Completed": ("finished", "FINISHED"), "Crashed": ("crashed", "KILLED")}.get(state)
        found = None if row is None else (row["status"], tracked.get(row["run_id"]))
        if found != wanted:
            faults.append(f"flow run {flow_run['id']} is {state}, warehouse and MLflow have {found}")
    faults += [f"{row['run_id']} is in the warehouse and not in Prefect" for row in stored.values()]
    finished = sum(1 for status in tracked.values() if status == "FINISHED")
    print(f"Prefect {counts}, warehouse {len(rows(up.home, _RUNS))} runs, MLflow {finished} FINISHED of {len(tracked)}")
    again = rows(up.home, "SELECT count(*) - count(DISTINCT (run_id, request_id)) AS n FROM requests")[0]["n"]
    return faults + ([f"{again} requests are there twice"] if again else [])


_RUNS = "SELECT run_id, status, prefect_flow_run_id AS flow FROM runs"


def _mlflow(database: Path) -> dict[str, str]:
    """The status of each parent run by the id that assay gave it; a run that is there twice is a fault."""
    query = """
        SELECT t.value, r.status FROM runs r JOIN tags t ON t.run_uuid = r.run_uuid AND t.key = 'assay.run_id'
        WHERE NOT EXISTS (SELECT 1 FROM tags p WHERE p.run_uuid = r.run_uuid AND p.key = 'mlflow.parentRunId')
    """
    with sqlite3.connect(database) as connection:
        found = connection.execute(query).fetchall()
    result: dict[str, str] = {}
    for run_id, status in found:
        result[run_id] = "twice" if run_id in result else status
    return result


def _leaks(up: Up, readings: list[Reading]) -> list[str]:
    first, last = readings[1], readings[-1]
    faults = []
    if last.processes != first.processes:
        faults.append(f"processes: {first.processes} at first, {last.processes} at last")
    if last.in_progress or last.slots:
        faults.append(f"{last.in_progress} processes of runs and {last.slots} slots are left")
    if last.handles > first.handles + 20:
        faults.append(f"file handles: {first.handles} at first, {last.handles} at last")
    quarter = max(1, len(readings) // 4)
    for name in first.rss_mb:
        early = statistics.median(each.rss_mb[name] for each in readings[quarter : 2 * quarter] or readings)
        late = statistics.median(each.rss_mb[name] for each in readings[-quarter:])
        if late > early * GROWTH:
            faults.append(f"memory of {name}: {early:.0f} MB in the second quarter, {late:.0f} MB in the last")
    for lock in [
        *up.home.rglob("lock"),
        *up.home.rglob("_lock"),
        *up.home.glob(".*.lock"),
        *up.home.glob("mlflow.lock"),
    ]:
        try:
            FileLock(lock).acquire(blocking=False)
        except Timeout:
            faults.append(f"{lock} is held")
    (up.home / "soak.json").write_text(json.dumps([asdict(each) for each in readings]))
    return faults


if __name__ == "__main__":
    main()
