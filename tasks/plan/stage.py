"""The planning step: from the run's samples to the requests it will make and the engine that suits them."""

from collections.abc import Sequence
from pathlib import Path

from schemas.arm import REPAIR, arm_name
from schemas.errors import ConfigError
from schemas.experiment import Experiment
from schemas.plan import DeviceFacts, EnginePlan, ModelFacts, PlannedLoad
from schemas.points import measured_arms
from schemas.sample import Request, Sample
from schemas.summary import DatasetsSummary
from tasks.engine.endpoint_build import plan_endpoint
from tasks.load.questions import planned_lengths
from tasks.plan.adapters import check_likelihoods
from tasks.plan.engine import plan_engine
from tasks.plan.estimate import EarlierRun, estimate
from tasks.plan.on_disk import read_on_disk
from tasks.requests import plan_requests, plan_retries, planned_load
from warehouse.parquet import read_rows

_RUNS_LOOKED_AT = 20
_ENOUGH_REQUESTS = 100
_TOO_MANY_REQUESTS = 200_000
"""Reading more rows than that takes longer than the estimate is worth."""


def run_requests(experiment: Experiment, *, datasets: DatasetsSummary, samples: Sequence[Sample]) -> list[Request]:
    """Every request that a run is sure to make."""
    named = {dataset.name: dataset for dataset in experiment.datasets}
    requests: list[Request] = []
    for summary in datasets.datasets:
        own = [sample for sample in samples if sample.dataset == summary.dataset]
        arms = [arm for arm in experiment.arms if arm_name(arm) in summary.arms]
        requests += plan_requests(dataset=named[summary.dataset], samples=own, arms=arms, needs=summary.needs)
    return requests


def run_retries(experiment: Experiment, *, datasets: DatasetsSummary, samples: Sequence[Sample]) -> list[Request]:
    """Every retry that the arm `repair` may come to make."""
    if REPAIR not in experiment.arms:
        return []
    named = {dataset.name: dataset for dataset in experiment.datasets}
    return [
        request
        for summary in datasets.datasets
        for request in plan_retries(
            dataset=named[summary.dataset],
            samples=[sample for sample in samples if sample.dataset == summary.dataset],
            arms=experiment.arms,
            needs=summary.needs,
            repair=experiment.repair,
        )
    ]


def plan_run(
    experiment: Experiment, *, home: Path, requests: Sequence[Request], model: ModelFacts, device: DeviceFacts
) -> EnginePlan:
    """The engine's options for these requests and the load of the benchmark, each with its reason. Raises ConfigError
    for what cannot fit.

    home: ASSAY_HOME, where an earlier run tells how fast this machine is."""
    if experiment.endpoint is not None:
        return plan_endpoint(
            experiment.endpoint, load=planned_load(requests), max_model_len=model.max_position_embeddings
        )
    _check_seeds(experiment, device=device)
    on_disk = read_on_disk(experiment.vllm, model=model, cache=home / "cache")
    check_likelihoods(on_disk.adapters, requests=requests)
    load, earlier = planned_load(requests), earlier_run(home=home, model=model, device=device)
    more = _measured(experiment, requests=requests, model=model)
    plan = plan_engine(
        load=PlannedLoad(
            prompt_tokens=load.prompt_tokens + more.prompt_tokens, output_tokens=load.output_tokens + more.output_tokens
        ),
        model=model,
        device=device,
        engine=experiment.vllm,
        dtype=experiment.model.config.dtype,
        earlier=earlier,
        on_disk=on_disk,
    )
    if not more.prompt_tokens or not load.prompt_tokens:
        return plan
    # What is estimated is generating: how long a measured load takes, it says itself.
    return plan.model_copy(update={"estimate": estimate(load=load, model=model, device=device, earlier=earlier)})


def _measured(experiment: Experiment, *, requests: Sequence[Request], model: ModelFacts) -> PlannedLoad:
    """What the benchmark may have in flight; nothing where there is none."""
    benchmark = experiment.benchmark
    if benchmark is None:
        return PlannedLoad(prompt_tokens=[], output_tokens=[])
    arms = measured_arms(benchmark, experiment.arms)
    return planned_lengths(benchmark, requests=requests, arms=arms, folder=Path(model.path))


def _check_seeds(experiment: Experiment, *, device: DeviceFacts) -> None:
    """vLLM's CPU build dies of the first request that draws with a seed of its own."""
    repaired = REPAIR in experiment.arms and experiment.repair.retries > 1 and experiment.repair.temperature is not None
    seeded = [
        dataset.name
        for dataset in experiment.datasets
        if dataset.sampling.seed is not None
        and (dataset.sampling.temperature > 0 or (repaired and dataset.config.guide is not None))
    ]
    if device.kind == "cpu" and seeded:
        raise ConfigError.one(
            f"vLLM on a CPU cannot draw with a seed ({', '.join(seeded)})",
            key="sampling.seed",
            suggestion="leave `seed` out, or set `temperature: 0`",
        )


def earlier_run(*, home: Path, model: ModelFacts, device: DeviceFacts) -> EarlierRun | None:
    """The latest uninterrupted run of these weights on this device with enough requests to tell; None without one."""
    engines = [
        row
        for row in read_rows(home, "engines", columns=["run_id", "model_fingerprint", "device", "start_s", "revision"])
        if row["model_fingerprint"] == model.fingerprint and row["device"] == device.name
    ]
    for engine in sorted(engines, key=lambda row: str(row["run_id"]), reverse=True)[:_RUNS_LOOKED_AT]:
        found = _run_time(home, engine["run_id"])
        if found is not None:
            load, seconds = found
            return EarlierRun(
                load=load, generate_s=seconds, start_s=engine["start_s"], source=f"run {engine['run_id']}"
            )
    return None


def _run_time(home: Path, run_id: str) -> tuple[PlannedLoad, float] | None:
    """The load of a run and the seconds that it took; None if it was too small, or interrupted."""
    metrics = read_rows(home, "metrics", run_id, columns=["name", "value", "n", "revision"])
    rate = next((row for row in metrics if row["name"] == "timing.requests_per_s" and row["value"]), None)
    if rate is None or not _ENOUGH_REQUESTS <= rate["n"] <= _TOO_MANY_REQUESTS:
        return None
    rows = read_rows(
        home, "requests", run_id, columns=["prompt_tokens", "sampling", "kind", "revision"], parse_json=True
    )
    load = PlannedLoad(
        prompt_tokens=[row["prompt_tokens"] for row in rows],
        output_tokens=[1 if row["kind"] == "loglikelihood" else row["sampling"]["max_tokens"] for row in rows],
    )
    return load, rate["n"] / rate["value"]
