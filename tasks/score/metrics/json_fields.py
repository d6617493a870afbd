"""json_fields: the share of the target's leaf fields that the answer has right.

Formula: right leaves / leaves of the target. Unit: share (0 to 1), higher is better. Our own definition. A leaf is a
text, a number, a boolean, a null, or an empty object or list. Leaves pair up by their path: keys in objects,
positions in lists. Numbers are equal as decimals (5 = 5.0, but "5" is a text), texts after stripping blanks. The JSON
of a free answer is taken from its fenced block or from among the words first. An answer without JSON scores 0, with
the reason. Leaves that the target does not have cost nothing; the reason names them.
"""

from collections.abc import Iterator
from typing import Any

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


class Options(Config):
    """How texts are compared."""

    casefold: bool = False
    """Texts that differ only in upper and lower case are equal."""


def _leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _leaves(item, (*path, str(key)))
    elif isinstance(value, list) and value:
        for index, item in enumerate(value):
            yield from _leaves(item, (*path, index))
    else:
        yield path, value


def _equal(one: Any, two: Any, *, options: Options) -> bool:
    if isinstance(one, str) and isinstance(two, str):
        one, two = one.strip(), two.strip()
        return (one.casefold() == two.casefold()) if options.casefold else str(one) == str(two)
    numbers = json_number(one), json_number(two)
    if numbers[0] is not None and numbers[1] is not None:
        return numbers[0] == numbers[1]
    return type(one) is type(two) and bool(one == two)


def _named(paths: list[Path]) -> str:
    names = [".".join(str(step) for step in path) or "the whole answer" for path in paths[:_MOST_NAMED]]
    return ", ".join(names) + (f" and {len(paths) - _MOST_NAMED} more" if len(paths) > _MOST_NAMED else "")


def _target(target: Any) -> Any:
    """The target as a JSON value: as it is, or parsed where it is the text of an object or a list."""
    if isinstance(target, str) and target.lstrip()[:1] in ("{", "["):
        return parse(target)[0]
    return target


def score(*, sample: Sample, response: Response, options: Options) -> Score:
    """The score of one answer."""
    unscored = why_unscored(response) or missing_target(sample)
    if unscored or response.output is None:
        return scored(info=INFO, response=response, value=None, reason=unscored)
    try:
        target = _target(sample.target)
    except NotJson as error:
        return scored(info=INFO, response=response, value=None, reason=f"the target is {error}")
    found = extract_json(response.output, prefer="array" if isinstance(target, list) else "object")
    if found is None:
        return scored(info=INFO, response=response, value=0.0, reason="there is no JSON in the answer")
    try:
        answer = dict(_leaves(parse(found.text)[0]))
        wanted = dict(_leaves(target))
    except (NotJson, RecursionError) as error:
        return scored(info=INFO, response=response, value=0.0, extracted=found.text, reason=str(error))
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
        extracted=found.text,
        reason="; ".join(parts) or None,
    )


METRIC = Metric(info=INFO, Options=Options, score=score)
