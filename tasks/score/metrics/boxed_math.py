r"""boxed_math: 1 if the mathematical answer in the last \boxed{…} equals the target (or one of a list), else 0.

Formula: the mean over samples of [the two are equal]. Unit: share, higher is better. Source: the MATH benchmark
(Hendrycks et al. 2021) for the box and for the kind of normalization; what is equal is our own definition, in
docs/metrics-math-ifeval.md. Asked in this order: equal as normalized text; equal as numbers, exactly; equal as
mathematics, by sympy in a process of its own. An answer that is not decided in `timeout_s` is wrong (0), with the
reason, and costs no other sample anything. A target that holds a box (a whole solution) stands for its last one.
"""

from collections.abc import Callable
from fractions import Fraction
from typing import Annotated, Literal

from pydantic import Field

from schemas.base import Config
from schemas.metric import MetricInfo, Score
from schemas.sample import Response, Sample
from tasks.score.math.extract import NoAnswer, last_boxed, last_formula, last_line, likely
from tasks.score.math.guarded import GUARD, Equality
from tasks.score.math.normalize import bare, normalize
from tasks.score.math.plain import as_fraction
from tasks.score.metric import Metric, missing_target, scored, why_unscored
from tasks.score.normalize import cut_at

INFO = MetricInfo(name="boxed_math", version=1, unit="share", direction="higher", needs="generate", is_rate=True)


class Options(Config):
    """Where the answer stands, and how long deciding may take."""

    extract: Literal["boxed", "likely", "formula", "last_line", "whole"] = "boxed"
    r"""boxed: the last \boxed{}, and nothing else counts. likely: the last box, else the last `$…$`, else the last
    line. formula: the last `$…$`, `\(…\)` or `\[…\]`. last_line: the last line. whole: all of the answer."""
    stop_at: list[str] = Field(default_factory=list)
    """The answer is cut where one of these begins, before anything else."""
    timeout_s: Annotated[float, Field(gt=0, le=60)] = 2.0
    """Seconds of processor time that comparing one answer with one target may take."""


_EXTRACT: dict[str, Callable[[str], str]] = {
    "boxed": last_boxed,
    "likely": likely,
    "formula": last_formula,
    "last_line": last_line,
    "whole": str.strip,
}


def _target_text(target: object) -> str:
    text = str(target)
    return last_boxed(text) if "\\boxed" in text else text


def _same(*, expected: str, given: str, timeout_s: float) -> Equality:
    """Two normalized answers, by text, then as numbers, then by sympy."""
    if bare(expected) == bare(given):
        return Equality(equal=True, reason=None)
    numbers: list[Fraction | None] = [as_fraction(expected), as_fraction(given)]
    if None not in numbers:
        return Equality(equal=numbers[0] == numbers[1], reason=None)
    return GUARD.compare(expected=expected, given=given, timeout_s=timeout_s)


def _verdict(*, wanted: list[str], output: str, options: Options) -> tuple[float, str | None, str | None]:
    """Value, what was extracted, and the reason of one answer against the normalized targets."""
    try:
        found = _EXTRACT[options.extract](cut_at(output, options.stop_at)).strip()
    except NoAnswer as error:
        return 0.0, None, str(error)
    given = normalize(found)
    if not given:
        return 0.0, found, "the answer is blank"
    reasons = []
    for expected in wanted:
        verdict = _same(expected=expected, given=given, timeout_s=options.timeout_s)
        if verdict.equal:
            return 1.0, found, None
        reasons.append(verdict.reason)
    return 0.0, found, next((reason for reason in reasons if reason), None)


def score(*, sample: Sample, response: Response, options: Options) -> Score:
    """The score of one answer."""
    unscored = why_unscored(response) or missing_target(sample)
    if unscored or response.output is None:
        return scored(info=INFO, response=response, value=None, reason=unscored)
    targets = sample.target if isinstance(sample.target, list) else [sample.target]
    if not targets:
        return scored(info=INFO, response=response, value=None, reason="the sample's list of targets is empty")
    try:
        wanted = [normalize(_target_text(target)) for target in targets]
    except NoAnswer as error:
        return scored(info=INFO, response=response, value=None, reason=f"the target: {error}")
    value, extracted, reason = _verdict(wanted=wanted, output=response.output, options=options)
    return scored(info=INFO, response=response, value=value, extracted=extracted, reason=reason)


METRIC = Metric(info=INFO, Options=Options, score=score)
