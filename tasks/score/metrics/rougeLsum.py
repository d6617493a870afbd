"""rougeLsum: how many words of the target's lines the lines of the answer have in the same order, from 0 to 1.

Formula: F1 = 2 P R / (P + R), P and R = c over the words of the answer and of the target; c: over the target's lines,
the words of a line that are in a longest common subsequence with some line of the answer, none oftener than either text
has it (an option takes P or R); of several targets, the best; over samples, the mean. Unit: share (0 to 1), higher is
better. Source: ROUGE-L of summaries in Lin 2004 (section 3.2), without a stemmer; sentences are lines, as in
rouge-score: write each sentence on its own line (tasks/score/text/rouge.py).
"""

from schemas.metric import MetricInfo, Score
from schemas.sample import Response, Sample
from tasks.score.metric import Metric
from tasks.score.text.rouge import RougeOptions, of_lines, score_overlap

INFO = MetricInfo(name="rougeLsum", version=1, unit="share", direction="higher", needs="generate", is_rate=False)


def score(*, sample: Sample, response: Response, options: RougeOptions) -> Score:
    """The score of one answer."""
    by = of_lines
    return score_overlap(info=INFO, sample=sample, response=response, options=options, by=by)


METRIC = Metric(info=INFO, Options=RougeOptions, score=score)
