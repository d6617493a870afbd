"""tool_call: 1 if the answer calls the tools that the target names, with equal arguments and no others, else 0.

Formula: the mean over samples of [calls(answer) == target]. Unit: share, higher is better. Our own definition; what
`allowed: any_of` permits follows the possible answers of BFCL (Patil et al. 2025), but texts are compared as they are,
not without their punctuation, and a number that is equal counts whether it is written 5 or 5.0. A call is a JSON object
{name, arguments}; tasks/score/text/tool_calls.py says where it may stand. A target of [] wants no call.
"""

from typing import Any, Literal

from schemas.base import Config
from schemas.metric import MetricInfo, Score
from schemas.sample import Response, Sample
from tasks.guide.strict_json import NotJson, parse
from tasks.score.metric import Metric, missing_target, scored, why_unscored
from tasks.score.text.tool_calls import Call, NoCall, as_calls, differences, find_calls

INFO = MetricInfo(name="tool_call", version=1, unit="share", direction="higher", needs="generate", is_rate=True)


class Options(Config):
    """What counts as the same call."""

    allowed: Literal["exact", "any_of"] = "exact"
    """exact: an argument equals the target's. any_of: the target has for each argument the list of permitted values,
    in which "" says that it may be left out; a call may also be written {tool: {argument: [values]}}."""
    any_order: bool = False
    """Several calls may come in any order."""


def _targets(target: Any, *, options: Options) -> list[Call]:
    """The wanted calls. Raises NoCall and NotJson."""
    if isinstance(target, str):
        target = parse(target)[0]
    calls = target if isinstance(target, list) else [target]
    if options.allowed == "any_of":
        calls = [_written_out(call) for call in calls]
    return as_calls(calls)


def _written_out(call: Any) -> Any:
    """{tool: {argument: [values]}} as {name, arguments}; another value as it is."""
    if isinstance(call, dict) and len(call) == 1 and "name" not in call and "function" not in call:
        [(name, arguments)] = call.items()
        return {"name": name, "arguments": arguments}
    return call


def _unpaired(*, found: list[Call], wanted: list[Call], any_of: bool) -> list[int]:
    """Which wanted calls have no partner in the largest pairing of equal calls, each used once."""
    fits = [
        [place for place, call in enumerate(found) if not differences(found=call, wanted=each, any_of=any_of)]
        for each in wanted
    ]
    partner: dict[int, int] = {}

    def place_for(index: int, *, tried: set[int]) -> bool:
        for place in fits[index]:
            if place not in tried:
                tried.add(place)
                if place not in partner or place_for(partner[place], tried=tried):
                    partner[place] = index
                    return True
        return False

    return [index for index in range(len(wanted)) if not place_for(index, tried=set())]


def _wrong(*, found: list[Call], wanted: list[Call], options: Options) -> str | None:
    """What differs, or None where nothing does."""
    any_of = options.allowed == "any_of"
    if len(found) != len(wanted):
        names = ", ".join(call.name for call in found) or "none"
        return f"the number of calls is {len(found)} ({names}), not {len(wanted)}"
    several = len(wanted) > 1
    if several and options.any_order:
        missing = [wanted[index].name for index in _unpaired(found=found, wanted=wanted, any_of=any_of)]
        return f"no call equals that of {', '.join(missing)}" if missing else None
    said = [
        (f"call {number}: " if several else "") + ", ".join(wrong)
        for number, (one, two) in enumerate(zip(found, wanted, strict=True), start=1)
        if (wrong := differences(found=one, wanted=two, any_of=any_of))
    ]
    return "; ".join(said) or None


def _of_answer(*, response: Response, wanted: list[Call], options: Options) -> Score:
    found, text, reason = find_calls(response.output or "")
    if not wanted:
        reason = None if not found else f"no call is wanted: {', '.join(call.name for call in found)}"
        return scored(info=INFO, response=response, value=float(not found), extracted=text, reason=reason)
    if reason is None:
        reason = _wrong(found=found, wanted=wanted, options=options)
    return scored(info=INFO, response=response, value=float(reason is None), extracted=text, reason=reason)


def score(*, sample: Sample, response: Response, options: Options) -> Score:
    """The score of one answer."""
    unscored = why_unscored(response) or missing_target(sample)
    if unscored or response.output is None:
        return scored(info=INFO, response=response, value=None, reason=unscored)
    try:
        wanted = _targets(sample.target, options=options)
    except (NoCall, NotJson) as error:
        return scored(info=INFO, response=response, value=None, reason=f"the target: {error}")
    try:
        return _of_answer(response=response, wanted=wanted, options=options)
    except RecursionError:
        return scored(info=INFO, response=response, value=0.0, reason="the answer is nested too deeply to be compared")


METRIC = Metric(info=INFO, Options=Options, score=score)
