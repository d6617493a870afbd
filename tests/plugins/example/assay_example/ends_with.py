"""ends_with: 1 if the answer ends with the target, else 0.

Formula: the mean over samples of [the answer ends with the target]. Unit: share, higher is better. Our own definition.
"""

from schemas.base import Config
from schemas.metric import MetricInfo, Score
from schemas.sample import Response, Sample
from tasks.score.metric import Metric, missing_target, scored, why_unscored

INFO = MetricInfo(name="ends_with", version=1, unit="share", direction="higher", needs="generate", is_rate=True)


class Options(Config):
    """How an answer is read."""

    ignore_case: bool = False
    """Take small letters for large ones."""


def score(*, sample: Sample, response: Response, options: Options) -> Score:
    """The score of one answer."""
    unscored = why_unscored(response) or missing_target(sample)
    if unscored or response.output is None:
        return scored(info=INFO, response=response, value=None, reason=unscored)
    answer, target = response.output.rstrip(" .\n"), str(sample.target)
    if options.ignore_case:
        answer, target = answer.casefold(), target.casefold()
    return scored(info=INFO, response=response, value=float(answer.endswith(target)))


METRIC = Metric(info=INFO, Options=Options, score=score)
