"""judge: what a language model says of the answer, as the scale counts it.

Formula: the mean over samples of [what the judge's verdict counts on its scale]. Unit: points, higher is better. The
judge (at an endpoint, or a model that assay runs itself) is asked once for each answer, after all answers are there,
with a schema for its verdict; its answer is checked against that schema by a validator that is not the grammar engine.
Where the judge refuses, is cut, takes too long or breaks the schema there is no value, and the reason says why: never a
0. What was shown and said is in the table `judgements`. A judge is a measurement with errors of its own: see
docs/judge.md.
"""

from schemas.errors import ConfigError
from schemas.judge import Judgement, JudgeOptions
from schemas.metric import MetricInfo, Score
from schemas.sample import Response, Sample
from tasks.judge.prompt import answer_hash, prompt_template, unknown_fields
from tasks.score.metric import Metric, scored, why_unscored

INFO = MetricInfo(name="judge", version=1, unit="points", direction="higher", needs="generate", is_rate=True)


def score_judged(*, sample: Sample, response: Response, judgement: Judgement | None, options: JudgeOptions) -> Score:
    """The score of one answer by what its judge said."""
    unscored = why_unscored(response)
    if unscored is None and judgement is None:
        unscored = "not judged"
    if unscored is not None or judgement is None or response.output is None:
        return scored(info=INFO, response=response, value=None, reason=unscored or "no output")
    if judgement.answer_hash != answer_hash(response.output):
        return scored(info=INFO, response=response, value=None, reason="not judged: the judge saw an earlier answer")
    if judgement.status != "ok" or judgement.verdict is None:
        reason = f"the judge gave no verdict ({judgement.status}): {judgement.error or 'no reason was recorded'}"
        return scored(info=INFO, response=response, value=None, reason=reason)
    value = options.scale.value(judgement.verdict)
    reason = judgement.reason if value is not None else f"the scale has no {judgement.verdict!r}"
    return scored(info=INFO, response=response, value=value, extracted=judgement.verdict, reason=reason)


def score(*, sample: Sample, response: Response, options: JudgeOptions) -> Score:
    """The score of an answer that no judge was asked about."""
    return score_judged(sample=sample, response=response, judgement=None, options=options)


def ready(options: JudgeOptions) -> None:
    """Raises ConfigError for a prompt that is no template, and where the endpoint cannot be used: no key, no answer, no
    such model."""
    prompt_template(options)
    if options.endpoint is not None:
        from tasks.judge.endpoint import check_endpoint  # noqa: PLC0415 - loads an HTTP client

        check_endpoint(options.endpoint)


def check_columns(options: JudgeOptions, columns: list[str]) -> None:
    """Raises ConfigError where the prompt uses a field that the rows do not have."""
    if problems := unknown_fields(options, columns):
        raise ConfigError(problems)


METRIC = Metric(
    info=INFO,
    Options=JudgeOptions,
    score=score,
    score_judged=score_judged,
    ready=ready,
    check_columns=check_columns,
)
