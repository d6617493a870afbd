"""Scores of one answer by sacrebleu (Post 2018): what bleu, chrf and ter share."""

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from schemas.metric import MetricInfo, Score
from schemas.sample import Response, Sample
from tasks.score.metric import missing_target, scored, why_unscored
from tasks.score.normalize import cut_at
from tasks.score.text.targets import text_targets

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric as Scorer


@cache
def scorer(kind: str, **options: Any) -> "Scorer":
    """sacrebleu's scorer of that name (BLEU, CHRF or TER), made once for the same options."""
    from sacrebleu import metrics  # noqa: PLC0415 - it takes a quarter of a second, and few experiments need it

    made: Scorer = getattr(metrics, kind)(**options)
    return made


def score_sentence(
    *,
    info: MetricInfo,
    sample: Sample,
    response: Response,
    by: "Scorer",
    stop_at: list[str],
    refuse: Callable[[str], str | None] = lambda _: None,
) -> Score:
    """The score of one answer against all targets at once. A target without a word gives nothing to compare with.
    refuse: why a text is not compared, or None."""
    unscored = why_unscored(response) or missing_target(sample)
    if unscored or response.output is None:
        return scored(info=info, response=response, value=None, reason=unscored)
    targets, reason = text_targets(sample)
    if reason is None and not all(target.strip() for target in targets):
        reason = "a target is empty"
    answer = cut_at(response.output, stop_at).strip()
    if reason is None:
        reason = next((why for text in (answer, *targets) if (why := refuse(text))), None)
    if reason is not None:
        return scored(info=info, response=response, value=None, reason=reason)
    found = by.sentence_score(answer, targets).score
    # the last digits of a logarithm are the machine's, not the answer's
    return scored(info=info, response=response, value=round(found, 9))
