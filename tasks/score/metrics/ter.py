"""ter: how many edits make the answer the target, per 100 words of the target; 0 is no edit, and there is no most.

Formula: 100 edits / words of the target; an edit inserts, deletes or replaces a word, or moves a run of words; of
several targets, the fewest edits over the targets' mean length; over samples, the mean. Unit: points, lower is better.
Source: Snover et al. 2006, by sacrebleu's sentence_score. This mean is not corpus TER, which is all edits over all
words: another number. The work grows with the square of the length and more, most of all where many words stand in
another order (5 to 8 s for 400 words), so texts of more than `max_words` words are not scored, and say so.
"""

import re

from pydantic import Field

from schemas.base import Config
from schemas.metric import MetricInfo, Score
from schemas.sample import Response, Sample
from tasks.score.metric import Metric
from tasks.score.text.translation import score_sentence, scorer

INFO = MetricInfo(name="ter", version=1, unit="points", direction="lower", needs="generate", is_rate=False)


_WORD, _APART = re.compile(r"\S+"), re.compile(r"\w+|[^\w\s]")


class Options(Config):
    """What is compared."""

    normalized: bool = False
    """Punctuation becomes words of its own first, as in the original program's -N."""
    no_punct: bool = False
    """Punctuation is dropped first."""
    case_sensitive: bool = False
    """Texts that differ only in upper and lower case differ."""
    max_words: int = Field(default=400, ge=1)
    """An answer or a target of more words has no score. 1,600 words in another order take half a minute."""
    stop_at: list[str] = Field(default_factory=list)
    """The answer is cut where one of these begins."""


def score(*, sample: Sample, response: Response, options: Options) -> Score:
    """The score of one answer."""
    by = scorer("TER", normalized=options.normalized, no_punct=options.no_punct, case_sensitive=options.case_sensitive)

    def too_long(text: str) -> str | None:
        """By length and not by time: a score must not depend on how busy the machine is."""
        words = len((_APART if options.normalized else _WORD).findall(text))
        return f"{words:,} words, more than max_words: {options.max_words:,}" if words > options.max_words else None

    return score_sentence(info=INFO, sample=sample, response=response, by=by, stop_at=options.stop_at, refuse=too_long)


METRIC = Metric(info=INFO, Options=Options, score=score)
