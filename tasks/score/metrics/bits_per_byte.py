"""bits_per_byte: the bits that the model needs for each byte of a document.

Formula: -sum of ln p(token) / (bytes ln 2), both sums over all documents (a document's own value: over itself). Bytes
are those of the text that is counted, in UTF-8. Tokens are predicted in rolling windows, each once. Unit: bits/byte,
lower is better. Source: `bits_per_byte` of lm-evaluation-harness; it is log2 of byte_perplexity.
"""

import math
from collections.abc import Sequence

from schemas.metric import MetricInfo, Score
from schemas.sample import Response, Sample
from tasks.score.metric import Metric, NoOptions
from tasks.score.perplexity import score_windows

INFO = MetricInfo(
    name="bits_per_byte",
    version=1,
    unit="bits/byte",
    direction="lower",
    needs="rolling",
    is_rate=False,
    over_samples="ratio",
)


def score_document(*, sample: Sample, responses: Sequence[Response], options: NoOptions) -> Score:
    """The score of one document from the log-likelihoods of its windows, in their order."""
    return score_windows(info=INFO, sample=sample, responses=responses, per="byte", nats_in_one=math.log(2))


METRIC = Metric(info=INFO, score_document=score_document)
