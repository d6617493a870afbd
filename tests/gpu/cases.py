"""What is measured on one card: each case builds its engines side by side and asks them in turn, A B … B A."""

import functools
import itertools
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from schemas.engine import Cudagraph, Memory, Prefill, VllmEngine
from schemas.plan import DeviceFacts
from tasks.plan.device import read_device_facts
from tests.gpu.bench import Bench, built, in_turn, measure, reschedule, schedule, sized_engine
from tests.gpu.engines import Arm, ask, plan, standing
from tests.gpu.flow import flow
from tests.gpu.guided import guided
from tests.gpu.load import load_of_a_service
from tests.gpu.loads import Load, batch, chat, documents, mix
from tests.gpu.models import LARGE, SMALL
from tests.gpu.parallel import parallel
from tests.gpu.speculation import speculation

BUDGET = 16_384
"""Tokens a step: vLLM's own on a card of the H100's class."""
MIXES = (
    mix("6 x 14,000 and 64 x 50", long=(6, 14_000), short=(64, 50)),
    mix("2 x 32,000 and 48 x 200", long=(2, 32_000), short=(48, 200)),
    mix("16 x 7,000 and 64 x 50", long=(16, 7_000), short=(64, 50)),
    mix("2 x 32,000 and 48 x 50", long=(2, 32_000), short=(48, 50)),
)
GRID_LOADS = (chat(256), MIXES[2], documents(8))
# vLLM's own sizes for at most 256 sequences, which is its default on such a card below 1,024 (grid of 8).
VLLM_SIZES = (1, 2, 4, *range(8, 257, 8), *range(272, 513, 16))


def graphs(bench: Bench) -> None:
    """CUDA graphs as planned against eager, at batch 1, 8 and 64."""
    loads = bench.loads([batch(size) for size in (1, 8, 64)])
    for number, model in enumerate((SMALL, LARGE)):
        if not bench.mine(number):
            continue
        arms = [
            Arm(name="auto", engine=sized_engine(kv_gib=bench.kv_gib(3))),
            Arm(
                name="eager",
                engine=sized_engine(kv_gib=bench.kv_gib(3), cudagraph=Cudagraph(mode="none"), compile="none"),
            ),
        ]
        if all(
            bench.record.has(case="graphs", model=model, arm=arm.name, load=load.name, pass_=bench.passes - 1)
            for arm in arms
            for load in loads
        ):
            continue
        if not bench.may_start(f"graphs, {model}"):
            continue
        with (
            bench.attempt(f"graphs, {model}"),
            standing(arms, loads=loads, model=bench.model(model), logs=bench.logs) as engines,
        ):
            built(bench.record, "graphs", model, engines)
            measure(bench, "graphs", model, engines, loads)


POLICIES = {
    "auto": Prefill(policy="auto"),
    "rule": Prefill(policy="rule"),
    "off": Prefill(policy="off"),
    "256": Prefill(policy="fixed", threshold=256),
    "1,024": Prefill(policy="fixed", threshold=1_024),
}
OWN = "vLLM's own"


def mixed(bench: Bench) -> None:
    """Short prompts beside long ones under each prefill policy, beside an engine with vLLM's own defaults.

    The policies share one engine, whose threshold and budget are changed between them: what they plan for each load
    alone, a budget no larger than the engine was built for."""
    _policies(bench, "mixed", [*POLICIES, OWN])


def mixed2(bench: Bench) -> None:
    """What `auto` plans today, and its controls in the same visit: rows of another plan do not count."""
    _policies(bench, "mixed2", ["auto", "off", OWN])


def _schedules(bench: Bench, load: Load, *, device: DeviceFacts) -> dict[str, dict[str, Any]]:
    """What each policy plans for this load alone."""
    arms = [
        Arm(name=name, engine=sized_engine(kv_gib=bench.kv_gib(14), prefill=prefill))
        for name, prefill in POLICIES.items()
    ]
    plans = {arm.name: schedule(plan(arm, loads=[load], model=bench.model(LARGE), device=device)) for arm in arms}
    return {name: {**each, "budget": min(BUDGET, each["budget"])} for name, each in plans.items()}


def _policies(bench: Bench, case: str, order: Sequence[str]) -> None:
    device, todo = read_device_facts(), list[tuple[Load, dict[str, dict[str, Any]], list[dict[str, Any]]]]()
    for load in bench.loads(MIXES):
        schedules = _schedules(bench, load, device=device)
        # The controls of `mixed2` belong to the plan that they were measured beside.
        beside = {f"auto_{key}": value for key, value in schedules["auto"].items()} if case == "mixed2" else {}
        keys = [
            {"case": case, "model": LARGE, "arm": name, "load": load.name, "pass_": turn}
            | schedules.get(name, {})
            | beside
            for turn, name in in_turn(order, bench.passes)
        ]
        if left := [key for key in keys if not bench.record.has(**key)]:
            todo.append((load, schedules, left))
    if not todo or not bench.may_start(case):
        return
    kv_gib = bench.kv_gib(14)
    shared = sized_engine(kv_gib=kv_gib, prefill=Prefill(policy="off"), max_num_batched_tokens=BUDGET)
    own = sized_engine(kv_gib=kv_gib, prefill=Prefill(policy="off"), max_num_batched_tokens=BUDGET, max_num_seqs=1024)
    arms = [Arm(name="planned", engine=shared), Arm(name=OWN, engine=own)]
    model = bench.model(LARGE)
    vocabulary = min(model.vocab_size, 49_000)
    with standing(arms, loads=bench.loads(MIXES), model=model, logs=bench.logs) as engines:
        built(bench.record, case, LARGE, engines)

        def run(load: Load, name: str, schedules: dict[str, dict[str, Any]], turn: int) -> dict[str, Any]:
            if name != OWN:
                reschedule(engines["planned"], **schedules[name])
            return ask(engines[OWN if name == OWN else "planned"], load, seed=turn, vocabulary=vocabulary)

        for load, schedules, left in todo:
            for name in ("off", OWN):  # each shape's first step compiles or tunes something
                run(load, name, schedules, -1)
            for key in left:
                bench.record.add(**key, **run(load, key["arm"], schedules, key["pass_"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One cell of the grid: an engine (mode, sizes, budget) under a threshold."""

    mode: str
    sizes: str
    budget: int
    threshold: int = 0

    @property
    def engine_name(self) -> str:
        return f"{self.mode}, {self.sizes} sizes, budget {self.budget}"

    @property
    def name(self) -> str:
        return f"{self.engine_name}, threshold {self.threshold}"

    def arm(self, *, kv_gib: float) -> Arm:
        cudagraph = Cudagraph(mode=self.mode, sizes="auto" if self.sizes == "planned" else list(VLLM_SIZES))
        engine = sized_engine(
            kv_gib=kv_gib,
            cudagraph=cudagraph,
            max_num_batched_tokens=self.budget,
            max_num_seqs=256,
            prefill=Prefill(policy="off"),
        )
        return Arm(name=self.engine_name, engine=engine)


def _cells() -> list[Cell]:
    modes = ("full_and_piecewise", "full_decode_only", "piecewise")
    return [
        Cell(mode=mode, sizes=sizes, budget=budget)
        for mode, sizes, budget in itertools.product(modes, ("planned", "vLLM's own"), (8_192, 16_384))
    ]


THRESHOLDS = (0, 512, 1_024, 2_048)


def grid(bench: Bench, *, builds: int | None = None) -> None:
    """Graph mode x capture sizes x token budget, an engine each, under four thresholds."""
    loads = bench.loads(GRID_LOADS)
    done = 0
    for number, cell in enumerate(_cells()):
        if not bench.mine(number):
            continue
        last = replace(cell, threshold=THRESHOLDS[-1])
        if bench.record.has(case="grid", arm=last.name, load=loads[-1].name, pass_=bench.passes - 1):
            continue
        if (builds is not None and done >= builds) or not bench.may_start(f"grid, {cell.engine_name}"):
            return
        done += 1
        arm = cell.arm(kv_gib=bench.kv_gib(21))
        with (
            bench.attempt(f"grid, {cell.engine_name}"),
            standing([arm], loads=loads, model=bench.model(LARGE), logs=bench.logs) as engines,
        ):
            built(bench.record, "grid", LARGE, engines)
            for threshold in THRESHOLDS:
                change = functools.partial(reschedule, threshold=threshold, budget=cell.budget)
                label = f", threshold {threshold}"
                measure(bench, "grid", LARGE, engines, loads, prepare=change, label=label, warm=not threshold)


def objective(load: str) -> str:
    """What the best cell of a load is the best at: the time for all of it; where short prompts wait beside long ones,
    the mean time of a request."""
    return "e2e_mean_s" if " and " in load else "total_s"


def best(bench: Bench) -> None:
    """For each load of the grid: its best cell, measured afresh beside what `auto` plans for that load alone.

    A row counts only with today's plan, and beside the cell that is the best one today."""
    device = read_device_facts()
    for number, load in enumerate(bench.loads(GRID_LOADS)):
        if not bench.mine(number):
            continue
        rows = [row for row in bench.record.own if row["case"] == "grid" and row["load"] == load.name]
        if not rows:
            print(f"-- best, {load.name} is skipped: the grid has no row of it")
            continue
        winner = _winner(rows, objective(load.name))
        kv_gib = bench.kv_gib(21)
        auto = Arm(name="auto", engine=sized_engine(kv_gib=kv_gib, prefill=Prefill(policy="auto")))
        found = replace(winner.arm(kv_gib=kv_gib), name=f"best: {winner.name}")
        planned = plan(auto, loads=[load], model=bench.model(LARGE), device=device)
        beside = {f"auto_{key}": value for key, value in schedule(planned).items()} | {"beside": winner.name}
        extra = {
            "auto": schedule(planned) | beside,
            found.name: {"threshold": winner.threshold, "budget": winner.budget} | beside,
        }
        if all(
            bench.record.has(case="best", arm=name, load=load.name, pass_=turn, **extra[name])
            for name in extra
            for turn in range(bench.passes)
        ) or not bench.may_start(f"best, {load.name}"):
            continue
        with (
            bench.attempt(f"best, {load.name}"),
            standing([auto, found], loads=[load], model=bench.model(LARGE), logs=bench.logs) as engines,
        ):
            built(bench.record, "best", LARGE, engines)
            reschedule(engines[found.name], threshold=winner.threshold, budget=winner.budget)
            measure(bench, "best", LARGE, engines, [load], extra=extra)


def _winner(rows: Sequence[dict[str, Any]], figure: str) -> Cell:
    medians = {
        name: statistics.median(row[figure] for row in rows if row["arm"] == name)
        for name in {row["arm"] for row in rows}
    }
    name = min(medians, key=lambda each: medians[each])
    every = [replace(cell, threshold=threshold) for cell in _cells() for threshold in THRESHOLDS]
    return next(cell for cell in every if cell.name == name)


def memory(bench: Bench) -> None:
    """Activations and KV capacity, with and without a threshold, by the token budget: what vLLM finds when it measures
    itself, and the real peak while long prompts are read."""
    for number, (budget, tokens) in enumerate(itertools.product((2_048, 16_384), (8_000, 32_000))):
        if not bench.mine(number):
            continue
        load = bench.loads([Load(name=f"4 x {tokens:,}", shape=((tokens, 8),) * 4)])[0]
        for threshold in (0, 1_024):
            name = f"budget {budget:,}, threshold {threshold:,}"
            if bench.record.has(case="memory", arm=name, load=load.name, pass_=0) or not bench.may_start(name):
                continue
            prefill = Prefill(policy="fixed", threshold=threshold) if threshold else Prefill(policy="off")
            arm = Arm(
                name=name,
                engine=VllmEngine(
                    memory=Memory(gpu_share=0.9),
                    prefill=prefill,
                    max_num_batched_tokens=budget,
                    cudagraph=Cudagraph(mode="none"),
                    compile="none",
                ),
            )
            with (
                bench.attempt(f"memory, {name}"),
                standing([arm], loads=[load], model=bench.model(LARGE), logs=bench.logs) as engines,
            ):
                engine = engines[name]
                built(bench.record, "memory", LARGE, engines)
                engine.client.stats()  # what the start took is not the load's
                found = ask(engine, load, seed=0, vocabulary=49_000)
                counters = engine.client.stats()
                bench.record.add(
                    case="memory",
                    model=LARGE,
                    arm=name,
                    load=load.name,
                    pass_=0,
                    peak_bytes=counters.get("assay:peak_memory_bytes"),
                    kv_tokens=engine.built.resolved.get("kv_tokens"),
                    **engine.built.sizes,
                    **found,
                )


CASES: dict[str, Callable[[Bench], None]] = {
    "graphs": graphs,
    "speculation": speculation,
    "parallel": parallel,
    "flow": flow,
    "load": load_of_a_service,
    "mixed": mixed,
    "mixed2": mixed2,
    "grid": grid,
    "best": best,
    "memory": memory,
    "guided": guided,
}
