"""What a metric module offers, and the rule for answers that cannot be scored.

The rule: a request whose status is ok, invalid or truncated has an answer, and the answer is scored as it is. One
that was refused, failed or was cancelled has none: its value is None, its reason says which, it counts as failed and
stays out of the mean. So does one that was truncated before its reasoning ended: what there is of it is no answer.
Metrics of form (json_valid) differ in one point: a refused grammar counts as 0, since a backend must not gain by
refusing what is hard.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from schemas.base import Config
from schemas.metric import Aggregate, MetricInfo, Score
from schemas.sample import ANSWERED, Response, Sample
from tasks.score.reasoning import UNFINISHED


class NoOptions(Config):
    """The options of a metric that has none."""


def _needs_choices(**_: Any) -> Score:
    raise TypeError("this metric reads log-likelihoods: call score_choices")


def _needs_answer(**_: Any) -> Score:
    raise TypeError("this metric reads an answer: call score")


def _needs_document(**_: Any) -> Score:
    raise TypeError("this metric reads no windows of a document: call score or score_choices")


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A metric: its name card, the model of its options, and one of three functions (which one, `info.needs` says).

    score(*, sample, response, options) -> Score for needs="generate";
    score_choices(*, sample, responses, options) -> Score for needs="loglikelihood", one response
    a choice, in their order;
    score_document(*, sample, responses, options) -> Score for needs="rolling", one response a window, in their order.

    What few have: score_many(pairs of (sample, response), *, options) -> list[Score], which does the same for many
    answers at once; ready(options), which raises AssayError where the metric cannot work on this machine and is called
    before a run; further(scores, *, options, clusters) -> list[Aggregate], numbers beside the mean;
    check_columns(options, columns), which raises ConfigError where the options name a field that the rows do not have;
    score_judged(*, sample, response, judgement, options) -> Score, in place of score for a metric that rests on what a
    judge said (judgement: a schemas.judge.Judgement, None where none was asked); its options are JudgeOptions.
    """

    info: MetricInfo
    Options: type[Config] = NoOptions
    score: Callable[..., Score] = _needs_choices
    score_choices: Callable[..., Score] = _needs_answer
    score_document: Callable[..., Score] = _needs_document
    score_many: Callable[..., list[Score]] | None = None
    ready: Callable[[Any], object] | None = None
    further: Callable[..., list[Aggregate]] | None = None
    check_columns: Callable[[Any, list[str]], None] | None = None
    score_judged: Callable[..., Score] | None = None


def scored(
    *,
    info: MetricInfo,
    response: Response,
    value: float | None,
    extracted: str | None = None,
    ties: int | None = None,
    reason: str | None = None,
    sums: tuple[float, float] | None = None,
) -> Score:
    """A score of the sample, arm and repeat of `response`. Where it rests on several requests, no request is named.

    sums: the numerator and the denominator, of a metric that is a ratio of sums."""
    if value is not None and math.isnan(value):
        value, reason = None, reason or "the value is not a number"
    return Score(
        dataset=response.dataset,
        sample_id=response.sample_id,
        arm=response.arm,
        repeat=response.repeat,
        metric=info.name,
        metric_version=info.version,
        value=value,
        request_id=response.request_id if info.needs == "generate" else None,
        extracted=extracted,
        ties=ties,
        reason=reason,
        numerator=None if sums is None else sums[0],
        denominator=None if sums is None else sums[1],
    )


def why_unscored(response: Response) -> str | None:
    """The reason why this request has no answer to score, or None if it has one."""
    if response.status not in ANSWERED:
        return f"{response.status}: {response.error}" if response.error else response.status
    if response.kind == "generate" and response.output is None:
        return UNFINISHED if response.status == "truncated" else "no output"
    return None


def missing_target(sample: Sample) -> str | None:
    """A reason where the sample has no target."""
    return "the sample has no target" if sample.target is None else None
