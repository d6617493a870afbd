"""acc_norm: 1 if the right choice has the highest log-likelihood per character, else 0 (1/k where k share the top).

Formula: [argmax_i (sum log p(choice_i | prompt)) / characters(choice_i) == target], averaged over samples. Characters
are those of the raw choice, without the delimiter before it. Unit: share, higher is better. Source: `acc_norm` of
lm-evaluation-harness, but for ties. Dividing by bytes (acc_bytes), or counting the delimiter, as others do, gives
numbers that are not comparable.
"""

from schemas.metric import MetricInfo, Score
from schemas.sample import Response, Sample
from tasks.score.likeliest import LikeliestOptions, score_likeliest
from tasks.score.metric import Metric

INFO = MetricInfo(name="acc_norm", version=1, unit="share", direction="higher", needs="loglikelihood", is_rate=True)


def score_choices(*, sample: Sample, responses: list[Response], options: LikeliestOptions) -> Score:
    """The score of one sample from the log-likelihoods of its choices, in their order."""
    return score_likeliest(info=INFO, sample=sample, responses=responses, options=options, per="character")


METRIC = Metric(info=INFO, Options=LikeliestOptions, score_choices=score_choices)
