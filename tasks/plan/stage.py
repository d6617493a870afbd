"""The planning step: from the run's samples to the requests it will make and the engine that suits them."""

from collections.abc import Sequence
from pathlib import Path

from schemas.experiment import Experiment
from schemas.plan import DeviceFacts, EnginePlan, ModelFacts
from schemas.sample import Request, Sample
from schemas.summary import DatasetsSummary
from tasks.plan.engine import plan_engine
from tasks.plan.estimate import Rates
from tasks.requests import plan_requests, planned_load
from warehouse.parquet import read_rows


def run_requests(experiment: Experiment, *, datasets: DatasetsSummary, samples: Sequence[Sample]) -> list[Request]:
    """Every request of a run, in the order in which the engine gets them."""
    named = {dataset.name: dataset for dataset in experiment.datasets}
    requests: list[Request] = []
    for summary in datasets.datasets:
        own = [sample for sample in samples if sample.dataset == summary.dataset]
        requests += plan_requests(dataset=named[summary.dataset], samples=own, arms=summary.arms, needs=summary.needs)
    return requests


def plan_run(
    experiment: Experiment, *, home: Path, requests: Sequence[Request], model: ModelFacts, device: DeviceFacts
) -> EnginePlan:
    """The engine's options for these requests, each with its reason. Raises ConfigError for what cannot fit.

    home: ASSAY_HOME, where an earlier run tells how fast this machine is."""
    return plan_engine(
        load=planned_load(requests),
        model=model,
        device=device,
        engine=experiment.engine,
        dtype=experiment.model.config.dtype,
        measured_rates=measured_rates(home=home, model=model, device=device),
    )


def measured_rates(*, home: Path, model: ModelFacts, device: DeviceFacts) -> Rates | None:
    """The rates of the latest finished run of these weights on this device; None if there is none."""
    engines = [
        row
        for row in read_rows(home, "engines", columns=["run_id", "model_fingerprint", "device", "start_s"])
        if row["model_fingerprint"] == model.fingerprint and row["device"] == device.name
    ]
    if not engines:
        return None
    latest = max(engines, key=lambda row: str(row["run_id"]))
    values = {
        row["name"]: row["value"]
        for row in read_rows(home, "metrics", latest["run_id"], columns=["name", "value"])
        if row["name"] in ("timing.prompt_tokens_per_s", "timing.output_tokens_per_s")
    }
    prompt, output = values.get("timing.prompt_tokens_per_s"), values.get("timing.output_tokens_per_s")
    if not prompt or not output:
        return None
    return Rates(
        prompt_tokens_per_s=prompt,
        output_tokens_per_s=output,
        start_s=latest["start_s"],
        source=f"run {latest['run_id']}",
    )
