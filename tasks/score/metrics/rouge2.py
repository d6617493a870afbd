"""rouge2: how many pairs of neighbouring words the answer shares with the target, from 0 to 1.

Formula: F1 = 2 P R / (P + R), P and R the shares of the answer's and of the target's pairs of neighbouring words that
the other has, each as often as the rarer of the two has it (an option takes P or R); of several targets, the best; over
samples, the mean. Unit: share (0 to 1), higher is better. Source: ROUGE-2 of Lin 2004, without a stemmer; words are
runs of a-z and 0-9 in lower case (tasks/score/text/rouge.py).
"""

from functools import partial

from schemas.metric import MetricInfo, Score
from schemas.sample import Response, Sample
from tasks.score.metric import Metric
from tasks.score.text.rouge import RougeOptions, of_ngrams, score_overlap

INFO = MetricInfo(name="rouge2", version=1, unit="share", direction="higher", needs="generate", is_rate=False)


def score(*, sample: Sample, response: Response, options: RougeOptions) -> Score:
    """The score of one answer."""
    by = partial(of_ngrams, n=2)
    return score_overlap(info=INFO, sample=sample, response=response, options=options, by=by)


METRIC = Metric(info=INFO, Options=RougeOptions, score=score)
