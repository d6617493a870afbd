"""The noise band: one experiment, greedily, at several batch sizes, and how far each metric moved."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from prefect import flow, get_run_logger
from prefect.artifacts import create_table_artifact
from prefect.runtime import flow_run
from pydantic import Field

from flows import pages
from flows.begin import before_it_begins
from flows.console import RunConsole
from flows.experiment import RunNotFinished, experiment
from flows.form import AS_CONFIGURED, Config, Datasets, Limit, Model, Overrides, Shown, form_overrides
from flows.runtime import assay_home
from flows.signals import keep_sigterm
from schemas.errors import RunError
from schemas.experiment import Experiment
from tasks.compare import noise as bands
from tasks.compare.noise import Level, Noise
from tasks.compare.noise_plan import AT_ONCE, checked
from tasks.compare.noise_table import table
from tasks.record.step import try_artifact
from warehouse.parquet import read_rows

Concurrency = Annotated[list[Annotated[int, Field(ge=1, le=4096)]], Shown(lambda: {"uniqueItems": True, "minItems": 2})]
_BUDGET = "engine.max_num_batched_tokens"


def _flow_run_name() -> str:
    at = ", ".join(str(each) for each in flow_run.parameters.get("concurrency") or [])
    return f"{Path(str(flow_run.parameters.get('config'))).stem} at {at}"


@flow(name="noise", flow_run_name=_flow_run_name, persist_result=False)
def noise(
    config: Config = "quickstart",
    concurrency: Concurrency = [1, 16],  # noqa: B006 - the form shows it, nothing changes it
    model: Model = AS_CONFIGURED,
    datasets: Datasets = [],  # noqa: B006
    limit: Limit = 0,
    overrides: Overrides = [],  # noqa: B006
) -> Noise:
    """Measure how far each metric moves with the batch size alone: the same greedy run at several of them.

    Args:
        config: The experiment: a name in configs/experiments. It must be greedy: temperature 0.
        concurrency: How many requests the engine runs at once at most, in each of the runs. The first report to read is
            that of the highest.
        model: Another model than the experiment's own.
        datasets: Only these datasets. None chosen: the experiment's own.
        limit: The most samples of each dataset. 0: all of them.
        overrides: Any other key of the experiment, each as key=value.

    Raises ConfigError before anything runs, what a run raises, and RunError for answers that an earlier run gave.
    """
    keep_sigterm()
    with pages.refusal_explained():
        changes = form_overrides(
            model=model,
            datasets=datasets,
            arms=AS_CONFIGURED,
            graphs=AS_CONFIGURED,
            prefill=AS_CONFIGURED,
            overrides=overrides,
        )
        asked = checked(config, concurrency=concurrency, overrides=changes, limit=limit or None)
    home, warnings = assay_home(), before_it_begins()
    levels: list[Level] = []
    held: list[str] = []
    # The highest first: the step's budget that suits it is given to the others too, so that prompts are split alike.
    for at_once in sorted(concurrency, reverse=True):
        levels.append(Level(concurrency=at_once, run_id=_run(config, [*changes, *held], at_once, asked, limit=limit)))
        if asked.vllm.max_num_batched_tokens == "auto" and not held:
            [engine, *_] = read_rows(home, "engines", levels[0].run_id, columns=["max_num_batched_tokens"])
            held = [f"{_BUDGET}={engine['max_num_batched_tokens']}"]
    measured = bands.measure(home, levels)
    bands.save(home, measured)
    _report(home, measured)
    for warning in [*warnings, *measured.warnings]:
        RunConsole(log=get_run_logger().info).warn(warning)
    try_artifact(
        create_table_artifact, key="noise", table=table(measured), description="what the batch size alone moves"
    )
    return measured


def _run(config: str, overrides: Sequence[str], at_once: int, asked: Experiment, *, limit: int) -> str:
    """One run at so many requests at once, tagged with it. Gates are not asked: nothing was changed that they guard."""
    own = [f"{AT_ONCE}={at_once}", f"tags.noise=at-{at_once}", *(["gates=[]"] if asked.gates else [])]
    try:
        return str(experiment(config=config, limit=limit, overrides=[*overrides, *own]).run_id)
    except RunNotFinished as error:
        error.add_note("no noise was measured: every run of it must finish")
        raise


def _report(home: Path, measured: Noise) -> None:
    """The report of the run that has the numbers, once more: it was written before they were known."""
    from tasks.report.stage import report_run  # noqa: PLC0415 - draws figures: slow to import

    run_id = measured.levels[-1].run_id
    try:
        report_run(home=home, run_id=run_id, path=home / "runs" / run_id / "report.html")
    except OSError as error:
        raise RunError(f"the noise is kept, but the report of run {run_id} could not be written: {error}") from error
