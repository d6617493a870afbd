"""The two published readings of a GSM8K answer: what gsm8k_strict and gsm8k_flexible share.

Source: the task gsm8k of lm-evaluation-harness 0.4 (its two filters, and its exact_match with ignore_case and
regexes_to_ignore). They are kept as published, to be comparable; exact_match with `compare: number` is the better
question.
"""

import re

from pydantic import Field

from schemas.base import Config
from schemas.metric import MetricInfo, Score
from schemas.sample import Response, Sample
from tasks.score.metric import missing_target, scored, why_unscored
from tasks.score.normalize import cut_at
from tasks.score.text.targets import text_targets

_BEFORE_ANSWER = re.compile(r".*#### ", re.DOTALL)
_LAST_PERIOD = re.compile(r"\.$")


class Gsm8kOptions(Config):
    """Where an answer ends."""

    stop_at: list[str] = Field(default_factory=list)
    """The answer is cut where one of these begins: published runs stop at the next `Question:`."""


def plain(text: str) -> str:
    """A text as it is compared: without commas, dollar signs, what precedes the last `#### `, and a trailing period;
    in lower case. In this order, which matters: `#### 1,0.` becomes `10`."""
    text = text.replace(",", "").replace("$", "")
    return _LAST_PERIOD.sub("", _BEFORE_ANSWER.sub("", text)).lower()


def strict(answer: str, *, pattern: re.Pattern[str]) -> str | None:
    """The group of the first match, or None."""
    match = pattern.search(answer)
    return None if match is None else match.group(1).strip()


def flexible(answer: str, *, pattern: re.Pattern[str]) -> str | None:
    """The last match, or None."""
    matches = pattern.findall(answer)
    return next(text for text in matches[-1] if text).strip() if matches else None


def score_found(*, info: MetricInfo, sample: Sample, response: Response, found: str | None) -> Score:
    """The score of what was found in an answer."""
    targets, reason = text_targets(sample)
    if reason is not None:
        return scored(info=info, response=response, value=None, reason=reason)
    if found is None:
        return scored(info=info, response=response, value=0.0, reason="the pattern finds nothing in the answer")
    right = plain(found) in {plain(target) for target in targets}
    return scored(info=info, response=response, value=float(right), extracted=found)


def readable(*, sample: Sample, response: Response, options: Gsm8kOptions) -> tuple[str, str | None]:
    """The part of an answer that counts, or the reason why it is not scored."""
    unscored = why_unscored(response) or missing_target(sample)
    if unscored or response.output is None:
        return "", unscored or "no output"
    return cut_at(response.output, options.stop_at), None
