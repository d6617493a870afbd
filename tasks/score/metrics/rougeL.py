"""rougeL: how long a row of words, with gaps, the answer and the target have in common, from 0 to 1.

Formula: F1 = 2 P R / (P + R), P and R the length of the longest common subsequence of both texts' words over the words
of the answer and of the target (an option takes P or R); of several targets, the best; over samples, the mean. Unit:
share (0 to 1), higher is better. Source: ROUGE-L of Lin 2004, without a stemmer; words are runs of a-z and 0-9 in lower
case, lines do not matter (tasks/score/text/rouge.py).
"""

from schemas.metric import MetricInfo, Score
from schemas.sample import Response, Sample
from tasks.score.metric import Metric
from tasks.score.text.rouge import RougeOptions, of_subsequence, score_overlap

INFO = MetricInfo(name="rougeL", version=1, unit="share", direction="higher", needs="generate", is_rate=False)


def score(*, sample: Sample, response: Response, options: RougeOptions) -> Score:
    """The score of one answer."""
    by = of_subsequence
    return score_overlap(info=INFO, sample=sample, response=response, options=options, by=by)


METRIC = Metric(info=INFO, Options=RougeOptions, score=score)
