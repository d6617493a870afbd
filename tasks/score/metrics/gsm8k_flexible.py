"""gsm8k_flexible: 1 if the last thing like a number in the answer is the target, as texts, else 0.

Formula: the mean over samples of [plain(found(answer)) == plain(target)]; found: the last match of
`(-?[$0-9.,]{2,})|(-?[0-9]+)`; plain (tasks/score/text/gsm8k.py) takes away commas, dollar signs, what precedes
`#### ` and a trailing period, and ignores case. Unit: share, higher is better. Source: the filter of that name in
lm-evaluation-harness's task gsm8k, kept as it is published so that numbers can be compared. The pattern also takes
`...`, `$,` and `1,2,3` for a number, the 5 of `10-5` for -5, and 29.00 is not 29: exact_match reads numbers better.
"""

import re

from schemas.metric import MetricInfo, Score
from schemas.sample import Response, Sample
from tasks.score.metric import Metric, scored
from tasks.score.text.gsm8k import Gsm8kOptions, flexible, readable, score_found

INFO = MetricInfo(name="gsm8k_flexible", version=1, unit="share", direction="higher", needs="generate", is_rate=True)
_PATTERN = re.compile(r"(-?[$0-9.,]{2,})|(-?[0-9]+)")


def score(*, sample: Sample, response: Response, options: Gsm8kOptions) -> Score:
    """The score of one answer."""
    text, unscored = readable(sample=sample, response=response, options=options)
    if unscored is not None:
        return scored(info=INFO, response=response, value=None, reason=unscored)
    return score_found(info=INFO, sample=sample, response=response, found=flexible(text, pattern=_PATTERN))


METRIC = Metric(info=INFO, Options=Gsm8kOptions, score=score)
