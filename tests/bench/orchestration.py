"""What Prefect and MLflow add to a run: the same experiment with them and without, in one session.

    python -m tests.bench.orchestration [--repeats 3]

control: the same steps as plain functions in a process of its own: no Prefect, no MLflow; the warehouse and the report
as ever. cold: `assay run` with its temporary server, on a home that was used before (`first` on one that was not).
warm: the same run launched by `assay up`, from the request to the server until the run is Completed, and `assay run`
reporting to those servers. Bounds: 12 s more cold, 3 s more warm. The engine's start and its generating vary by more
than that: the differences are of medians, with engine time (the run's own `build` and `generate`) taken out on both
sides."""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tasks.model.resolve import model_folder
from tests.conftest import SMALL_MODEL
from tests.e2e.command import ROOT, assay, environment, rows
from tests.stores import SHARED_CACHE, with_model
from tests.up import SMALL, running

COLD_S, WARM_S, UP_S, UP_BYTES = 12.0, 3.0, 30.0, 1.5e9
ARGUMENTS = ("quickstart", "--limit", "2", "--set", "datasets=[arithmetic]", "--set", "arms=[free]", "--json")

CONTROL = """
import sys
from pathlib import Path
from tasks.dataset import stage as dataset
from tasks.engine import answering
from tasks.engine import stage as engine_stage
from tasks.model.facts import read_model_facts
from tasks.model.resolve import model_folder
from tasks.plan.device import read_device_facts
from tasks.plan.stage import plan_run, run_requests
from tasks.record import rows as record_rows
from tasks.record.open import open_run
from tasks.config.document import config_hash
from tasks.report import stage as report
from tasks.score import stage as score
from tasks.session import Session
from warehouse.build import ensure_fresh
from warehouse.parquet import compact_run

home = Path(sys.argv[1])
run = open_run(home=home, file="quickstart", overrides=["datasets=[arithmetic]", "arms=[free]"], limit=2)
session = Session(run)
hash_ = config_hash(run.experiment)
session.store.write("runs", [record_rows.run_row(run, status="running", config_hash=hash_)])
folder = model_folder(run.experiment.model, cache=session.cache)
facts, device = read_model_facts(folder, cache=session.cache), read_device_facts()
with engine_stage.keep_engine(session, device=device, warn=print, note=print) as engine:
    loaded = dataset.load_datasets(session, model=facts, folder=folder)
    loaded = dataset.profile_datasets(session, loaded)
    session.requests = run_requests(run.experiment, datasets=loaded, samples=session.samples())
    plan = plan_run(run.experiment, home=home, requests=session.requests, model=facts, device=device)
    built = engine_stage.build_engine(session, engine, plan=plan, model=facts, device=device)
    generated = answering.generate_answers(session, engine, built=built)
score.score_run(session, loaded)
session.store.write("runs", [record_rows.run_row(run, status="finished", config_hash=hash_, ended=True)], later=2)
compact_run(home=home, run_id=run.run_id)
ensure_fresh(home)
report.report_run(home=home, run_id=run.run_id, path=run.report_file)
print(run.run_id)
"""

ENGINE_TIME = """
    SELECT e.start_s + (SELECT epoch(max(ended_at) - min(started_at)) FROM cells AS c WHERE c.run_id = e.run_id) AS s
    FROM engines AS e WHERE e.run_id = '{}'
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    repeats = parser.parse_args().repeats
    model_dir = model_folder(SMALL_MODEL, cache=SHARED_CACHE)
    with tempfile.TemporaryDirectory() as name:
        home = Path(name) / "home"
        with_model(home, model_dir)
        first = _command(home)
        print(f"first run on an empty home: {first:.1f} s beside the engine")
        control, cold = [], []
        for _ in range(repeats):
            control.append(_control(home))
            cold.append(_command(home))
        with running(home) as up:
            healthy, size = up.healthy_s, up.rss_bytes()
            launched, warm = [], []
            for _ in range(repeats):
                began = time.monotonic()
                flow_run = up.launch(**SMALL)
                up.wait(flow_run, "Completed")
                took = time.monotonic() - began
                run = rows(home, f"SELECT run_id FROM runs WHERE prefect_flow_run_id = '{flow_run}'")[0]["run_id"]
                launched.append(took - _engine_s(home, run))
                warm.append(_command(home))
        base = statistics.median(control)
        figures = [
            ("the control", base, None),
            ("cold `assay run`, more", statistics.median(cold) - base, COLD_S),
            ("`assay run` to warm servers, more", statistics.median(warm) - base, WARM_S),
            ("launched from the page, more", statistics.median(launched) - base, WARM_S),
            ("`assay up` is healthy after", healthy, UP_S),
            ("`assay up`, GB", size / 1e9, UP_BYTES / 1e9),
        ]
        for text, value, bound in figures:
            print(f"{text:<36}{value:6.2f}" + ("" if bound is None else f"  (at most {bound:g})"))
        sys.exit("a bound is broken" if any(bound is not None and value > bound for _, value, bound in figures) else 0)


def _control(home: Path) -> float:
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", CONTROL, str(home)],
        env=environment(home),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return time.monotonic() - began - _engine_s(home, done.stdout.split()[-1])


def _command(home: Path) -> float:
    began = time.monotonic()
    done = assay("run", *ARGUMENTS, home=home)
    took = time.monotonic() - began
    assert done.code == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return took - _engine_s(home, found["run_id"])


def _engine_s(home: Path, run_id: str) -> float:
    return float(rows(home, ENGINE_TIME.format(run_id))[0]["s"])


if __name__ == "__main__":
    main()
