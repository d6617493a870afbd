"""A setting as the engine of its cell: the part of a trial that has few samples gets the engine of all of them."""

from pathlib import Path
from typing import Any

import pytest

from schemas.engine import VllmEngine
from schemas.plan import DeviceFacts, EnginePlan, PlannedLoad
from schemas.sweep import CellResult
from schemas.tune import Trial
from tasks.config.overrides import merged
from tasks.plan.engine import plan_engine
from tasks.tune.cells import CONFIRM, engine_key, outcome_of, pinned, side_cell, trial_cell, values_of
from tasks.tune.outcome import Infeasible, Measured
from tests.unit.compare.two_runs import FIRST, Made, binary, write
from tests.unit.plan.planning import a_cpu, a_gpu, a_model
from warehouse.parquet import write_rows

SEQS, BUDGET = "engine.max_num_seqs", "engine.max_num_batched_tokens"
POLICY, THRESHOLD = "engine.prefill.policy", "engine.prefill.threshold"
FULL = PlannedLoad(prompt_tokens=[60, 1800, 3500] * 150, output_tokens=[100] * 450)
PART = PlannedLoad(prompt_tokens=[60, 70, 80] * 4, output_tokens=[100] * 12)


def engine(settings: dict[str, Any]) -> VllmEngine:
    written: dict[str, Any] = {}
    for key, value in settings.items():
        block: dict[str, Any] = {}
        inner = block
        *parts, last = key.split(".")[1:]
        for part in parts:
            inner = inner.setdefault(part, {})
        inner[last] = value
        written = merged(written, block)
    return VllmEngine.model_validate(written)


def plan(settings: dict[str, Any], load: PlannedLoad, device: DeviceFacts) -> EnginePlan:
    asked = engine(settings)
    return plan_engine(load=load, model=a_model(), device=device, engine=asked, dtype="auto", earlier=None)


@pytest.mark.parametrize("device", [a_cpu(), a_gpu()], ids=["cpu", "gpu"])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {SEQS: 24},
        {SEQS: 300, BUDGET: 3000},
        {POLICY: "auto"},
        {POLICY: "off"},
        {POLICY: "fixed", THRESHOLD: 512},
        {"engine.choose": "vllm"},
        {"engine.memory.kv_cache_bytes": 1 << 28},
        {"engine.cudagraph.mode": "none"},
    ],
)
def test_few_samples_get_the_engine_of_all(settings: dict[str, Any], device: DeviceFacts) -> None:
    full = plan(settings, FULL, device)
    part = plan({**settings, **pinned(full, settings)}, PART, device)
    told = {option.option: option.value for option in full.options if option.option != "prefill_policy"}
    assert {option.option: option.value for option in part.options if option.option != "prefill_policy"} == told
    if settings != {"engine.choose": "vllm"}:
        assert plan(settings, PART, device).value("max_model_len") != full.value("max_model_len")


def test_settings_of_one_engine_are_known_as_such() -> None:
    def key(**settings: Any) -> str:
        return engine_key(plan({f"engine.{name}": value for name, value in settings.items()}, FULL, a_cpu()))

    planned = plan({}, FULL, a_cpu())
    assert key() == key(max_num_seqs=planned.value("max_num_seqs"))
    assert key() != key(max_num_seqs=3)
    assert key(prefill={"policy": "off"}) == key(prefill={"policy": "fixed", "threshold": 100_000})
    assert key() != key(choose="vllm")


def test_references_have_their_place_in_the_space() -> None:
    keys = [SEQS, BUDGET, THRESHOLD, POLICY, "engine.prefix_caching", "engine.cudagraph.mode", "engine.compile"]
    own = values_of(keys, engine=engine({}), plan=plan({}, FULL, a_cpu()), reference="plan")
    assert own == {
        SEQS: 256,
        BUDGET: plan({}, FULL, a_cpu()).value("max_num_batched_tokens"),
        THRESHOLD: plan({}, FULL, a_cpu()).value("long_prefill_token_threshold"),
        POLICY: "auto",
        "engine.prefix_caching": True,
        "engine.cudagraph.mode": "none",
        "engine.compile": "none",
    }
    left = {"engine.choose": "vllm", SEQS: 7}
    theirs = values_of(keys, engine=engine(left), plan=plan(left, FULL, a_cpu()), reference="vllm")
    assert (theirs[SEQS], theirs[BUDGET], theirs["engine.compile"], theirs[THRESHOLD]) == (7, 4096, "full", 0)


def test_cells_are_told_apart_and_neither_built_smaller_nor_restarted() -> None:
    trial = Trial(number=4, settings={SEQS: 8, POLICY: "off"}, state="running")
    cell = trial_cell(trial, {"engine.max_model_len": 512})
    assert (cell.index, cell.role, cell.settings) == (4, "trial", trial.settings)
    assert cell.name == "trial 4: max_num_seqs=8, prefill.policy=off"
    assert cell.overrides == [
        f"{SEQS}=8",
        f'{POLICY}="off"',
        "engine.max_model_len=512",
        "engine.failures.rungs=0",
        "engine.failures.restarts=0",
    ]
    sides = [side_cell(trial, side, {}) for side in ("winner", "plan", "vllm")]
    assert [side.index for side in sides] == [CONFIRM + 12, CONFIRM + 13, CONFIRM + 14]
    assert {side.role for side in sides} == {"confirm"}


@pytest.mark.parametrize(
    ("state", "start", "expected"),
    [
        ("timeout", {}, ("timeout", "took too long")),
        (
            "failed",
            {
                "ended_why": "out_of_memory",
                "ended_while": "building",
                "message": "the engine ran out of memory while building (no room); engine.failures.rungs is 0, so …",
            },
            ("out_of_memory", "the engine ran out of memory while building (no room)"),
        ),
        ("failed", {"ended_why": "failed", "ended_while": "building"}, ("refused", "took too long")),
        ("failed", {"ended_why": "died", "ended_while": "answering"}, ("failed", "took too long")),
    ],
)
def test_why_a_cell_did_not_finish(
    tmp_path: Path, state: Any, start: dict[str, Any], expected: tuple[str, str]
) -> None:
    cell = trial_cell(Trial(number=0, settings={}, state="running"), {})
    if start:
        row = {"start_id": "0-0", "order_index": 0, **start}
        write_rows(home=tmp_path, table="engine_starts", run_id=FIRST, rows=[row], part="0", revision=0)
    result = CellResult(cell=cell, repeat=0, order_index=0, state=state, run_id=FIRST, error="took too long\nand more")
    outcome = outcome_of(tmp_path, result, slo=None)
    assert isinstance(outcome, Infeasible) and (outcome.why, outcome.message) == expected


def test_what_a_cell_that_finished_came_to(tmp_path: Path) -> None:
    write(tmp_path, Made(run_id=FIRST, values={("d", "exact_match", "free"): binary(n=20, right=10)}))
    cell = trial_cell(Trial(number=0, settings={}, state="running"), {})
    result = CellResult(cell=cell, repeat=0, order_index=0, state="finished", run_id=FIRST, seconds=3.0)
    outcome = outcome_of(tmp_path, result, slo=None)
    assert isinstance(outcome, Measured) and outcome.seconds == 3.0
    assert all(isinstance(value, float | int) for value in outcome.figures.values())
