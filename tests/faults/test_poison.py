"""A request that really kills vLLM: a log-likelihood, for which its CPU build compiles a function of its own even in
eager mode, on a machine without a C++ compiler. assay starts its engines so that nothing is compiled; this one not."""

from pathlib import Path

import pytest

from tasks.dataset import stage as dataset
from tasks.engine import answering
from tasks.engine import stage as engine_stage
from tasks.engine.client import EngineClient
from tasks.engine.keeper import EngineKeeper
from tasks.engine.settings import ProcessSettings
from tasks.model.facts import read_model_facts
from tasks.model.resolve import model_folder
from tasks.plan.device import read_device_facts
from tasks.plan.stage import plan_run, run_requests
from tasks.record.open import open_run
from tasks.session import Session
from warehouse.parquet import read_rows

pytestmark = [pytest.mark.engine, pytest.mark.slow]

EXPERIMENT = """\
name: poison
model: smollm2-135m-instruct
engine: {extends: vllm, max_num_seqs: 8}
datasets: [{use: arithmetic, limit: 40, max_tokens: 16}, {use: choice, limit: 1}]
arms: [free]
sampling: {temperature: 0}
"""
PLACE = 11
"""Of the poison among the others: some are answered before it, some wait behind it."""


def test_a_request_that_kills_engines_costs_itself_only(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "poison.yaml"
    file.write_text(EXPERIMENT)
    run = open_run(home=home, file=str(file), overrides=["model.dtype=float32"])
    session = Session(run)
    folder = model_folder(run.experiment.model, cache=session.cache)
    facts, device = read_model_facts(folder, cache=session.cache), read_device_facts()
    no_compiler = (("CXX", "/nowhere/c++"), ("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "compiled")))
    known = ProcessSettings(cores=tuple(device.cores), compiles=True, variables=no_compiler)

    def start(log_path: Path) -> EngineClient:
        return EngineClient(log_path=log_path, settings=known)

    said: list[str] = []
    with EngineKeeper(session, first=start(run.engine_log), start=start, warn=said.append, note=print) as engine:
        loaded = dataset.profile_datasets(session, dataset.load_datasets(session, model=facts, folder=folder))
        requests = run_requests(run.experiment, datasets=loaded, samples=session.samples())
        answers = [request for request in requests if request.dataset == "arithmetic"]
        poison = next(request for request in requests if request.kind == "loglikelihood")
        session.requests = [*answers[:PLACE], poison, *answers[PLACE:]]
        plan = plan_run(run.experiment, home=home, requests=session.requests, model=facts, device=device)
        built = engine_stage.build_engine(session, engine, plan=plan, model=facts, device=device)
        generated = answering.generate_answers(session, engine, built=built)

    assert generated.stopped is None and sum(generated.statuses.values()) == len(answers) + 1 == 41
    rows = read_rows(home, "requests", run.run_id)
    assert len({row["request_id"] for row in rows}) == len(rows) == 41
    lost = [row for row in rows if row["status"] == "error"]
    assert [row["request_id"] for row in lost] == [poison.request_id]
    assert lost[0]["attempt"] == 2
    assert (
        lost[0]["error"].startswith("the engine died of this request") and "No working C++ compiler" in lost[0]["error"]
    )
    starts = sorted(read_rows(home, "engine_starts", run.run_id), key=lambda row: row["order_index"])
    assert [row["ended_why"] for row in starts] == ["died", "died", "died", "done"]
    in_flight = [row["in_flight"] for row in starts]
    assert in_flight[0] > in_flight[1] > in_flight[2] == 1
    assert [row["message"] for row in starts[:-1]] == said
    print(f"\nin flight at each death: {in_flight[:3]}\n{lost[0]['error']}")
