"""Scores a file of answers that another program made: the dataset's rows, the answers joined to them, the numbers."""

import re
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from schemas.dataset import MetricUse, NamedDataset
from schemas.errors import ConfigError
from schemas.metric import Aggregate, Score
from schemas.sample import Response, Sample
from tasks.config.lines import lines_added
from tasks.dataset.load import LoadedDataset, load_rows
from tasks.dataset.stage import check_metric_columns
from tasks.guide.validate import Verdict, validate
from tasks.judge.ask import Row
from tasks.judge.judging import Answers, Slot
from tasks.predictions.dataset import load_dataset
from tasks.predictions.join import Joined, join_by_id, join_by_order
from tasks.predictions.judged import judge_offline
from tasks.predictions.read import Prediction, Predictions, read_predictions
from tasks.predictions.samples import asked_samples
from tasks.predictions.score import chosen_metrics, misfits, needs
from tasks.requests import request_id
from tasks.score.aggregate import aggregate, aggregate_form
from tasks.score.answers import further_metrics, score_answers
from tasks.score.reasoning import UNFINISHED, chosen_parser, parse_reasoning

_ARM = re.compile(r"[a-z][a-z0-9_]{0,31}")
_FORM = ("compliance", "empirical_coverage", "parse_failures", "whitespace_share")
"""What can be told of the form of answers whose requests nobody saw: not what was refused, failed or cut."""
_IDS_NAMED = 10
ABSENT = "the predictions have no answer"
"""The reason of a row that has none."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What to score. dataset: a name or a YAML file; id_field: None joins by order; metrics: as `parse_metric` takes,
    empty for the dataset's own; parser: the reasoning parser, which takes the reasoning off each output, in place of
    the dataset's own; `none` for none."""

    dataset: str
    predictions: Path
    id_field: str | None = "id"
    output_field: str = "output"
    arm: str = "free"
    metrics: Sequence[str] = ()
    limit: int | None = None
    parser: str | None = None


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One answer of the file as the tables take it."""

    response: Response
    reasoning: str | None
    verdict: Verdict | None


@dataclass(frozen=True, kw_only=True)
class Offline:
    """What came of it. joined.missing and joined.unknown have the ids that did not find each other."""

    asked: Asked
    dataset: NamedDataset
    loaded: LoadedDataset
    predictions: Predictions
    joined: Joined
    samples: list[Sample]
    answers: list[Answer]
    scores: list[Score]
    metrics: list[Aggregate]
    warnings: list[str]
    judgements: list[Row] = field(default_factory=list)

    @property
    def clusters(self) -> dict[str, str]:
        """The cluster of each sample that has one."""
        return {sample.sample_id: sample.cluster for sample in self.samples if sample.cluster is not None}


def score_file(asked: Asked, *, home: Path | None = None, slot: Slot = nullcontext) -> Offline:
    """Scores the answers; writes no run. home: ASSAY_HOME, where a judge's model is kept. slot: held while a judge's
    own engine runs.

    Raises ConfigError, with file and line, for whatever is wrong with the dataset, the answers, a metric or a parser,
    and where no answer finds its row; what `judge_answers` raises where a judge is asked."""
    if _ARM.fullmatch(asked.arm) is None:
        raise ConfigError.one(
            f"{asked.arm!r} is no arm's name", key="--arm", suggestion="free, guided, or your own word"
        )
    with lines_added():
        return _score_file(asked, home=home, slot=slot)


def _score_file(asked: Asked, *, home: Path | None, slot: Slot) -> Offline:
    dataset = load_dataset(asked.dataset)
    uses, warnings = _answer_metrics(dataset, asked=asked.metrics)
    limits = [limit for limit in (asked.limit, dataset.config.limit) if limit is not None]
    config = dataset.config.model_copy(update={"limit": min(limits) if limits else None, "metrics": uses})
    parser = chosen_parser(asked.parser, dataset.reasoning_parser)
    if parser is not None:
        parse_reasoning(parser, "")  # a name that does not exist is said before the files are read
    dataset = dataset.model_copy(update={"config": config, "reasoning_parser": parser})
    loaded = load_rows(dataset)
    predictions = read_predictions(asked.predictions, id_field=asked.id_field, output_field=asked.output_field)
    every = _every_id(dataset, loaded)
    if asked.id_field is None:
        joined = join_by_order(predictions, name=dataset.name, every=every, used=loaded.rows)
    else:
        joined = join_by_id(predictions, name=dataset.name, every=every, used=loaded.rows, key=asked.id_field)
    samples = asked_samples(dataset, loaded)
    answers = _answers(dataset, samples, joined, asked=asked)
    responses = [answer.response for answer in answers]
    check_metric_columns(dataset, loaded.columns)
    judged = judge_offline(Answers(metrics=uses, samples=samples, responses=responses), home=home, slot=slot)
    scores = score_answers(
        metrics=uses,
        samples=samples,
        responses=responses,
        arms=[asked.arm],
        absent=ABSENT,
        judgements=judged.judgements,
    )
    clusters = {sample.sample_id: sample.cluster for sample in samples if sample.cluster is not None}
    guide = config.guide
    form = aggregate_form(dataset=dataset.name, responses=responses, kind=None if guide is None else guide.kind)
    return Offline(
        asked=asked,
        dataset=dataset,
        loaded=loaded,
        predictions=predictions,
        joined=joined,
        samples=samples,
        answers=answers,
        scores=scores,
        metrics=[
            *aggregate(scores=scores, clusters=clusters or None),
            *further_metrics(metrics=uses, dataset=dataset.name, scores=scores, clusters=clusters or None),
            *(row for row in form if row.name.rsplit(".", 1)[-1] in _FORM),
        ],
        warnings=[
            *loaded.warnings,
            *warnings,
            *_join_warnings(joined),
            *_answer_warnings(answers, joined),
            *judged.warnings,
        ],
        judgements=judged.rows,
    )


def _every_id(dataset: NamedDataset, loaded: LoadedDataset) -> list[str]:
    """The sample ids of all rows, those too that the limit or the `sample` leaves out."""
    if len(loaded.rows) < loaded.rows_total:
        config = dataset.config.model_copy(update={"limit": None, "sample": None})
        loaded = load_rows(dataset.model_copy(update={"config": config}))
    return [row.sample_id for row in loaded.rows]


def _answer_metrics(dataset: NamedDataset, *, asked: Sequence[str]) -> tuple[list[MetricUse], list[str]]:
    """The metrics that can be computed of answers alone, and a warning for those that cannot."""
    uses = chosen_metrics(dataset.config, asked=asked)
    if asked and (problems := misfits(dataset.config, uses)):
        raise ConfigError(problems)
    fit = [use for use in uses if needs(use) == "generate"]
    unfit = [use.name for use in uses if use not in fit]
    file = None if asked or dataset.path is None else Path(dataset.path)
    if unfit and (asked or not fit):
        raise ConfigError.one(
            f"{', '.join(unfit)} reads log-likelihoods, which a file of answers does not have",
            file=file,
            key="--metric" if asked else "metrics",
            suggestion="name a metric of answers with --metric; `assay metrics` says what each reads",
        )
    names = ", ".join(unfit)
    return fit, [f"{dataset.name}: {names} needs log-likelihoods and is left out"] if unfit else []


def _answers(dataset: NamedDataset, samples: Sequence[Sample], joined: Joined, *, asked: Asked) -> list[Answer]:
    by_id = {sample.sample_id: sample for sample in samples}
    order = {sample.sample_id: index for index, sample in enumerate(samples)}
    keys = sorted(joined.answers, key=lambda key: (order[key[0]], key[1]))
    return [
        _answer(by_id[sample_id], joined.answers[(sample_id, repeat)], asked=asked, dataset=dataset)
        for sample_id, repeat in keys
    ]


def _answer(sample: Sample, made: Prediction, *, asked: Asked, dataset: NamedDataset) -> Answer:
    parser = dataset.reasoning_parser
    output, reasoning, closed = made.output, None, True
    if output is not None and parser is not None:
        reasoning, answer, closed = parse_reasoning(parser, output)
        output = answer if closed else None
    verdict = None if output is None or sample.grammar is None else validate(sample.grammar, output)
    status: Literal["ok", "invalid", "truncated", "error"] = "ok"
    if not closed:
        status = "truncated"
    elif output is None:
        status = "error"
    elif made.finish_reason == "length":
        status = "truncated"
    elif verdict is not None and not verdict.valid:
        status = "invalid"
    response = Response(
        request_id=request_id(sample.sample_id, asked.arm, "generate", repeat=made.repeat),
        dataset=dataset.name,
        sample_id=sample.sample_id,
        arm=asked.arm,
        kind="generate",
        status=status,
        repeat=made.repeat,
        output=output,
        finish_reason=made.finish_reason,
        valid=None if verdict is None else verdict.valid,
        error=None if output is not None else UNFINISHED if status == "truncated" else "the output is null",
    )
    return Answer(response=response, reasoning=reasoning, verdict=verdict)


def _join_warnings(joined: Joined) -> list[str]:
    found = []
    for ids, what in ((joined.missing, "row without an answer"), (joined.unknown, "answer to no row")):
        if ids:
            first = ", ".join(ids[:_IDS_NAMED]) + (", …" if len(ids) > _IDS_NAMED else "")
            found.append(f"{counted(len(ids), what)}: {first}")
    if joined.unused:
        found.append(f"{counted(joined.unused, 'answer to a row')} that is not scored")
    return found


def counted(number: int, what: str) -> str:
    """`1 row without an answer`, `2 rows without an answer`."""
    first, _, rest = what.partition(" ")
    return f"{number:,} {first}{'' if number == 1 else 's'} {rest}".rstrip()


def _answer_warnings(answers: Sequence[Answer], joined: Joined) -> list[str]:
    found = []
    statuses = [answer.response.status for answer in answers if answer.response.output is None]
    if unfinished := statuses.count("truncated"):
        found.append(f"{counted(unfinished, 'answer')} cut before the reasoning ended: not scored")
    if empty := statuses.count("error"):
        found.append(f"{counted(empty, 'output')} null: an answer that was never had is not scored")
    if replaced := [made for made in joined.answers.values() if made.replaced]:
        characters = counted(sum(made.replaced for made in replaced), "character")
        found.append(f"{characters} of {counted(len(replaced), 'output')} no valid Unicode, replaced by U+FFFD")
    repeats: dict[str, int] = {}
    for sample_id, _ in joined.answers:
        repeats[sample_id] = repeats.get(sample_id, 0) + 1
    if len(counts := set(repeats.values())) > 1:
        found.append(f"the rows have between {min(counts)} and {max(counts)} repeats")
    return found
