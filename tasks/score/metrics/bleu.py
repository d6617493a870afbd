"""bleu: how many runs of one to four words the answer shares with the target, from 0 to 100.

Formula: 100 BP exp(mean over n of ln p_n), n = 1 to 4 (fewer where the answer is shorter); p_n: the share of the
answer's n-grams that a target has, each as often as the target that has it most; BP = min(1, exp(1 - r/c)), r and c the
words of the nearest target and of the answer; over samples, the mean. Unit: points, higher is better. Source: Papineni
et al. 2002, by sacrebleu's sentence_score with effective order. This mean is not corpus BLEU, which counts the n-grams
of all answers together: the two are other numbers.
"""

from typing import Literal

from pydantic import Field

from schemas.base import Config
from schemas.metric import MetricInfo, Score
from schemas.sample import Response, Sample
from tasks.score.metric import Metric
from tasks.score.text.translation import score_sentence, scorer

INFO = MetricInfo(name="bleu", version=1, unit="points", direction="higher", needs="generate", is_rate=False)


class Options(Config):
    """How words are found and gaps are filled."""

    tokenize: Literal["13a", "intl", "zh", "char", "none"] = "13a"
    """sacrebleu's tokenizer: 13a as mteval does, intl by Unicode's classes, zh for Chinese, char by characters."""
    lowercase: bool = False
    """Texts that differ only in upper and lower case are equal."""
    smooth: Literal["exp", "floor", "add-k", "none"] = "exp"
    """What stands for a p_n of 0, which would make all 0: sacrebleu's smooth_method, with its own value."""
    stop_at: list[str] = Field(default_factory=list)
    """The answer is cut where one of these begins."""


def score(*, sample: Sample, response: Response, options: Options) -> Score:
    """The score of one answer."""
    by = scorer(
        "BLEU",
        tokenize=options.tokenize,
        lowercase=options.lowercase,
        smooth_method=options.smooth,
        effective_order=True,
    )
    return score_sentence(info=INFO, sample=sample, response=response, by=by, stop_at=options.stop_at)


METRIC = Metric(info=INFO, Options=Options, score=score)
