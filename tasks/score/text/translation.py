"""Scores of one answer by sacrebleu (Post 2018): what bleu, chrf and ter share."""

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


def score_sentence(*, info: MetricInfo, sample: Sample, response: Response, by: "Scorer", stop_at: list[str]) -> Score:
    """The score of one answer against all targets at once. A target without a word gives nothing to compare with."""
    unscored = why_unscored(response) or missing_target(sample)
    if unscored or response.output is None:
        return scored(info=info, response=response, value=None, reason=unscored)
    targets, reason = text_targets(sample)
    if reason is None and not all(target.strip() for target in targets):
        reason = "a target is empty"
    if reason is not None:
        return scored(info=info, response=response, value=None, reason=reason)
    found = by.sentence_score(cut_at(response.output, stop_at).strip(), targets).score
    # the last digits of a logarithm are the machine's, not the answer's
    return scored(info=info, response=response, value=round(found, 9))
