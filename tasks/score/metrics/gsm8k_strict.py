r"""gsm8k_strict: 1 if the number behind the first `#### ` of the answer is the target, as texts, else 0.

Formula: the mean over samples of [plain(found(answer)) == plain(target)]; found: the group of the first match of
`#### (\-?[0-9\.\,]+)`; plain (tasks/score/text/gsm8k.py) takes away commas, dollar signs, what precedes
`#### ` and a trailing period, and ignores case. Unit: share, higher is better. Source: the filter of that name in
lm-evaluation-harness's task gsm8k, kept as it is published so that numbers can be compared. An answer without
`#### ` is wrong (0). The first `#### ` may belong to a shot that the answer recites: use `stop_at`.
"""

import re

from schemas.metric import MetricInfo, Score
from schemas.sample import Response, Sample
from tasks.score.metric import Metric, scored
from tasks.score.text.gsm8k import Gsm8kOptions, readable, score_found, strict

INFO = MetricInfo(name="gsm8k_strict", version=1, unit="share", direction="higher", needs="generate", is_rate=True)
_PATTERN = re.compile(r"#### (\-?[0-9\.\,]+)")


def score(*, sample: Sample, response: Response, options: Gsm8kOptions) -> Score:
    """The score of one answer."""
    text, unscored = readable(sample=sample, response=response, options=options)
    if unscored is not None:
        return scored(info=INFO, response=response, value=None, reason=unscored)
    return score_found(info=INFO, sample=sample, response=response, found=strict(text, pattern=_PATTERN))


METRIC = Metric(info=INFO, Options=Gsm8kOptions, score=score)
