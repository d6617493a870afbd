"""contains: 1 if the target occurs in the answer, else 0; of a list of targets all must, or any (an option).

Formula: the mean over samples of [target in answer], both after SQuAD's normalization (Rajpurkar et al. 2016). Unit:
share, higher is better. By default a target must be words of its own: 5 is not in 15.
"""

from typing import Literal

from pydantic import Field

from schemas.base import Config
from schemas.metric import MetricInfo, Score
from schemas.sample import Response, Sample
from tasks.score.metric import Metric, missing_target, scored, why_unscored
from tasks.score.normalize import cut_at, squad

INFO = MetricInfo(name="contains", version=1, unit="share", direction="higher", needs="generate", is_rate=True)


class Options(Config):
    """What must occur, and how."""

    require: Literal["all", "any"] = "all"
    """Of a list of targets."""
    whole_words: bool = True
    """Set it to false for languages that write no blanks between words."""
    stop_at: list[str] = Field(default_factory=list)
    """The answer is cut where one of these begins."""


def score(*, sample: Sample, response: Response, options: Options) -> Score:
    """The score of one answer."""
    unscored = why_unscored(response) or missing_target(sample)
    if unscored or response.output is None:
        return scored(info=INFO, response=response, value=None, reason=unscored)
    targets = sample.target if isinstance(sample.target, list) else [sample.target]
    wanted = [squad(str(target)) for target in targets]
    if not wanted:
        return scored(info=INFO, response=response, value=None, reason="the sample's list of targets is empty")
    if not all(wanted):
        reason = "a target is empty once punctuation and articles are gone"
        return scored(info=INFO, response=response, value=None, reason=reason)
    answer = squad(cut_at(response.output, options.stop_at))
    if options.whole_words:
        found = [f" {text} " in f" {answer} " for text in wanted]
    else:
        found = [text in answer for text in wanted]
    right = all(found) if options.require == "all" else any(found)
    missing = [str(target) for target, here in zip(targets, found, strict=True) if not here]
    said = None if right else f"not in the answer: {', '.join(missing)}"
    return scored(info=INFO, response=response, value=float(right), reason=said)


METRIC = Metric(info=INFO, Options=Options, score=score)
