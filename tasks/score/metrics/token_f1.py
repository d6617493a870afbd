"""token_f1: how many words the answer shares with the target, as F1; of a list of targets, the best.

Formula: with c the words that both have, each as often as the rarer of the two has it, P = c / words of the answer and
R = c / words of the target: 2 P R / (P + R), 0 where c = 0; over samples, the mean. Words are those that SQuAD's
normalization leaves (tasks/score/normalize.py). Unit: share (0 to 1), higher is better. Source: F1 of SQuAD (Rajpurkar
et al. 2016), whose overlap is one of multisets: a word said twice counts twice. Versions 1.1 and 2.0 differ where no
word is left on either side; `both_empty` says which is meant.
"""

from collections import Counter
from typing import Literal

from pydantic import Field

from schemas.base import Config
from schemas.metric import MetricInfo, Score
from schemas.sample import Response, Sample
from tasks.score.metric import Metric, missing_target, scored, why_unscored
from tasks.score.normalize import cut_at, squad_words
from tasks.score.text.targets import text_targets

INFO = MetricInfo(name="token_f1", version=1, unit="share", direction="higher", needs="generate", is_rate=False)


class Options(Config):
    """What is compared, and what silence is worth."""

    both_empty: Literal[1, 0] = 1
    """What it is worth if neither the answer nor the target has a word: 1 as in SQuAD 2.0, 0 as in 1.1."""
    stop_at: list[str] = Field(default_factory=list)
    """The answer is cut where one of these begins."""


def f1(*, answer: list[str], target: list[str], both_empty: float) -> float:
    """The F1 of the words of an answer and of a target, 0 to 1."""
    if not answer or not target:
        return both_empty if not answer and not target else 0.0
    different, wanted = set(answer), set(target)
    if len(different) == len(answer) or len(wanted) == len(target):  # a word that one side has once is shared once
        common = len(different & wanted)
    else:
        common = (Counter(answer) & Counter(target)).total()
    # 2PR / (P + R), as whole numbers: equal to it, and exactly 1 where all is shared
    return 2 * common / (len(answer) + len(target))


def score(*, sample: Sample, response: Response, options: Options) -> Score:
    """The score of one answer."""
    unscored = why_unscored(response) or missing_target(sample)
    if unscored or response.output is None:
        return scored(info=INFO, response=response, value=None, reason=unscored)
    targets, reason = text_targets(sample)
    if reason is not None:
        return scored(info=INFO, response=response, value=None, reason=reason)
    answer = squad_words(cut_at(response.output, options.stop_at))
    value = max(f1(answer=answer, target=squad_words(text), both_empty=float(options.both_empty)) for text in targets)
    return scored(info=INFO, response=response, value=value)


METRIC = Metric(info=INFO, Options=Options, score=score)
