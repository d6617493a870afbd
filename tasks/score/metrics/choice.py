"""choice: 1 if the answer names the right option, else 0.

Formula: the mean over samples of [the option that the answer names is the target's]. Unit: share, higher is better.
Our own definition: an option is named by its text or its letter (tasks/score/options.py); an answer that names
several, or none, is wrong and says so. A guided answer equals its option. The options are the dataset's choices, else
those of the sample's choice grammar.
"""

import json

from pydantic import Field

from schemas.base import Config
from schemas.metric import MetricInfo, Score
from schemas.sample import Response, Sample
from tasks.score.metric import Metric, missing_target, scored, why_unscored
from tasks.score.normalize import cut_at
from tasks.score.options import Reading, resolve_answer, resolve_target

INFO = MetricInfo(name="choice", version=1, unit="share", direction="higher", needs="generate", is_rate=True)


class Options(Config):
    """How target and answer are read."""

    target: Reading = "auto"
    """What the target is: an index from 0, a letter, an option's text; auto takes the one that fits."""
    stop_at: list[str] = Field(default_factory=list)
    """The answer is cut where one of these begins."""


def _texts(sample: Sample) -> list[str]:
    if sample.choices:
        return [choice.text for choice in sample.choices]
    if sample.grammar is not None and sample.grammar.kind == "choice":
        return [str(option) for option in json.loads(sample.grammar.content)]
    return []


def score(*, sample: Sample, response: Response, options: Options) -> Score:
    """The score of one answer."""
    unscored = why_unscored(response) or missing_target(sample)
    if unscored or response.output is None:
        return scored(info=INFO, response=response, value=None, reason=unscored)
    texts = _texts(sample)
    right, reason = resolve_target(target=sample.target, texts=texts, reading=options.target)
    if right is None:
        return scored(info=INFO, response=response, value=None, reason=reason)
    named, reason = resolve_answer(answer=cut_at(response.output, options.stop_at), texts=texts)
    extracted = None if named is None else texts[named]
    return scored(info=INFO, response=response, value=float(named == right), extracted=extracted, reason=reason)


METRIC = Metric(info=INFO, Options=Options, score=score)
