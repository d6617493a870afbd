"""extract_match: 1 if what a pattern finds in the answer equals the target (or one of a list of targets), else 0.

Formula: the mean over samples of [found(answer) == target]. Unit: share, higher is better. Our own definition. Texts
and numbers are compared as exact_match compares them. An answer without a match is wrong (0), with the reason. A
pattern that does not come to an end in `timeout_s` says nothing about the answer: that sample is not scored.
"""

from functools import cache
from typing import Annotated, Any, Literal

import regex
from pydantic import Field, model_validator

from schemas.base import Config
from schemas.metric import MetricInfo, Score
from schemas.sample import Response, Sample
from tasks.score.metric import Metric, missing_target, scored, why_unscored
from tasks.score.normalize import cut_at
from tasks.score.numbers import as_number
from tasks.score.text.equality import Normalize, Percent, common_form, equal_numbers
from tasks.score.text.targets import text_targets

INFO = MetricInfo(name="extract_match", version=1, unit="share", direction="higher", needs="generate", is_rate=True)


class Options(Config):
    """What is looked for, and how what is found is compared."""

    pattern: str
    """A regular expression (Python's syntax and what the package `regex` adds to it), looked for anywhere."""
    take: Literal["first", "last"] = "first"
    """Which match counts."""
    group: Annotated[int, Field(strict=True, ge=0)] | str | None = None
    """Number or name of the group that counts, 0 for the whole match. None: of each match the first group that took
    part, or all of it where there is none."""
    compare: Literal["text", "number"] = "text"
    """As what the match and the target are read; a match that is no number is wrong."""
    normalize: Normalize = "squad"
    """For text."""
    percent: Percent = "number"
    """For numbers. What 20% is: 20, 0.2, or only equal to another percentage."""
    stop_at: list[str] = Field(default_factory=list)
    """The answer is cut where one of these begins, before anything else."""
    timeout_s: Annotated[float, Field(gt=0, le=60)] = 2.0
    """Seconds that the search through one answer may take."""

    @model_validator(mode="after")
    def _pattern_and_group(self) -> "Options":
        try:
            compiled = _compiled(self.pattern)
        except regex.error as error:
            raise ValueError(f"the pattern {self.pattern!r} is no regular expression: {error}") from error
        known = self.group is None or (
            self.group in compiled.groupindex if isinstance(self.group, str) else self.group <= compiled.groups
        )
        if not known:
            names = ", ".join(["0", *map(str, range(1, compiled.groups + 1)), *compiled.groupindex])
            raise ValueError(f"the pattern has no group {self.group!r}; it has {names}")
        return self


@cache
def _compiled(pattern: str) -> Any:
    return regex.compile(pattern)


def _of_match(match: Any, *, group: int | str | None) -> str | None:
    """What counts of a match; None where its group took no part."""
    if group is not None:
        found: str | None = match.group(group)
        return found
    groups: tuple[str | None, ...] = match.groups()
    whole: str = match.group(0)
    return next((text for text in groups if text), whole)


def _find(text: str, *, options: Options) -> str | None:
    """What the pattern takes from the text. Raises TimeoutError."""
    matches = _compiled(options.pattern).finditer(text, timeout=options.timeout_s)
    found = (taken for match in matches if (taken := _of_match(match, group=options.group)) is not None)
    if options.take == "first":
        return next(found, None)
    last = None
    for last in found:  # noqa: B007 - the last one is what is wanted
        pass
    return last


def _right(found: str, *, targets: list[str], options: Options) -> tuple[float | None, str | None]:
    """The value, and what there is to say of it."""
    if options.compare == "text":
        wanted = {common_form(target, normalize=options.normalize) for target in targets}
        return float(common_form(found, normalize=options.normalize) in wanted), None
    numbers = [as_number(target) for target in targets]
    if None in numbers:
        return None, f"the target {targets[numbers.index(None)]!r} is no number"
    number = as_number(found)
    if number is None:
        return 0.0, f"{found!r} is no number"
    return float(any(equal_numbers(number, each, percent=options.percent) for each in numbers if each)), None


def score(*, sample: Sample, response: Response, options: Options) -> Score:
    """The score of one answer."""
    unscored = why_unscored(response) or missing_target(sample)
    if unscored or response.output is None:
        return scored(info=INFO, response=response, value=None, reason=unscored)
    targets, reason = text_targets(sample)
    if reason is not None:
        return scored(info=INFO, response=response, value=None, reason=reason)
    try:
        found = _find(cut_at(response.output, options.stop_at), options=options)
    except TimeoutError:
        reason = f"the pattern did not come to an end in {options.timeout_s:g} s"
        return scored(info=INFO, response=response, value=None, reason=reason)
    if found is None:
        return scored(info=INFO, response=response, value=0.0, reason="the pattern finds nothing in the answer")
    found = found.strip()
    value, reason = _right(found, targets=targets, options=options)
    return scored(info=INFO, response=response, value=value, extracted=found, reason=reason)


METRIC = Metric(info=INFO, Options=Options, score=score)
