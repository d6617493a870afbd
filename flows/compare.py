"""The last run against earlier ones, without an engine: every night, or whenever somebody asks."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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
from schemas.gate import LAST_GREEN, Gate, gate_exit_code
from tasks.compare.names import find_run, run_list
from tasks.compare.points import Measured, measured_points
from tasks.compare.read import PERF, SATURATE, read_recorded
from tasks.compare.speed import MAIN
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
    slower: Annotated[float, Field(ge=0, lt=1)] = 0.05,
    fail_on: Annotated[str, Shown(lambda: {"enum": [WORSE, UNDECIDED, NOTHING]})] = WORSE,
) -> str:
    """Is a finished run worse than earlier ones, or slower? Compares samples and measured loads; fails where it is.

    Args:
        candidate: The run: last, an id, the beginning of one, or baseline:NAME.
        baseline: What it is held against, each by itself: last_green, baseline:NAME or the id of a run.
        experiment: Of which experiment `last` is meant, by its name. Empty: of any.
        metrics: Only these, as dataset.metric or perf.tpot_ms.p50. None named: all that have a score for each sample,
            and the main numbers of every load that was measured at least twice.
        margin: The loss that still counts as the same, in the metric's own unit.
        slower: The loss of speed that still counts as the same, as a share: 0.05 is 5 %. Of each measured load.
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
    asked = Asked(metrics=metrics, margin=margin, slower=slower, against=baseline, strict=fail_on == UNDECIDED)
    gates = gates_on(run, asked)
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
    if fail_on != NOTHING and _fails(found):
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


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What is compared. metrics: none for all; margin: in a metric's own unit; slower: a share of speed; against: runs,
    each by itself; strict: whether an undecided verdict fails."""

    metrics: Sequence[str]
    margin: float
    slower: float
    against: Sequence[str]
    strict: bool


def gates_on(run: Judged, asked: Asked) -> list[Gate]:
    """A gate for each metric and arm of the run that has a score for each sample, and for the numbers of each measured
    load that has several repeats. Raises ConfigError for a metric that the run does not have, or a name that is none
    of a run's."""
    sql = f"SELECT DISTINCT dataset || '.' || metric, arm FROM scores WHERE run_id = {literal(run.run_id)} ORDER BY ALL"  # noqa: S608 - quoted
    scored = [(str(name), str(arm)) for name, arm in query(home=run.home, sql=sql).rows]
    points = [point for point in measured_points(read_recorded(run.home, run.run_id)) if point.kind != SATURATE]
    known = {name for name, _ in scored} | {name for point in points for name in point.rows}
    if missing := [metric for metric in asked.metrics if metric not in known]:
        raise ConfigError.one(
            f"run {run.run_id} has no metric {', '.join(missing)}",
            key="metrics",
            suggestion=did_you_mean_or_list(missing[0], known),
        )
    made: dict[str, Any] = {"against": list(asked.against), "on_undecided": "fail" if asked.strict else "warn"}
    quality = {"rule": "not_worse", "margin": asked.margin}
    gates = [
        made | quality | {"metric": metric, "arm": arm}
        for metric, arm in scored
        if not asked.metrics or metric in asked.metrics
    ]
    gates += [made | each for point in points for each in _on_speed(point, asked)]
    if not gates:
        raise ConfigError.one(
            f"run {run.run_id} has no metric with a score for each sample, and no load that was measured several times"
        )
    try:
        return [Gate.model_validate(each) for each in gates]
    except ValueError as error:
        raise ConfigError.one(
            f"{', '.join(asked.against) or 'nothing'} does not name runs",
            key="baseline",
            suggestion="last_green, baseline:NAME or the whole id of a run, each once",
        ) from error


def _on_speed(point: Measured, asked: Asked) -> Iterator[dict[str, Any]]:
    """A gate for each number of a point; none for a point with one repeat, which no verdict comes of."""
    for metric in asked.metrics or [f"{PERF}{name}" for name in MAIN]:
        if metric not in point.rows or len(point.repeats(metric)) < 2:
            continue
        more = point.rows[metric]["direction"] == "higher"
        bound = 1 - asked.slower if more else 1 + asked.slower
        rule = "ratio_at_least" if more else "ratio_at_most"
        yield {"metric": metric, "arm": point.arm, "cell": {"name": point.name}, "rule": rule, "value": bound}


def _fails(found: Evaluation) -> bool:
    """Whether something is worse, or a metric cannot be judged. Speed that cannot, since the other run was measured on
    another device or under another load, is told and fails nothing: a night on another machine is no worse a night."""
    counted = [each for each in found.verdicts if not (each.verdict == "refused" and each.metric.startswith(PERF))]
    return gate_exit_code(counted) != 0


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
