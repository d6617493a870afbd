"""A document's log-likelihood over its words or bytes: what the two perplexities and bits_per_byte share."""

import math
import re
import sys
from collections.abc import Sequence
from typing import Literal

from schemas.metric import MetricInfo, Score
from schemas.sample import Response, Sample
from tasks.score.metric import scored, why_unscored
from tasks.score.stats.ratio import raised

_SPACE = re.compile(r"\s+")

Unit = Literal["word", "byte"]


def count_units(text: str, *, per: Unit) -> int:
    """Words as lm-evaluation-harness counts them, the pieces between runs of white space (so that one at either end
    makes an empty piece more); or bytes in UTF-8."""
    return len(_SPACE.split(text)) if per == "word" else len(text.encode("utf-8", "surrogatepass"))


def score_windows(
    *, info: MetricInfo, sample: Sample, responses: Sequence[Response], per: Unit, nats_in_one: float = 1.0
) -> Score:
    """The score of a document from the log-likelihoods of its windows, in their order.

    nats_in_one: of the unit in which its sum is kept (ln 2 of a bit). The dataset's number is made of the sums, see
    `MetricInfo.over_samples`. Raises ValueError if there are not as many responses as windows, or if they are not in
    the windows' order."""
    if len(responses) != len(sample.windows) or not responses:
        raise ValueError(f"{sample.sample_id}: {len(responses)} responses for {len(sample.windows)} windows")
    if any(response.choice_index not in (None, index) for index, response in enumerate(responses)):
        raise ValueError(f"{sample.sample_id}: the responses are not in the order of the windows")
    values, reason = _logprobs(responses)
    units = 0 if sample.counted is None else count_units(sample.counted, per=per)
    if reason is None and not units:
        reason = f"there is no {per} to divide by"
    if reason is not None:
        return scored(info=info, response=responses[0], value=None, reason=reason)
    total = -math.fsum(values) / nats_in_one
    value, reason = total / units, None
    if info.over_samples == "exp_ratio":
        found = raised(value)
        if found is None:
            reason = f"exp({value:.6g}) is more than a number can be: the largest stands for it"
        value = sys.float_info.max if found is None else found
    return scored(info=info, response=responses[0], value=value, reason=reason, sums=(total, units))


def _logprobs(responses: Sequence[Response]) -> tuple[list[float], str | None]:
    values: list[float] = []
    for index, response in enumerate(responses):
        unscored = why_unscored(response)
        if unscored is not None:
            return [], f"window {index}: {unscored}"
        if response.logprob_sum is None or math.isnan(response.logprob_sum):
            return [], f"window {index}: no log-likelihood"
        if math.isinf(response.logprob_sum):
            return [], f"window {index}: a token has the probability 0"
        values.append(response.logprob_sum)
    return values, None
