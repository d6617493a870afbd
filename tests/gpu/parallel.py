"""Two cards for one model: each layer shared by both, or a copy of the engine on each, against one card."""

from schemas.engine import VllmEngine
from schemas.errors import ConfigError
from schemas.parallel import Parallel
from tasks.plan.device import read_device_facts
from tasks.plan.parallel import check_parallel
from tests.gpu.bench import Bench, built, measure
from tests.gpu.engines import Arm, standing
from tests.gpu.loads import batch, chat
from tests.gpu.models import LARGE

CASE = "parallel"
ARMS = {"one card": Parallel(), "tensor 2": Parallel(tensor=2), "data 2": Parallel(data=2)}


def parallel(bench: Bench) -> None:
    """The engines stand one after another: each takes the cards that it gets whole."""
    device = read_device_facts()
    if device.kind == "cuda" and device.count < 2:
        print(f"-- {CASE} is skipped: it needs two GPUs, and {device.count} is visible")
        return
    loads = bench.loads([*(batch(size) for size in (1, 8, 64)), chat(256)])
    for name, asked in ARMS.items():
        try:
            check_parallel(asked, device=device)
        except ConfigError as error:
            print(f"-- {CASE}, {name} is skipped: {error}")
            continue
        if all(
            bench.record.has(case=CASE, arm=name, load=load.name, pass_=turn)
            for load in loads
            for turn in range(bench.passes)
        ) or not bench.may_start(f"{CASE}, {name}"):
            continue
        arm = Arm(name=name, engine=VllmEngine(parallel=asked))
        with (
            bench.attempt(f"{CASE}, {name}"),
            standing([arm], loads=loads, model=bench.model(LARGE), logs=bench.logs) as engines,
        ):
            built(bench.record, CASE, LARGE, engines)
            measure(bench, CASE, LARGE, engines, loads)
