"""What the plan's choices are worth, measured on this machine. Not a test: `make bench` prints it.

`python -m tests.bench.engine prefill`: long prompts with short ones behind them, in one engine, under each prefill
policy and with other thresholds and budgets: the time to the first token of short and of long prompts, and the total.
Wanted with `auto`: a total at most 5 % longer than with `off`.

`python -m tests.bench.engine quickstart`: the quickstart's load with the threshold and the budget that `auto` gives,
over the same engine with vLLM's own (threshold 0), in turns. Wanted: a total that is no longer.

On a CPU the totals are compared in processor seconds, with threads that sleep while they wait: another program on the
same cores lengthens the wall clock of many small steps far more than their work.
"""

import argparse
import contextlib
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from flows.runtime import assay_home
from schemas.engine import Prefill, VllmEngine
from schemas.plan import DeviceFacts, EnginePlan, ModelFacts, PlannedLoad
from schemas.summary import DatasetsSummary
from tasks.config.resolve import load_experiment
from tasks.dataset.stage import add_profiles, render_datasets
from tasks.engine.client import EngineClient
from tasks.engine.protocol import WireRequest, WireResult, WireSampling
from tasks.engine.settings import build_options
from tasks.generate import generate
from tasks.model.facts import read_model_facts
from tasks.model.resolve import model_folder
from tasks.plan.batch import MIB
from tasks.plan.device import read_device_facts
from tasks.plan.engine import plan_engine
from tasks.plan.stage import run_requests
from tasks.plan.vllm_defaults import default_max_num_batched_tokens
from tasks.requests import planned_load
from tasks.responses import RowContext

NOISE = 0.05
"""How far two passes over the same load lie apart on a machine that others use too."""


def _threshold(plan: EnginePlan) -> int:
    return int(plan.value("long_prefill_token_threshold"))


def _budget(plan: EnginePlan) -> int:
    return int(plan.value("max_num_batched_tokens"))


def _schedule(plan: EnginePlan) -> tuple[int, int, bool]:
    """Threshold, budget, and whether the threshold yields."""
    return _threshold(plan), _budget(plan), bool(plan.value("prefill_yields"))


@contextlib.contextmanager
def _engine(plan: EnginePlan, *, model: ModelFacts, device: DeviceFacts) -> Iterator[EngineClient]:
    with tempfile.TemporaryDirectory() as name:
        client = EngineClient(log_path=Path(name) / "engine.log", cores=device.cores, compiles=False)
        try:
            client.build(model=model.path, options=build_options(plan))
            yield client
        finally:
            client.close()


def _percentile(values: list[float], percent: int) -> float:
    """With linear interpolation between the two nearest."""
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1] if len(values) > 1 else values[0]


def _peak_bytes(pid: int) -> int:
    """The most that the processes below `pid` have had in memory, each at its own moment."""
    peaks = []
    for process in psutil.Process(pid).children(recursive=True):
        status = (Path("/proc") / str(process.pid) / "status").read_text()
        peaks += [int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmHWM")]
    return sum(peaks)


def _processor_s(pid: int) -> float:
    """Seconds of processor time that the processes below `pid` have used."""
    return sum(sum(process.cpu_times()[:2]) for process in psutil.Process(pid).children(recursive=True))


def _answer(engine: EngineClient, requests: list[WireRequest]) -> tuple[dict[str, WireResult], float]:
    """Every request's result, and the seconds from handing them over to the last."""
    engine.reset_prefix_cache()
    began = time.monotonic()
    engine.submit(requests)
    found: dict[str, WireResult] = {}
    while len(found) < len(requests):
        for result in engine.results():
            found[result.request_id] = result
    return found, time.monotonic() - began


def prefill(
    *,
    model: ModelFacts,
    device: DeviceFacts,
    long: int,
    long_tokens: int,
    short: int,
    repeats: int,
    policies_only: bool,
) -> bool:
    """Prints the table; whether `auto` kept to its bounds."""
    draw = random.Random(7)
    lengths = [long_tokens] * long + [50] * short
    prompts = [[draw.randrange(1_000, model.vocab_size) for _ in range(length)] for length in lengths]
    load = PlannedLoad(prompt_tokens=lengths, output_tokens=[16] * len(lengths))

    def plan(policy: str) -> EnginePlan:
        engine = VllmEngine.model_validate({"prefill": {"policy": policy}})
        return plan_engine(load=load, model=model, device=device, engine=engine, dtype="auto", earlier=None)

    plans = {policy: plan(policy) for policy in ("off", "rule", "auto")}
    own = _budget(plans["off"])
    arms = {name: _schedule(planned) for name, planned in plans.items()}
    if not policies_only:
        arms |= {f"{threshold} / {own:,}": (threshold, own, False) for threshold in (128, 512, 1024)}
        arms |= {f"{threshold} / 1,024": (threshold, 1024, False) for threshold in (0, 256)}
    largest = max(plans.values(), key=_budget)
    requests = [
        WireRequest(request_id=str(at), prompt_token_ids=ids, sampling=WireSampling(temperature=0.0, max_tokens=16))
        for at, ids in enumerate(prompts)
    ]
    reason = next(o.reason for o in plans["auto"].options if o.option == "long_prefill_token_threshold")
    print(f"{long} prompts of {long_tokens:,} tokens, then {short} of 50, handed over together; {device.name}")
    print(f"auto: {reason}")
    print(
        f"{'policy':>14} {'threshold':>9} {'budget':>7} {'short ttft p50 / p99 s':>23} "
        f"{'long p50 s':>11} {'total s':>8} {'processor s':>12}"
    )
    passes: dict[str, list[tuple[dict[str, WireResult], float]]] = {name: [] for name in arms}
    work: dict[str, list[float]] = {name: [] for name in arms}
    with _engine(largest, model=model, device=device) as engine:
        _answer(engine, requests[-2:])
        for turn in range(repeats):
            for name in list(arms) if turn % 2 == 0 else reversed(arms):
                threshold, budget, yields = arms[name]
                engine.reschedule(threshold=threshold, budget=budget, yields=yields)
                before = _processor_s(engine.pid)
                passes[name].append(_answer(engine, requests))
                work[name].append(_processor_s(engine.pid) - before)
        peak = _peak_bytes(engine.pid)
    p99: dict[str, float] = {}
    totals: dict[str, float] = {}
    for name, (threshold, budget, _) in arms.items():
        ttft = [
            {int(at): result.first_token_at - result.sent_at for at, result in results.items() if result.first_token_at}
            for results, _ in passes[name]
        ]
        shorts = [[seconds for at, seconds in one.items() if at >= long] for one in ttft]
        longs = [[seconds for at, seconds in one.items() if at < long] for one in ttft]
        p50 = statistics.median(_percentile(one, 50) for one in shorts)
        p99[name] = statistics.median(_percentile(one, 99) for one in shorts)
        totals[name] = statistics.median(total for _, total in passes[name])
        print(
            f"{name:>14} {threshold:>9,} {budget:>7,} {p50:>14.2f} / {p99[name]:>6.2f} "
            f"{statistics.median(_percentile(one, 50) for one in longs):>11.2f} {totals[name]:>8.2f} "
            f"{statistics.median(work[name]):>12.1f}",
            flush=True,
        )
    if largest.prediction is not None and device.kind == "cpu":
        said = largest.prediction.total_bytes
        print(f"memory: predicted {said / MIB:,.0f} MiB, the engine's processes took at most {peak / MIB:,.0f}")
    sooner, longer = p99["off"] / p99["auto"], totals["auto"] / totals["off"]
    if device.kind == "cpu":
        longer = statistics.median(work["auto"]) / statistics.median(work["off"])
    print(f"auto against off: short p99 {sooner:.1f} times as soon, total x {longer:.3f} (wanted: at most 1.05)")
    return longer <= 1.05


def quickstart(*, model: ModelFacts, device: DeviceFacts, limit: int | None, pairs: int) -> bool:
    """Prints the passes; whether `auto` was no slower."""
    experiment = load_experiment("quickstart", limit=limit)
    samples, summaries = render_datasets(experiment, model=model, folder=Path(model.path))
    datasets = add_profiles(DatasetsSummary(datasets=summaries), samples)
    requests = run_requests(experiment, datasets=datasets, samples=samples)
    load = planned_load(requests)

    def plan(policy: str) -> EnginePlan:
        engine = experiment.engine.model_copy(update={"prefill": Prefill.model_validate({"policy": policy})})
        return plan_engine(load=load, model=model, device=device, engine=engine, dtype="auto", earlier=None)

    plans = {policy: plan(policy) for policy in ("rule", "auto")}
    settings = {name: _schedule(planned) for name, planned in plans.items()}
    own = (0, default_max_num_batched_tokens(device), False)
    names = {own: "vLLM's own"}
    for name, setting in settings.items():
        names[setting] = f"{names[setting]}, {name}" if setting in names else name
    print(f"{len(requests)} requests, {sum(load.prompt_tokens):,} prompt tokens")
    context = RowContext(
        engine_id="bench",
        sampling={dataset.name: dataset.sampling for dataset in experiment.datasets},
        keys={request.request_id: request.request_id for request in requests},
        attempts={},
    )
    seconds: dict[tuple[int, int, bool], list[float]] = {setting: [] for setting in names}
    with _engine(max(plans.values(), key=_budget), model=model, device=device) as engine:
        for turn in range(pairs + 1):  # the first one warms up
            for setting in list(names) if turn % 2 == 0 else reversed(names):
                engine.reschedule(threshold=setting[0], budget=setting[1], yields=setting[2])
                engine.reset_prefix_cache()
                before = _processor_s(engine.pid)
                done = generate(
                    engine=engine,
                    requests=requests,
                    context=context,
                    window=2 * int(plans["auto"].value("max_num_seqs")),
                    write=lambda rows: None,
                )
                work = _processor_s(engine.pid) - before
                if turn:
                    seconds[setting].append(work if device.kind == "cpu" else done.wall_s)
                print(
                    f"  threshold {setting[0]:>5,}, budget {setting[1]:,} ({names[setting]}): {done.wall_s:7.1f} s, "
                    f"{work:7.1f} processor s, {done.output_tokens:,} output tokens{'' if turn else ' (warm-up)'}",
                    flush=True,
                )
    medians = {setting: statistics.median(taken) for setting, taken in seconds.items()}
    for name, setting in settings.items():
        if setting == own:
            print(f"{name}: vLLM's own threshold and budget, so the ratio is 1")
        else:
            print(f"{name} / vLLM's own: {medians[setting] / medians[own]:.3f}")
    ratio = medians[settings["auto"]] / medians[own]
    print(f"auto / vLLM's own: {ratio:.3f} (wanted: at most 1, within the machine's noise of {NOISE:.0%})")
    return ratio <= 1 + NOISE


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=["prefill", "quickstart"])
    parser.add_argument("--long", type=int, default=2, help="prompts of --tokens tokens")
    parser.add_argument("--tokens", type=int, default=3_000)
    parser.add_argument("--short", type=int, default=24, help="prompts of 50 tokens")
    parser.add_argument("--repeats", type=int, default=2, help="passes over each arm, in turns")
    parser.add_argument("--policies-only", action="store_true", help="no other thresholds and budgets")
    parser.add_argument("--limit", type=int, help="samples of each dataset of the quickstart")
    parser.add_argument("--pairs", type=int, default=2)
    given = parser.parse_args()
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # the engine's process takes it over
    cache = assay_home() / "cache"
    folder = model_folder(load_experiment("quickstart").model, cache=cache)
    model, device = read_model_facts(folder, cache=cache), read_device_facts()
    if given.mode == "prefill":
        kept = prefill(
            model=model,
            device=device,
            long=given.long,
            long_tokens=given.tokens,
            short=given.short,
            repeats=given.repeats,
            policies_only=given.policies_only,
        )
    else:
        kept = quickstart(model=model, device=device, limit=given.limit, pairs=given.pairs)
    if not kept:
        sys.exit("a ratio is out of its bound")


if __name__ == "__main__":
    main()
