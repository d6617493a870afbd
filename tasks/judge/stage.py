"""The judging step of a run: between generating and scoring, from the answers on disk to the rows of `judgements`."""

from collections.abc import Callable

from schemas.arm import REPAIR
from schemas.experiment import Experiment
from schemas.sample import Response
from schemas.summary import DatasetsSummary, JudgedSummary
from tasks.generate import Update
from tasks.judge.judging import Answers, OwnEngine, judge_answers, judges_in
from tasks.record.answers import last_attempts
from tasks.score.repaired import judged_rows
from tasks.session import Session
from warehouse.parquet import read_rows


def has_judge(experiment: Experiment) -> bool:
    """Whether a metric of the experiment rests on a judge."""
    return any(judges_in(dataset.config.metrics) for dataset in experiment.datasets)


def runs_engine(experiment: Experiment) -> bool:
    """Whether a judge of the experiment runs on an engine of its own."""
    found = (options for dataset in experiment.datasets for _, options in judges_in(dataset.config.metrics))
    return any(options.model is not None for options in found)


def judge_run(
    session: Session, datasets: DatasetsSummary, *, on_update: Callable[[Update], None] | None = None
) -> JudgedSummary:
    """Has the run's answers judged, as far as an earlier session has not; writes judgements as they come.

    Raises what `judge_answers` raises."""
    run = session.run
    judged = judge_answers(
        list(_answers(session, datasets).values()),
        before=read_rows(run.home, "judgements", run.run_id),
        write=lambda rows: session.store.write("judgements", rows),
        own=OwnEngine(cache=session.cache, engine=run.experiment.vllm, log_path=run.folder / "judge-engine.log"),
        on_update=on_update,
    )
    return JudgedSummary(
        answers=judged.wanted,
        reused=judged.reused,
        statuses=dict(judged.statuses),
        failed=judged.failed,
        wall_s=judged.wall_s,
        warnings=judged.warnings,
    )


def _answers(session: Session, datasets: DatasetsSummary) -> dict[str, Answers]:
    """The last attempt of each request that this session asks for, by dataset."""
    columns = list(Response.__slots__)
    responses: dict[str, list[Response]] = {}
    rows = [
        row
        for row in last_attempts(session.run.home, session.run.run_id, columns=[*columns, "request_key", "repair_try"])
        if row["request_key"] == session.request_keys.get(row["request_id"])
    ]
    judged = judged_rows(rows, datasets={each.dataset for each in datasets.datasets if REPAIR in each.arms})
    # An answer of `free` may be one of `repair` too; it is judged once.
    for row in {row["request_id"]: row for row in judged}.values():
        responses.setdefault(row["dataset"], []).append(Response(**{name: row[name] for name in columns}))
    samples = session.samples()
    named = {dataset.name: dataset for dataset in session.run.experiment.datasets}
    return {
        each.dataset: Answers(
            metrics=named[each.dataset].config.metrics,
            samples=[sample for sample in samples if sample.dataset == each.dataset],
            responses=responses.get(each.dataset, []),
        )
        for each in datasets.datasets
    }
