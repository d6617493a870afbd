"""What is measured: each case builds its engines side by side and asks them in turn, A B … B A."""

import functools
import itertools
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from schemas.engine import Cudagraph, Memory, Prefill, VllmEngine
from schemas.plan import EnginePlan, ModelFacts
from tasks.plan.device import read_device_facts
from tests.gpu.engines import Arm, Standing, ask, plan, standing
from tests.gpu.loads import Load, batch, chat, documents, mix
from tests.gpu.models import LARGE, SMALL
from tests.gpu.record import Record

GIB = 1 << 30
BUDGET = 16_384
"""Tokens a step: vLLM's own on a card of the H100's class."""
MIXES = (
    mix("6 x 14,000 and 64 x 50", long=(6, 14_000), short=(64, 50)),
    mix("2 x 32,000 and 48 x 200", long=(2, 32_000), short=(48, 200)),
    mix("16 x 7,000 and 64 x 50", long=(16, 7_000), short=(64, 50)),
)
GRID_LOADS = (chat(256), MIXES[2], documents(8))
# vLLM's own sizes for at most 256 sequences, which is its default on such a card below 1,024 (grid of 8).
VLLM_SIZES = (1, 2, 4, *range(8, 257, 8), *range(272, 513, 16))


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What every case needs. passes: how often each load is asked of each arm."""

    models: dict[str, ModelFacts]
    record: Record
    logs: Path
    passes: int
    small_only: bool = False
    """Everything on the small model and small loads: whether the script works, not how fast a card is."""

    def model(self, name: str) -> ModelFacts:
        return self.models[SMALL if self.small_only else name]

    def loads(self, loads: Sequence[Load]) -> list[Load]:
        return [load.smaller() if self.small_only else load for load in loads]

    def kv_gib(self, gib: float) -> float:
        return 0.25 if self.small_only else gib


def _engine(*, kv_gib: float, **options: Any) -> VllmEngine:
    # vLLM asks at its start whether so much is free, whatever it takes then: two of them stand side by side.
    return VllmEngine(memory=Memory(gpu_share=0.3, kv_cache_bytes=int(kv_gib * GIB)), **options)


def _built(record: Record, case: str, model: str, engines: dict[str, Standing]) -> None:
    for name, engine in engines.items():
        record.add(
            case=case,
            model=model,
            arm=name,
            load="start",
            pass_=0,
            total_s=engine.start_s,
            resolved=engine.built.resolved,
            phases=engine.built.phases,
            sizes=engine.built.sizes,
            plan={option.option: option.value for option in engine.plan.options},
        )


def _in_turn(names: Sequence[str], passes: int) -> Iterator[tuple[int, str]]:
    for turn in range(passes):
        for name in names if turn % 2 == 0 else reversed(names):
            yield turn, name


def _measure(
    bench: Bench,
    case: str,
    model: str,
    engines: dict[str, Standing],
    loads: Sequence[Load],
    *,
    prepare: Callable[[Standing], None] | None = None,
    label: str = "",
    warm: bool = True,
) -> None:
    vocabulary = min(bench.model(model).vocab_size, 49_000)
    for load in loads:
        for engine in engines.values() if warm else ():  # each shape's first step compiles or tunes something
            if prepare is not None:
                prepare(engine)
            ask(engine, load, seed=-1, vocabulary=vocabulary)
        for turn, name in _in_turn(list(engines), bench.passes):
            key = {"case": case, "model": model, "arm": name + label, "load": load.name, "pass_": turn}
            if bench.record.has(**key):
                continue
            if prepare is not None:
                prepare(engines[name])
            bench.record.add(**key, **ask(engines[name], load, seed=turn, vocabulary=vocabulary))


def graphs(bench: Bench) -> None:
    """CUDA graphs as planned against eager, at batch 1, 8 and 64."""
    loads = bench.loads([batch(size) for size in (1, 8, 64)])
    for model in (SMALL, LARGE):
        arms = [
            Arm(name="auto", engine=_engine(kv_gib=bench.kv_gib(3))),
            Arm(name="eager", engine=_engine(kv_gib=bench.kv_gib(3), cudagraph=Cudagraph(mode="none"), compile="none")),
        ]
        if all(
            bench.record.has(case="graphs", model=model, arm=arm.name, load=load.name, pass_=bench.passes - 1)
            for arm in arms
            for load in loads
        ):
            continue
        with standing(arms, loads=loads, model=bench.model(model), logs=bench.logs) as engines:
            _built(bench.record, "graphs", model, engines)
            _measure(bench, "graphs", model, engines, loads)


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
    loads = bench.loads(MIXES)
    order = [*POLICIES, OWN]
    if all(
        bench.record.has(case="mixed", arm=name, load=load.name, pass_=bench.passes - 1)
        for name in order
        for load in loads
    ):
        return
    kv_gib = bench.kv_gib(14)
    shared = _engine(kv_gib=kv_gib, prefill=Prefill(policy="off"), max_num_batched_tokens=BUDGET)
    own = _engine(kv_gib=kv_gib, prefill=Prefill(policy="off"), max_num_batched_tokens=BUDGET, max_num_seqs=1024)
    arms = [Arm(name="planned", engine=shared), Arm(name=OWN, engine=own)]
    model, device = bench.model(LARGE), read_device_facts()
    vocabulary = min(model.vocab_size, 49_000)
    with standing(arms, loads=loads, model=model, logs=bench.logs) as engines:
        _built(bench.record, "mixed", LARGE, engines)
        for load in loads:
            schedules = {
                name: _schedule(plan(arm, loads=[load], model=model, device=device))
                for name, prefill in POLICIES.items()
                for arm in [Arm(name=name, engine=_engine(kv_gib=kv_gib, prefill=prefill))]
            }
            for turn, name in itertools.chain([(-1, "off"), (-1, OWN)], _in_turn(order, bench.passes)):
                key = {"case": "mixed", "model": LARGE, "arm": name, "load": load.name, "pass_": turn}
                if turn >= 0 and bench.record.has(**key):
                    continue
                engine = engines[OWN if name == OWN else "planned"]
                schedule = schedules.get(name, {})
                if schedule:
                    _reschedule(engine, **schedule)
                found = ask(engine, load, seed=turn, vocabulary=vocabulary)
                if turn >= 0:
                    bench.record.add(**key, **schedule, **found)


def _schedule(planned: EnginePlan) -> dict[str, int]:
    return {
        "threshold": int(planned.value("long_prefill_token_threshold")),
        "budget": min(BUDGET, int(planned.value("max_num_batched_tokens"))),
    }


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
        engine = _engine(
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
    for cell in _cells():
        last = replace(cell, threshold=THRESHOLDS[-1])
        if bench.record.has(case="grid", arm=last.name, load=loads[-1].name, pass_=bench.passes - 1):
            continue
        if builds is not None and done >= builds:
            return
        done += 1
        arm = cell.arm(kv_gib=bench.kv_gib(21))
        with standing([arm], loads=loads, model=bench.model(LARGE), logs=bench.logs) as engines:
            _built(bench.record, "grid", LARGE, engines)
            for threshold in THRESHOLDS:
                change = functools.partial(_reschedule, threshold=threshold, budget=cell.budget)
                label = f", threshold {threshold}"
                _measure(bench, "grid", LARGE, engines, loads, prepare=change, label=label, warm=not threshold)


def _reschedule(engine: Standing, *, threshold: int, budget: int) -> None:
    engine.client.reschedule(threshold=threshold, budget=budget)


def objective(load: str) -> str:
    """What the best cell of a load is the best at: the time for all of it; where short prompts wait beside long ones,
    the mean time of a request."""
    return "e2e_mean_s" if " and " in load else "total_s"


def best(bench: Bench) -> None:
    """For each load of the grid: its best cell, measured afresh beside what `auto` plans for that load alone."""
    for load in bench.loads(GRID_LOADS):
        rows = [row for row in bench.record.rows if row["case"] == "grid" and row["load"] == load.name]
        if not rows or bench.record.has(case="best", arm="auto", load=load.name, pass_=bench.passes - 1):
            continue
        winner = _winner(rows, objective(load.name))
        arms = [
            Arm(name="auto", engine=_engine(kv_gib=bench.kv_gib(21), prefill=Prefill(policy="auto"))),
            replace(winner.arm(kv_gib=bench.kv_gib(21)), name=f"best: {winner.name}"),
        ]
        with standing(arms, loads=[load], model=bench.model(LARGE), logs=bench.logs) as engines:
            _built(bench.record, "best", LARGE, engines)
            _reschedule(engines[arms[1].name], threshold=winner.threshold, budget=winner.budget)
            _measure(bench, "best", LARGE, engines, [load])


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
    for budget, tokens in itertools.product((2_048, 16_384), (8_000, 32_000)):
        load = bench.loads([Load(name=f"4 x {tokens:,}", shape=((tokens, 8),) * 4)])[0]
        for threshold in (0, 1_024):
            name = f"budget {budget:,}, threshold {threshold:,}"
            if bench.record.has(case="memory", arm=name, load=load.name, pass_=0):
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
            with standing([arm], loads=[load], model=bench.model(LARGE), logs=bench.logs) as engines:
                engine = engines[name]
                _built(bench.record, "memory", LARGE, engines)
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
    "mixed": mixed,
    "grid": grid,
    "best": best,
    "memory": memory,
}
