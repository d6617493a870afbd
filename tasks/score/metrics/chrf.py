"""chrf: how many runs of one to six characters the answer shares with the target, from 0 to 100.

Formula: 100 (1 + b^2) P R / (b^2 P + R), b = 2; P and R: the shares of the answer's and the target's n-grams that the
other has, averaged over n = 1 to 6, without white space; of several targets, the best; over samples, the mean. With
`word_order: 2`, word 1-grams and 2-grams join them: chrF++. Unit: points, higher is better. Source: Popović 2015 and
2017, by sacrebleu's sentence_score. This mean is not corpus chrF, which counts all answers together: another number.
"""

from typing import Annotated

from pydantic import Field

from schemas.base import Config
from schemas.metric import MetricInfo, Score
from schemas.sample import Response, Sample
from tasks.score.metric import Metric
from tasks.score.text.translation import score_sentence, scorer

INFO = MetricInfo(name="chrf", version=1, unit="points", direction="higher", needs="generate", is_rate=False)


class Options(Config):
    """Which n-grams are counted."""

    word_order: Annotated[int, Field(ge=0, le=4)] = 0
    """The longest run of words: 0 is chrF, 2 is chrF++."""
    lowercase: bool = False
    """Texts that differ only in upper and lower case are equal."""
    stop_at: list[str] = Field(default_factory=list)
    """The answer is cut where one of these begins."""


def score(*, sample: Sample, response: Response, options: Options) -> Score:
    """The score of one answer."""
    by = scorer("CHRF", word_order=options.word_order, lowercase=options.lowercase)
    return score_sentence(info=INFO, sample=sample, response=response, by=by, stop_at=options.stop_at)


METRIC = Metric(info=INFO, Options=Options, score=score)
