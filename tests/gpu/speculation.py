"""Guessing tokens by copying: how much sooner lists are copied with it, and whether the answers come out alike."""

from pathlib import Path

from schemas.engine import Cudagraph
from schemas.speculative import Speculative
from tasks.plan.graphs import capture_sizes
from tests.gpu.bench import Bench, built, measure, sized_engine
from tests.gpu.engines import Arm, standing
from tests.gpu.loads import Load, copying
from tests.gpu.models import SMALL

CASE = "speculation"
DTYPES = ("bfloat16", "float32")
LARGEST = 64


def _loads(bench: Bench) -> list[Load]:
    tokenizer = Path(bench.model(SMALL).path) / "tokenizer.json"
    return bench.loads(
        [
            copying(tokenizer=tokenizer, requests=requests, at_once=at_once)
            for requests, at_once in ((LARGEST, LARGEST), (LARGEST, 8), (8, 1))
        ]
    )


def _arms(bench: Bench, dtype: str) -> list[Arm]:
    """Plain, with ngram as planned, and with graphs for as many tokens only as 64 requests are without drafts."""
    kv_gib = bench.kv_gib(4)
    ngram = Speculative(method="ngram")
    sizes = capture_sizes(LARGEST)
    arms = {
        "plain": sized_engine(kv_gib=kv_gib),
        "ngram": sized_engine(kv_gib=kv_gib, speculative=ngram),
        f"ngram, graphs to {sizes[-1]}": sized_engine(
            kv_gib=kv_gib, speculative=ngram, cudagraph=Cudagraph(sizes=sizes)
        ),
    }
    if bench.small_only:  # there are no graphs to be smaller
        del arms[f"ngram, graphs to {sizes[-1]}"]
    return [Arm(name=f"{name}, {dtype}", engine=each, dtype=dtype) for name, each in arms.items()]


def speculation(bench: Bench) -> None:
    """Plain beside ngram, in bfloat16 and then in float32, at 64, 8 and 1 requests at once."""
    loads = _loads(bench)
    for number, dtype in enumerate(DTYPES):
        if not bench.mine(number):
            continue
        arms = _arms(bench, dtype)
        if all(
            bench.record.has(case=CASE, arm=arm.name, load=load.name, pass_=turn)
            for arm in arms
            for load in loads
            for turn in range(bench.passes)
        ) or not bench.may_start(f"{CASE} in {dtype}"):
            continue
        with (
            bench.attempt(f"{CASE} in {dtype}"),
            standing(arms, loads=loads, model=bench.model(SMALL), logs=bench.logs) as engines,
        ):
            built(bench.record, CASE, SMALL, engines)
            measure(bench, CASE, SMALL, engines, loads)
