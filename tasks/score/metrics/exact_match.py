"""exact_match: 1 if what is extracted from the answer equals the target (or one of a list of targets), else 0.

Formula: the mean over samples of [extract(answer) == target]. Unit: share, higher is better. Text is compared after
SQuAD's normalization (Rajpurkar et al. 2016) by default; numbers as decimals, by the definition in
tasks/score/numbers.py, which is ours: the two patterns in common use for GSM8K also take `...` for a number and the 5
of `10-5` for -5. An answer without anything to extract is wrong (0), with the reason.
"""

from typing import Any, Literal

from pydantic import Field

from schemas.base import Config
from schemas.metric import MetricInfo, Score
from schemas.sample import Response, Sample
from tasks.score.metric import Metric, missing_target, scored, why_unscored
from tasks.score.normalize import cut_at
from tasks.score.numbers import Number, as_number, first_number, last_number
from tasks.score.text.equality import Normalize, Percent, common_form, equal_numbers

INFO = MetricInfo(name="exact_match", version=1, unit="share", direction="higher", needs="generate", is_rate=True)


class Options(Config):
    """How an answer is read and compared."""

    compare: Literal["text", "number"] = "text"
    """As what answer and target are read."""
    extract: Literal["auto", "whole", "first", "last"] = "auto"
    """Which line (text) or number counts. auto: the whole text; the last number, or the first one behind `after`."""
    after: str | None = None
    """Only what follows the first occurrence of this counts; an answer without it is wrong."""
    stop_at: list[str] = Field(default_factory=list)
    """The answer is cut where one of these begins, before anything else: a run-on into the next question is none."""
    normalize: Normalize = "squad"
    """For text."""
    percent: Percent = "number"
    """For numbers. What 20% is: 20, 0.2, or only equal to another percentage."""


def _pick_number(text: str, *, options: Options) -> Number | None:
    if options.extract == "whole":
        return as_number(text)
    first = options.extract == "first" or (options.extract == "auto" and options.after is not None)
    return first_number(text) if first else last_number(text)


def _pick_text(text: str, *, options: Options) -> str:
    if options.extract in ("auto", "whole"):
        return text.strip()
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        return ""
    return lines[0] if options.extract == "first" else lines[-1]


def _readable(text: str, *, options: Options) -> str | None:
    """The part of the answer that counts; None if the marker is not there."""
    text = cut_at(text, options.stop_at)
    if options.after is None:
        return text
    _, marker, rest = text.partition(options.after)
    return rest if marker else None


def _score_number(*, targets: list[Any], text: str, options: Options) -> tuple[float | None, str | None, str | None]:
    wanted = [as_number(target) for target in targets]
    if None in wanted:
        return None, None, f"the target {targets[wanted.index(None)]!r} is no number"
    found = _pick_number(text, options=options)
    if found is None:
        return 0.0, None, "there is no number in the answer"
    right = any(equal_numbers(found, number, percent=options.percent) for number in wanted if number is not None)
    return float(right), found.text, None


def score(*, sample: Sample, response: Response, options: Options) -> Score:
    """The score of one answer."""
    unscored = why_unscored(response) or missing_target(sample)
    if unscored or response.output is None:
        return scored(info=INFO, response=response, value=None, reason=unscored)
    targets = sample.target if isinstance(sample.target, list) else [sample.target]
    if not targets:
        return scored(info=INFO, response=response, value=None, reason="the sample's list of targets is empty")
    text = _readable(response.output, options=options)
    if text is None:
        return scored(info=INFO, response=response, value=0.0, reason=f"{options.after!r} is not in the answer")
    if options.compare == "number":
        value, extracted, reason = _score_number(targets=targets, text=text, options=options)
        return scored(info=INFO, response=response, value=value, extracted=extracted, reason=reason)
    found = _pick_text(text, options=options)
    wanted = {common_form(str(target), normalize=options.normalize) for target in targets}
    value = float(common_form(found, normalize=options.normalize) in wanted)
    return scored(info=INFO, response=response, value=value, extracted=found)


METRIC = Metric(info=INFO, Options=Options, score=score)
