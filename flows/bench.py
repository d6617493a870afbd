"""Load alone: the engine of an experiment under its benchmark's loads, nothing answered and scored before."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from prefect import flow
from prefect.runtime import flow_run
from pydantic import Field

from flows import pages
from flows.commands.bench import check_has_load
from flows.experiment import experiment
from flows.form import AS_CONFIGURED, Arms, Config, Graphs, Limit, Model, Overrides, Prefill, Resume, Shown
from flows.hooks import after_crash
from flows.signals import keep_sigterm
from schemas.run import RunResult
from tasks.load.override import Changes

Concurrencies = Annotated[list[Annotated[int, Field(ge=1, le=100_000)]], Shown(lambda: {"uniqueItems": True})]
Rates = Annotated[list[Annotated[float, Field(gt=0)]], Shown(lambda: {"uniqueItems": True})]
Requests = Annotated[int, Field(ge=0)]
Seconds = Annotated[float, Field(ge=0)]
Repeats = Annotated[int, Field(ge=0, le=1000)]


def _flow_run_name() -> str:
    given = flow_run.parameters
    if given.get("resume"):
        return f"resume {given['resume']}"
    loads = [f"at {', '.join(map(str, given['concurrency']))}"] if given.get("concurrency") else []
    loads += [f"{', '.join(f'{rate:g}' for rate in given['rate'])}/s"] if given.get("rate") else []
    return ", ".join([f"load of {Path(str(given.get('config'))).stem}", *loads])


@flow(name="bench", flow_run_name=_flow_run_name, persist_result=False, on_crashed=[after_crash])
def bench(  # noqa: PLR0913, PLR0917 - the fields of the launch form
    config: Config = "service",
    concurrency: Concurrencies = [],  # noqa: B006 - the form shows it, nothing changes it
    rate: Rates = [],  # noqa: B006
    requests: Requests = 0,
    seconds: Seconds = 0.0,
    repeats: Repeats = 0,
    model: Model = AS_CONFIGURED,
    arms: Arms = AS_CONFIGURED,
    limit: Limit = 0,
    graphs: Graphs = AS_CONFIGURED,
    prefill: Prefill = AS_CONFIGURED,
    overrides: Overrides = [],  # noqa: B006
    resume: Resume = "",
) -> RunResult:
    """Measure the load of an experiment's benchmark, and nothing else: latencies, throughput, goodput, energy.

    Args:
        config: The experiment: a name in configs/experiments.
        concurrency: Requests in flight, a closed load of each number. None given: the loads of the experiment's file.
        rate: Requests a second, an open load of each number. None given: the loads of the experiment's file.
        requests: Measured requests of each cell, of the loads that are given here. 0: as many as the load needs.
        seconds: Or how long each of these cells sends. 0: by requests.
        repeats: How often each cell is measured, in turns. 0: as the experiment's file says.
        model: Another model than the experiment's own.
        arms: The arms that are measured; drawn prompts have no grammar, and only the arm free.
        limit: The most samples of each dataset. 0: all of them.
        graphs: CUDA graph mode of the engine. There are none on a CPU.
        prefill: How long prompts are split: by the rule from their lengths, by auto from the mix of lengths, or off.
        overrides: Any other key of the experiment, each as key=value, for example benchmark.warmup=16.
        resume: The id of an interrupted run to go on with, or last. Empty: a new run. All else is then as it began.

    Raises what the flow `experiment` raises.
    """
    keep_sigterm()
    changed: Sequence[str] = []
    if not resume:
        with pages.refusal_explained():
            own = Changes(
                concurrency=concurrency,
                rate=rate,
                requests=requests or None,
                seconds=seconds or None,
                repeats=repeats or None,
            ).overrides()
            changed = [*own, *overrides]
            check_has_load(config, changed)
    # The body alone: one flow run, whose page this is.
    return experiment.fn(
        config=config,
        model=model,
        arms=arms,
        limit=limit,
        graphs=graphs,
        prefill=prefill,
        overrides=list(changed),
        resume=resume,
    )
