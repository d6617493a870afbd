"""ter: how many edits make the answer the target, per 100 words of the target; 0 is no edit, and there is no most.

Formula: 100 edits / words of the target; an edit inserts, deletes or replaces a word, or moves a run of words; of
several targets, the fewest edits over the targets' mean length; over samples, the mean. Unit: points, lower is better.
Source: Snover et al. 2006, by sacrebleu's sentence_score. This mean is not corpus TER, which is all edits over all
words: another number. An answer of many hundred words in another order than the target's takes seconds.
"""

from pydantic import Field

from schemas.base import Config
from schemas.metric import MetricInfo, Score
from schemas.sample import Response, Sample
from tasks.score.metric import Metric
from tasks.score.text.translation import score_sentence, scorer

INFO = MetricInfo(name="ter", version=1, unit="points", direction="lower", needs="generate", is_rate=False)


class Options(Config):
    """What is compared."""

    normalized: bool = False
    """Punctuation becomes words of its own first, as in the original program's -N."""
    no_punct: bool = False
    """Punctuation is dropped first."""
    case_sensitive: bool = False
    """Texts that differ only in upper and lower case differ."""
    stop_at: list[str] = Field(default_factory=list)
    """The answer is cut where one of these begins."""


def score(*, sample: Sample, response: Response, options: Options) -> Score:
    """The score of one answer."""
    by = scorer("TER", normalized=options.normalized, no_punct=options.no_punct, case_sensitive=options.case_sensitive)
    return score_sentence(info=INFO, sample=sample, response=response, by=by, stop_at=options.stop_at)


METRIC = Metric(info=INFO, Options=Options, score=score)
