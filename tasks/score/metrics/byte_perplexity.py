"""byte_perplexity: how many bytes, as it were, the model hesitates between at each byte of a document.

Formula: exp(-sum of ln p(token) / bytes), both sums over all documents (a document's own value: over itself). Bytes are
those of the text that is counted, in UTF-8. Tokens are predicted in rolling windows, each once. Unit: perplexity, lower
is better. Source: `byte_perplexity` of lm-evaluation-harness.
"""

from collections.abc import Sequence

from schemas.metric import MetricInfo, Score
from schemas.sample import Response, Sample
from tasks.score.metric import Metric, NoOptions
from tasks.score.perplexity import score_windows

INFO = MetricInfo(
    name="byte_perplexity",
    version=1,
    unit="perplexity",
    direction="lower",
    needs="rolling",
    is_rate=False,
    over_samples="exp_ratio",
)


def score_document(*, sample: Sample, responses: Sequence[Response], options: NoOptions) -> Score:
    """The score of one document from the log-likelihoods of its windows, in their order."""
    return score_windows(info=INFO, sample=sample, responses=responses, per="byte")


METRIC = Metric(info=INFO, score_document=score_document)
