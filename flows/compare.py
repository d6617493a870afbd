"""The last run against earlier ones, without an engine: every night, or whenever somebody asks."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from prefect import flow, get_run_logger
from prefect.artifacts import create_markdown_artifact
from pydantic import Field

from flows.context import this_flow_run
from flows.events import announce_failed_gates
from flows.form import Shown
from flows.pileup import stand_for_the_others
from flows.runtime import assay_home
from schemas.errors import ConfigError, GateFailed
from schemas.gate import LAST_GREEN, Gate
from tasks.compare.names import find_run, run_list
from tasks.config.nearest import did_you_mean_or_list
from tasks.gate.evaluate import Judged, evaluate, judged_run
from tasks.gate.markdown import markdown
from tasks.gate.model import Evaluation
from tasks.gate.words import sentence
from tasks.record.step import try_artifact
from warehouse.parquet import read_rows
from warehouse.query import query
from warehouse.schema.table import literal

LAST = "last"
WORSE, UNDECIDED, NOTHING = "worse", "worse or undecided", "nothing"

Run = Annotated[str, Shown(lambda: {"examples": [LAST, "baseline:main"]})]
Baselines = Annotated[
    list[Annotated[str, Shown(lambda: {"examples": [LAST_GREEN, "baseline:main"]})]],
    Shown(lambda: {"uniqueItems": True}),
]
Metrics = Annotated[list[Annotated[str, Shown(lambda: {"examples": ["gsm8k.exact_match"]})]], Shown(dict)]


@flow(name="compare", flow_run_name="compare {candidate}", persist_result=False)
def compare(
    candidate: Run = LAST,
    baseline: Baselines = [LAST_GREEN],  # noqa: B006 - the form shows it, nothing changes it
    experiment: str = "",
    metrics: Metrics = [],  # noqa: B006
    margin: Annotated[float, Field(ge=0)] = 0.02,
    fail_on: Annotated[str, Shown(lambda: {"enum": [WORSE, UNDECIDED, NOTHING]})] = WORSE,
) -> str:
    """Is a finished run worse than earlier ones? Compares them sample by sample; fails where it is.

    Args:
        candidate: The run: last, an id, the beginning of one, or baseline:NAME.
        baseline: What it is held against, each by itself: last_green, baseline:NAME or the id of a run.
        experiment: Of which experiment `last` is meant, by its name. Empty: of any.
        metrics: Only these, as dataset.metric. None named: all that have a score for each sample.
        margin: The loss that still counts as the same, in the metric's own unit.
        fail_on: When this flow run fails.

    Gives the verdict in a sentence. Raises ConfigError for a run or a baseline that is not there, GateFailed where a
    metric is worse.
    """
    log = get_run_logger()
    stand_for_the_others(this_flow_run())
    home = assay_home()
    if fail_on not in {WORSE, UNDECIDED, NOTHING}:
        raise ConfigError.one(
            f"there is no choice {fail_on!r}", key="fail_on", suggestion=f"{WORSE}, {UNDECIDED}, {NOTHING}"
        )
    run_id = chosen_run(home, candidate, experiment=experiment)
    if run_id is None:
        said = f"no run{f' of {experiment}' if experiment else ''} has finished yet: there is nothing to compare"
        log.info(said)
        return said
    run = _judged(home, run_id)
    gates = gates_on(run, metrics=metrics, margin=margin, against=baseline, strict=fail_on == UNDECIDED)
    found = evaluate(run, gates)
    text = sentence(found)
    log.info("run %s: %s", run_id, text)
    for note in found.notes:
        log.warning(note)
    try_artifact(
        create_markdown_artifact,
        key="comparison",
        markdown=_page(found, baseline=baseline),
        description=f"Run {run_id}: {text}",
    )
    if fail_on != NOTHING and found.exit_code:
        _announce(found, error=text)
        raise GateFailed(f"run {run_id}: {text}")
    return text


def chosen_run(home: Path, candidate: str, *, experiment: str) -> str | None:
    """The finished run that is meant; None where `last` has none yet. Raises ConfigError for a name that no run has."""
    if candidate != LAST:
        return find_run(home, candidate).run_id
    rows = [row for row in run_list(home) if not experiment or row["name"] == experiment]
    if experiment and not rows:
        known = {str(row["name"]) for row in run_list(home)}
        if known:
            raise ConfigError.one(
                f"no run is of an experiment {experiment}",
                key="experiment",
                suggestion=did_you_mean_or_list(experiment, known),
            )
    finished = [str(row["run_id"]) for row in rows if row["status"] == "finished"]
    return finished[-1] if finished else None


def gates_on(run: Judged, *, metrics: Sequence[str], margin: float, against: Sequence[str], strict: bool) -> list[Gate]:
    """A gate for each metric and arm of the run that has a score for each sample. Raises ConfigError for a metric that
    the run does not have, or a name that is none of a run's."""
    sql = f"SELECT DISTINCT dataset || '.' || metric, arm FROM scores WHERE run_id = {literal(run.run_id)} ORDER BY ALL"  # noqa: S608 - quoted
    known = [(str(name), str(arm)) for name, arm in query(home=run.home, sql=sql).rows]
    wanted = [key for key in known if not metrics or key[0] in metrics]
    missing = [metric for metric in metrics if metric not in {name for name, _ in known}]
    if missing or not wanted:
        raise ConfigError.one(
            f"run {run.run_id} has no metric {', '.join(missing) or 'with a score for each sample'}",
            key="metrics",
            suggestion=did_you_mean_or_list(missing[0], {name for name, _ in known}) if missing else None,
        )
    made: dict[str, Any] = {"rule": "not_worse", "margin": margin, "against": list(against)}
    made["on_undecided"] = "fail" if strict else "warn"
    try:
        return [Gate.model_validate({"metric": metric, "arm": arm} | made) for metric, arm in wanted]
    except ValueError as error:
        raise ConfigError.one(
            f"{', '.join(against) or 'nothing'} does not name runs",
            key="baseline",
            suggestion="last_green, baseline:NAME or the whole id of a run, each once",
        ) from error


def _judged(home: Path, run_id: str) -> Judged:
    datasets = [row["dataset"] for row in read_rows(home, "datasets", run_id, columns=["dataset", "revision"])]
    return judged_run(home, run_id, groups={}, datasets=datasets)


def _page(found: Evaluation, *, baseline: Sequence[str]) -> str:
    text = markdown(found)
    if list(baseline) == [LAST_GREEN]:
        text += "\n`last_green` alone moves down with many small losses: pin a run with `assay promote RUN --as"
        text += " baseline:NAME`, and add `baseline:NAME` to the form.\n"
    return text


def _announce(found: Evaluation, *, error: str) -> None:
    announce_failed_gates(
        run_id=found.run_id,
        name=found.name,
        gates=found.verdicts,
        error=error,
        mlflow_run_id=None,
        prefect_flow_run_id=str(this_flow_run().id),
    )
