"""json_fields: the share of the target's leaf fields that the answer has right.

Formula: right leaves / leaves of the target. Unit: share (0 to 1), higher is better. Our own definition. A leaf is a
text, a number, a boolean, a null, or an empty object or list. Leaves pair up by their path: keys in objects,
positions in lists. Numbers are equal as decimals (5 = 5.0, but "5" is a text), texts after stripping blanks. The JSON
of a free answer is taken from its fenced block or from among the words first. An answer without JSON scores 0, with
the reason. Leaves that the target does not have cost nothing; the reason names them.
"""

from collections.abc import Iterable
from typing import Any, Literal

from schemas.base import Config
from schemas.metric import MetricInfo, Score
from schemas.sample import Response, Sample
from tasks.guide.extract import extract_json
from tasks.guide.strict_json import NotJson, parse
from tasks.score.metric import Metric, missing_target, scored, why_unscored
from tasks.score.numbers import json_number

INFO = MetricInfo(name="json_fields", version=1, unit="share", direction="higher", needs="generate", is_rate=False)

Path = tuple[str | int, ...]
_MOST_NAMED = 5
_OPENING, _CLOSING = ("{", "["), ("}", "]")
_UNREAD = object()
_NESTED = (dict, list)
_PLAIN = (int, bool, type(None))
"""Two values of one of these types are equal as Python has it."""


class Options(Config):
    """How texts are compared."""

    casefold: bool = False
    """Texts that differ only in upper and lower case are equal."""


def _leaves(value: Any) -> dict[Path, Any]:
    """The leaves by their paths, in the order of the text."""
    found: dict[Path, Any] = {}
    _collect(value, path=(), into=found)
    return found


def _collect(value: Any, *, path: Path, into: dict[Path, Any]) -> None:
    if not (value and isinstance(value, _NESTED)):
        into[path] = value
        return
    steps: Iterable[tuple[Any, Any]] = value.items() if isinstance(value, dict) else enumerate(value)
    named = isinstance(value, dict)
    for step, item in steps:
        here = (*path, str(step) if named else step)
        if item and isinstance(item, _NESTED):
            _collect(item, path=here, into=into)
        else:
            into[here] = item


def _equal(one: Any, two: Any, *, options: Options) -> bool:
    kind = type(one)
    if kind is type(two) and kind in _PLAIN:
        return bool(one == two)
    if isinstance(one, str) and isinstance(two, str):
        one, two = one.strip(), two.strip()
        return (one.casefold() == two.casefold()) if options.casefold else str(one) == str(two)
    numbers = json_number(one), json_number(two)
    if numbers[0] is not None and numbers[1] is not None:
        return numbers[0] == numbers[1]
    return kind is type(two) and bool(one == two)


def _named(paths: list[Path]) -> str:
    names = [".".join(str(step) for step in path) or "the whole answer" for path in paths[:_MOST_NAMED]]
    return ", ".join(names) + (f" and {len(paths) - _MOST_NAMED} more" if len(paths) > _MOST_NAMED else "")


def _target(target: Any) -> Any:
    """The target as a JSON value: as it is, or parsed where it is the text of an object or a list."""
    if isinstance(target, str) and target.lstrip()[:1] in ("{", "["):
        return parse(target)[0]
    return target


def _find(answer: str, *, prefer: Literal["object", "array"]) -> tuple[Any, str | None]:
    """The JSON value of an answer, or _UNREAD, and the text where it stands, or None if there is none."""
    bare = answer.strip()
    if bare[:1] in _OPENING and bare[-1:] in _CLOSING:  # most answers: extract_json would read it only to say so
        try:
            return parse(bare)[0], bare
        except NotJson:
            pass
    found = extract_json(answer, prefer=prefer)
    return _UNREAD, None if found is None else found.text


def score(*, sample: Sample, response: Response, options: Options) -> Score:
    """The score of one answer."""
    unscored = why_unscored(response) or missing_target(sample)
    if unscored or response.output is None:
        return scored(info=INFO, response=response, value=None, reason=unscored)
    try:
        target = _target(sample.target)
    except NotJson as error:
        return scored(info=INFO, response=response, value=None, reason=f"the target is {error}")
    found, text = _find(response.output, prefer="array" if isinstance(target, list) else "object")
    if text is None:
        return scored(info=INFO, response=response, value=0.0, reason="there is no JSON in the answer")
    try:
        answer = _leaves(parse(text)[0] if found is _UNREAD else found)
        wanted = _leaves(target)
    except (NotJson, RecursionError) as error:
        return scored(info=INFO, response=response, value=0.0, extracted=text, reason=str(error))
    wrong = [
        path for path, leaf in wanted.items() if path not in answer or not _equal(leaf, answer[path], options=options)
    ]
    extra = [path for path in answer if path not in wanted]
    parts = [f"wrong: {_named(wrong)}"] if wrong else []
    parts += [f"extra: {_named(extra)}"] if extra else []
    return scored(
        info=INFO,
        response=response,
        value=(len(wanted) - len(wrong)) / len(wanted),
        extracted=text,
        reason="; ".join(parts) or None,
    )


METRIC = Metric(info=INFO, Options=Options, score=score)
