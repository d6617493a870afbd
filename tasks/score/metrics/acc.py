"""acc: 1 if the right choice has the highest log-likelihood, else 0 (1/k where k choices share the top).

Formula: [argmax_i sum log p(choice_i | prompt) == target], averaged over samples. Unit: share, higher is better.
Source: `acc` of lm-evaluation-harness's multiple choice tasks, but for ties, which that gives to the first choice.
"""

from schemas.metric import MetricInfo, Score
from schemas.sample import Response, Sample
from tasks.score.likeliest import LikeliestOptions, score_likeliest
from tasks.score.metric import Metric

INFO = MetricInfo(name="acc", version=1, unit="share", direction="higher", needs="loglikelihood", is_rate=True)


def score_choices(*, sample: Sample, responses: list[Response], options: LikeliestOptions) -> Score:
    """The score of one sample from the log-likelihoods of its choices, in their order."""
    return score_likeliest(info=INFO, sample=sample, responses=responses, options=options, per="choice")


METRIC = Metric(info=INFO, Options=LikeliestOptions, score_choices=score_choices)
