"""What every case needs: the models, the record, the time that is left, and how arms are asked in turn."""

import contextlib
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from schemas.engine import Memory, VllmEngine
from schemas.plan import EnginePlan, ModelFacts
from tests.gpu.engines import Standing, ask
from tests.gpu.loads import Load
from tests.gpu.models import SMALL
from tests.gpu.record import Record

GIB = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """passes: how often each load is asked of each arm. out: the folder of everything. until: the monotonic time after
    which no engine is started any more; None: whenever."""

    models: dict[str, ModelFacts]
    record: Record
    out: Path
    home: Path
    """ASSAY_HOME of the runs of the whole flow."""
    passes: int
    small_only: bool = False
    """Everything on the small model and small loads: whether the script works, not how fast a card is."""
    until: float | None = None
    shard: tuple[int, int] = (0, 1)
    """Which part of a case's engines is built here, of how many: on a host with several cards, each takes its own."""
    failed: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    """What failed, and what was left for another visit, in words."""

    @property
    def logs(self) -> Path:
        return self.out / "logs"

    def model(self, name: str) -> ModelFacts:
        return self.models[SMALL if self.small_only else name]

    def loads(self, loads: Sequence[Load]) -> list[Load]:
        return [load.smaller() if self.small_only else load for load in loads]

    def kv_gib(self, gib: float) -> float:
        return 0.25 if self.small_only else gib

    def mine(self, number: int) -> bool:
        """Whether the case's engine, or pair of engines, of this number is of this part."""
        part, parts = self.shard
        return number % parts == part

    @contextlib.contextmanager
    def attempt(self, what: str) -> Iterator[None]:
        """What fails in here is told, kept in failed.txt, and makes the script's exit status 1; the rest goes on."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - the other cases' figures are worth having
            self.failed.append(f"{what}: {(str(error).splitlines() or [type(error).__name__])[0]}")
            text = f"\n-- {what} failed\n{traceback.format_exc()}"
            print(text, flush=True)
            with (self.out / "failed.txt").open("a", encoding="utf-8") as file:
                file.write(text)

    def may_start(self, what: str) -> bool:
        """Whether there is time left for another engine; says what is left out if not."""
        if self.until is None or time.monotonic() < self.until:
            return True
        print(f"-- no time left: {what}", flush=True)
        self.left.append(what)
        return False


def sized_engine(*, kv_gib: float, **options: Any) -> VllmEngine:
    """An engine of so much for keys and values, that others can stand beside.

    vLLM asks at its start whether `gpu_share` is free, whatever it takes then."""
    return VllmEngine(memory=Memory(gpu_share=0.3, kv_cache_bytes=int(kv_gib * GIB)), **options)


def schedule(planned: EnginePlan) -> dict[str, Any]:
    """What the plan says of splitting prompts: it is part of a row's key, so that another plan's rows do not count."""
    found: dict[str, Any] = {
        "threshold": int(planned.value("long_prefill_token_threshold")),
        "budget": int(planned.value("max_num_batched_tokens")),
    }
    return found | ({"yields": True} if planned.value("prefill_yields") else {})


def built(record: Record, case: str, model: str, engines: dict[str, Standing]) -> None:
    """A row for the start of each engine."""
    for name, standing in engines.items():
        record.add(
            case=case,
            model=model,
            arm=name,
            load="start",
            pass_=0,
            total_s=standing.start_s,
            resolved=standing.built.resolved,
            phases=standing.built.phases,
            sizes=standing.built.sizes,
            plan={option.option: option.value for option in standing.plan.options},
        )


def in_turn(names: Sequence[str], passes: int) -> Iterator[tuple[int, str]]:
    """A B, B A, …: passes times each."""
    for turn in range(passes):
        for name in names if turn % 2 == 0 else reversed(names):
            yield turn, name


def measure(
    bench: Bench,
    case: str,
    model: str,
    engines: dict[str, Standing],
    loads: Sequence[Load],
    *,
    prepare: Callable[[Standing], None] | None = None,
    label: str = "",
    warm: bool = True,
    extra: dict[str, dict[str, Any]] | None = None,
) -> None:
    """Asks each load of the engines in turn, and keeps what has not been kept. extra: by arm, more of the rows' key."""
    vocabulary = min(bench.model(model).vocab_size, 49_000)
    for load in loads:
        keys = [
            (name, {"case": case, "model": model, "arm": name + label, "load": load.name, "pass_": turn, **more})
            for turn, name in in_turn(list(engines), bench.passes)
            for more in [(extra or {}).get(name, {})]
        ]
        todo = [(name, key) for name, key in keys if not bench.record.has(**key)]
        if not todo:
            continue
        for standing in engines.values() if warm else ():  # each shape's first step compiles or tunes something
            if prepare is not None:
                prepare(standing)
            ask(standing, load, seed=-1, vocabulary=vocabulary)
        for name, key in todo:
            if prepare is not None:
                prepare(engines[name])
            bench.record.add(**key, **ask(engines[name], load, seed=key["pass_"], vocabulary=vocabulary))


def reschedule(standing: Standing, *, threshold: int, budget: int, yields: bool = False) -> None:
    """Another threshold, which may yield, and budget, from the next step on."""
    standing.client.reschedule(threshold=threshold, budget=budget, yields=yields)
