"""The rungs of the memory ladder: each asks for less, none is taken twice in vain, and the last one is the end."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "plan"))

from planning import GIB, a_cpu, a_gpu, a_model

from schemas.engine import VllmEngine
from schemas.plan import DeviceFacts, EnginePlan, PlannedLoad
from tasks.engine.failure import Shortage
from tasks.engine.ladder import step_down
from tasks.plan.batch import kv_bytes_per_token
from tasks.plan.engine import plan_engine

LOAD = PlannedLoad(prompt_tokens=[900] * 600, output_tokens=[100] * 600)


def a_plan(device: DeviceFacts, **engine: object) -> EnginePlan:
    return plan_engine(
        load=LOAD, model=a_model(), device=device, engine=VllmEngine(**engine), dtype="auto", earlier=None
    )


def short(kind: str = "allocation", where: str = "elsewhere", free: float | None = None) -> Shortage:
    return Shortage(kind=kind, words="out of memory", where=where, free_share=free)  # type: ignore[arg-type]


def walk(plan: EnginePlan, shortage: Shortage, *, most: int = 100) -> list[tuple[str, EnginePlan]]:
    taken: list[tuple[str, EnginePlan]] = []
    while len(taken) < most:
        rung = step_down(plan, model=a_model(), shortage=shortage, taken=[kind for kind, _ in taken], while_="building")
        if rung is None:
            break
        plan = rung.plan
        taken.append((rung.kind, plan))
    return taken


def sizes(plan: EnginePlan) -> tuple[object, ...]:
    names = {planned.option for planned in plan.options}
    asked = ("max_num_seqs", "max_num_batched_tokens", "kv_cache_memory_bytes", "gpu_memory_utilization")
    return (*(plan.value(name) for name in asked if name in names), len(plan.value("cudagraph_capture_sizes")))


def test_on_a_gpu_it_is_fewer_sequences_a_smaller_budget_fewer_graphs_then_none() -> None:
    plan = a_plan(a_gpu())
    rungs = walk(plan, short(), most=5)
    assert [kind for kind, _ in rungs] == ["sequences", "budget", "fewer graphs", "no graphs", "share"]
    first = rungs[0][1]
    assert first.value("max_num_seqs") == plan.value("max_num_seqs") // 2
    option = next(each for each in first.options if each.option == "max_num_seqs")
    assert option.source == "plan"
    assert option.reason.startswith("The engine ran out of memory while building; it was ")
    assert "out of memory" in option.evidence
    assert rungs[3][1].value("cudagraph_mode") == "none" and rungs[3][1].value("cudagraph_capture_sizes") == []


@pytest.mark.parametrize("device", [a_cpu(), a_gpu()], ids=["cpu", "gpu"])
@pytest.mark.parametrize("where", ["elsewhere", "kv", "graphs"])
def test_every_rung_asks_for_less_and_they_come_to_an_end(device: DeviceFacts, where: str) -> None:
    plan = a_plan(device)
    rungs = walk(plan, short(where=where))
    assert 3 < len(rungs) < 60
    before = sizes(plan)
    for _, after in rungs:
        now = sizes(after)
        assert now != before and all(new <= old for new, old in zip(now, before, strict=True))  # type: ignore[operator]
        assert after.value("max_num_batched_tokens") >= after.value("max_num_seqs")
        before = now


def test_what_ran_out_comes_first() -> None:
    assert walk(a_plan(a_cpu()), short(where="kv"))[0][0] == "kv"
    assert walk(a_plan(a_gpu()), short(where="graphs"))[0][0] == "fewer graphs"


def test_keys_and_values_still_hold_one_whole_request() -> None:
    plan = a_plan(a_cpu())
    last = walk(plan, short())[-1][1]
    block = last.value("block_size")
    least = (
        (-(-last.value("max_model_len") // block) + 1) * block * kv_bytes_per_token(model=a_model(), dtype="bfloat16")
    )
    assert last.value("kv_cache_memory_bytes") == least
    assert last.value("max_num_seqs") == 1


def test_fewer_sequences_need_less_for_keys_and_values_but_the_users_number_stays() -> None:
    planned = a_plan(a_cpu())
    first = walk(planned, short(), most=1)[0][1]
    assert first.value("kv_cache_memory_bytes") == planned.value("kv_cache_memory_bytes") // 2
    own = a_plan(a_cpu(), memory={"kv_cache_bytes": GIB})
    assert walk(own, short(), most=1)[0][1].value("kv_cache_memory_bytes") == GIB


def test_a_number_of_the_users_is_lowered_and_said_to_be() -> None:
    plan = a_plan(a_cpu(), max_num_seqs=64)
    rung = step_down(plan, model=a_model(), shortage=short(), taken=[], while_="answering")
    assert rung is not None and rung.plan.value("max_num_seqs") == 32
    assert rung.lowered == ["max_num_seqs: you set 64, the engine ran out of memory and runs with 32"]
    assert "max_num_seqs 64 -> 32" in rung.text


def test_when_little_is_left_for_keys_and_values_their_share_is_not_lowered() -> None:
    kinds = {kind for kind, _ in walk(a_plan(a_gpu()), short("kv", where="kv"))}
    assert kinds == {"sequences", "budget", "fewer graphs", "no graphs"}


def test_a_gpu_that_others_use_is_shared_by_what_is_free() -> None:
    rung = step_down(a_plan(a_gpu()), model=a_model(), shortage=short("busy", free=0.39), taken=[], while_="building")
    assert rung is not None and rung.plan.value("gpu_memory_utilization") == pytest.approx(0.38)


def test_weights_that_do_not_fit_are_the_end() -> None:
    assert walk(a_plan(a_gpu()), short(where="weights")) == []
