"""`assay plan`: what a run would do, and why."""

from collections.abc import Sequence

from rich.table import Table

from flows.commands.checks import check_model
from flows.commands.output import print_json, stdout_console
from flows.console import RunConsole
from flows.runtime import assay_home
from schemas.benchmark import Benchmark
from schemas.experiment import Experiment
from schemas.plan import EnginePlan, Prediction
from schemas.points import measured_arms, points, searches
from schemas.summary import DatasetsSummary
from tasks.config.document import to_yaml
from tasks.config.resolve import load_experiment
from tasks.dataset.stage import add_profiles, render_datasets
from tasks.load.course import expected_requests
from tasks.model.facts import read_model_facts
from tasks.model.resolve import model_folder
from tasks.plan.batch import MIB
from tasks.plan.context import as_overridden
from tasks.plan.device import read_device_facts
from tasks.plan.predict import memory_lines
from tasks.plan.stage import plan_run, run_requests


def show_plan(*, file: str, overrides: Sequence[str], limit: int | None, as_json: bool) -> None:
    """Loads and renders the data, plans, prints. It needs the model's tokenizer, so a GGUF may have to be converted."""
    home = assay_home()
    experiment = load_experiment(file, overrides=overrides, limit=limit)
    check_model(experiment, file=file, overrides=overrides)
    cache = home / "cache"
    folder = model_folder(experiment.model, cache=cache, on_progress=RunConsole().warn)
    model = as_overridden(read_model_facts(folder, cache=cache), experiment.vllm)
    samples, summaries = render_datasets(experiment, model=model, folder=folder)
    datasets = add_profiles(DatasetsSummary(datasets=summaries), samples)
    requests = run_requests(experiment, datasets=datasets, samples=samples)
    device = read_device_facts(python=experiment.vllm.python)
    plan = plan_run(experiment, home=home, requests=requests, model=model, device=device)
    warnings = [*datasets.warnings, *plan.warnings]
    if as_json:
        print_json(
            {
                "experiment": experiment.model_dump(mode="json", by_alias=True),
                "datasets": datasets.model_dump(mode="json"),
                "plan": plan.model_dump(mode="json"),
                "warnings": warnings,
            }
        )
        return
    console = stdout_console()
    console.print(f"# {experiment.name}, every name resolved\n{to_yaml(experiment)}", markup=False, soft_wrap=True)
    console.print(_data_table(datasets))
    console.print(_options_table(plan))
    if plan.prediction is not None:
        console.print(_memory_table(plan.prediction))
    estimate = plan.estimate
    known = estimate.start_s is not None and estimate.generate_s is not None
    seconds = f"about {estimate.start_s:.0f} s to start and {estimate.generate_s:.0f} s to generate (" if known else "("
    console.print(
        f"{estimate.requests:,} requests, {estimate.prompt_tokens:,} prompt tokens, at most "
        f"{estimate.output_tokens_max:,} output tokens; {seconds}{estimate.basis})",
        markup=False,
    )
    if experiment.benchmark is not None:
        console.print(_load_table(experiment, experiment.benchmark))
    for warning in warnings:
        console.print(f"! {warning}", markup=False)


def _load_table(experiment: Experiment, benchmark: Benchmark) -> Table:
    """The points that are measured, in the order of one turn."""
    arms = measured_arms(benchmark, experiment.arms)
    turns = f"{benchmark.repeats} times, in turns" if benchmark.repeats > 1 else "once, which gives no verdict on speed"
    table = Table(title=f"load, each measured {turns}", title_justify="left", box=None, padding=(0, 2, 0, 0))
    for name in ("point", "load", "requests", "warm-up"):
        table.add_column(name, justify="right" if name in ("requests", "warm-up") else "left")
    for point in points(benchmark, arms=arms):
        n = expected_requests(point.load)
        seconds = getattr(point.load, "seconds", None)
        size = f"{n:,}" if n is not None else f"what {seconds:g} s take" if seconds else "all of the trace"
        table.add_row(point.point_id, point.kind, size, f"{benchmark.warmup:,}")
    for load in searches(benchmark):
        for arm in arms:
            size = f"at most {load.probes} probes of {load.seconds:g} s"
            table.add_row(f"{arm}-saturate", load.kind, size, f"{benchmark.warmup:,}")
    return table


def _data_table(datasets: DatasetsSummary) -> Table:
    table = Table(title="prompts, in tokens", title_justify="left", box=None, padding=(0, 2, 0, 0))
    for name in ("dataset", "arm", "samples", "p50", "p95", "longest", "answer up to"):
        table.add_column(name, justify="left" if name in ("dataset", "arm") else "right")
    for profile in datasets.profiles:
        table.add_row(
            profile.dataset,
            profile.arm,
            f"{profile.n:,}",
            f"{profile.tokens_p50:,.0f}",
            f"{profile.tokens_p95:,.0f}",
            f"{profile.tokens_max:,}",
            f"{profile.output_budget:,}",
        )
    return table


def _options_table(plan: EnginePlan) -> Table:
    table = Table(title="engine", title_justify="left", padding=(0, 1), show_lines=False)
    table.add_column("option")
    table.add_column("value", justify="right")
    table.add_column("vLLM's own", justify="right")
    table.add_column("from")
    table.add_column("why", ratio=3)
    table.add_column("what would change it", ratio=2)
    for option in plan.options:
        table.add_row(
            option.option,
            str(option.value),
            str(option.default_value),
            option.source,
            option.reason,
            option.would_change,
        )
    return table


def _memory_table(prediction: Prediction) -> Table:
    """What the engine is predicted to take of one device's memory."""
    table = Table(title="memory, predicted", title_justify="left", box=None, padding=(0, 2, 0, 0))
    table.add_column("part")
    table.add_column("MiB", justify="right")
    table.add_column("found from", ratio=1)
    for name, size, basis in memory_lines(prediction):
        table.add_row(name, "–" if size is None else f"{size / MIB:,.0f}", basis)
    return table
