"""Poisoned batches: what would hang or kill the engine's compiler never gets there, and the other answers do not
notice."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from flows.building import begin_preflight
from schemas.preflight import PreflightSummary
from schemas.run import RunContext
from tasks.dataset import stage as dataset
from tasks.engine import stage as engine_stage
from tasks.engine.answering import generate_answers
from tasks.engine.client import EngineClient
from tasks.model.facts import read_model_facts
from tasks.model.resolve import model_folder
from tasks.plan.device import read_device_facts
from tasks.plan.stage import plan_run, run_requests
from tasks.preflight import Preflight
from tasks.preflight.stage import examine_grammars
from tasks.record.open import open_run
from tasks.session import Session
from warehouse.parquet import read_rows

pytestmark = [pytest.mark.engine]

DATASET = """\
source: {kind: jsonl, path: asked.jsonl}
id_field: id
prompt: {text: "The number of {{ id }} is"}
guide: {kind: KIND, COLUMN: own}
metrics: [METRIC]
max_tokens: 12
"""
EXPERIMENT = """\
name: poison
model: smollm2-135m-instruct
engine:
  extends: vllm
  max_num_seqs: 8
  grammar: {backend: BACKEND, preflight: {compile_limit_s: 3, lint: false}}
datasets: [./asked.yaml]
arms: [guided]
sampling: {temperature: 0}
max_failed: 1.0
"""
MALFORMED = {"type": "objct"}
TAKEN_BY_NONE = {"type": "array", "uniqueItems": True, "items": {"not": {"type": "string"}}}
HUGE = {
    "type": "object",
    "properties": {f"p{at:06d}": {"type": "string", "description": "x" * 60} for at in range(46_000)},
}
HANGS = "(a|b)*a(a|b){22}"


@dataclass(frozen=True, kw_only=True)
class Done:
    """rows: of `requests`, by the sample's own id; grammars: rows; found: what the preflight found; engine: stands."""

    run: RunContext
    rows: dict[str, dict[str, Any]]
    grammars: list[dict[str, Any]]
    found: PreflightSummary
    engine: EngineClient
    warnings: list[str]


def schema(at: int) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {f"n{at % 7}": {"type": "integer"}},
        "required": [f"n{at % 7}"],
        "additionalProperties": False,
    }


def write(folder: Path, asked: Mapping[str, Any], *, backend: str, kind: str) -> Path:
    column, metric = {"json_schema": ("schema_field", "json_valid"), "regex": ("pattern_field", "contains")}[kind]
    folder.mkdir(parents=True)
    lines = [json.dumps({"id": name, "own": own}) for name, own in asked.items()]
    (folder / "asked.jsonl").write_text("\n".join(lines))
    text = DATASET.replace("KIND", kind).replace("COLUMN", column).replace("METRIC", metric)
    (folder / "asked.yaml").write_text(text + ("target: '1'\n" if metric == "contains" else ""))
    (folder / "poison.yaml").write_text(EXPERIMENT.replace("BACKEND", backend))
    return folder / "poison.yaml"


def answer(home: Path, file: Path, *, early: EngineClient | None = None) -> Done:
    """The engine's steps of a run. early: an engine that stands; the engine stands afterwards."""
    run = open_run(home=home, file=str(file), overrides=["model.dtype=float32"])
    session = Session(run)
    folder = model_folder(run.experiment.model, cache=session.cache)
    facts, device = read_model_facts(folder, cache=session.cache), read_device_facts()
    stood: list[EngineClient] = []
    said: list[str] = []

    def keep(client: EngineClient) -> bool:
        stood.append(client)
        return True

    with (
        engine_stage.keep_engine(
            session, device=device, warn=said.append, note=print, early=early, hand_on=keep
        ) as engine,
        Preflight(cache=session.cache) as preflight,
    ):
        loaded = dataset.profile_datasets(session, dataset.load_datasets(session, model=facts, folder=folder))
        session.requests = run_requests(run.experiment, datasets=loaded, samples=session.samples())
        plan = plan_run(run.experiment, home=home, requests=session.requests, model=facts, device=device)
        begin_preflight(session, preflight, plan=plan, model=facts, loaded=loaded)
        built = engine_stage.build_engine(session, engine, plan=plan, model=facts, device=device)
        examine_grammars(session, preflight)
        generated = generate_answers(session, engine, built=built)
    assert said == [] and generated.stopped is None, "no engine died"
    assert session.preflight is not None
    rows = read_rows(home, "requests", run.run_id)
    return Done(
        run=run,
        rows={row["sample_id"].partition(":")[2]: row for row in rows},
        grammars=read_rows(home, "grammars", run.run_id),
        found=session.preflight,
        engine=stood[0],
        warnings=generated.warnings,
    )


def statuses(done: Done, names: Sequence[str]) -> dict[str, str]:
    return {name: done.rows[name]["status"] for name in names}


def test_three_poisons_of_32_leave_the_other_29_as_they_are(home: Path, tmp_path: Path) -> None:
    asked: dict[str, Any] = {f"good-{at:02d}": schema(at) for at in range(29)}
    poison = {"bad-malformed": MALFORMED, "bad-untaken": TAKEN_BY_NONE, "bad-huge": HUGE}
    assert len(json.dumps(HUGE)) > 5_000_000
    names = list(asked)
    order = [*names[:5], "bad-malformed", *names[5:11], "bad-untaken", *names[11:17], "bad-huge", *names[17:]]
    poisoned = write(
        tmp_path / "poisoned", {name: (asked | poison)[name] for name in order}, backend="xgrammar", kind="json_schema"
    )
    clean = write(tmp_path / "clean", asked, backend="xgrammar", kind="json_schema")

    first = answer(home, poisoned)
    second = answer(home, clean, early=first.engine)
    second.engine.close()

    assert len(first.rows) == 32 and len(second.rows) == 29
    assert statuses(first, list(poison)) == dict.fromkeys(poison, "refused")
    assert first.rows["bad-huge"]["error"] == "quarantined: the compiler took more than 3 s"
    assert "not supported by xgrammar" in first.rows["bad-untaken"]["error"]
    assert "objct" in first.rows["bad-malformed"]["error"]
    for name in asked:
        with_poison, without = first.rows[name], second.rows[name]
        assert with_poison["output"] == without["output"] is not None, name
        assert with_poison["output_token_ids"] == without["output_token_ids"], name
        assert with_poison["status"] == without["status"] in ("ok", "truncated"), name

    by_status = sorted(row["status"] for row in first.grammars)
    assert by_status == ["accepted"] * 7 + ["refused", "timeout"]
    assert all(row["compile_s"] > 0 for row in first.grammars if row["status"] == "accepted")
    said = [warning for warning in [*first.warnings, *second.warnings] if "grammar" in warning]
    assert said == [], "what was found beforehand is what the engine did"
    assert second.found.start_s is None and all(each.cached for each in second.found.examined)


@pytest.mark.slow
def test_a_pattern_that_hangs_outlines_is_quarantined_and_the_others_answer(home: Path, tmp_path: Path) -> None:
    asked = {f"good-{at}": "[0-9]{1," + str(at + 1) + "}" for at in range(7)} | {"bad": HANGS}
    file = write(tmp_path / "poisoned", asked, backend="outlines", kind="regex")
    done = answer(home, file)
    done.engine.close()
    assert done.rows["bad"]["status"] == "refused"
    assert done.rows["bad"]["error"] == "quarantined: the compiler took more than 3 s"
    assert all(done.rows[name]["output"] for name in asked if name != "bad")
    assert sorted(row["status"] for row in done.grammars) == ["accepted"] * 7 + ["timeout"]
