"""json_valid: 1 if the answer is JSON that obeys the sample's schema, else 0.

Formula: the mean over samples of [the answer parses and validates]. Unit: share, higher is better. Our own
definition; the validator is jsonschema-rs, never a grammar backend. The JSON of a free answer is first taken out of
its fenced block or from among the words, in both arms alike; `strict: true` judges the whole text instead. A sample
without a JSON grammar is only parsed. A refused request counts as 0: refused schemas stay in the denominator.
"""

from schemas.base import Config
from schemas.metric import MetricInfo, Score
from schemas.sample import Grammar, Response, Sample
from tasks.guide.extract import extract_json
from tasks.guide.strict_json import NotJson, parse
from tasks.guide.validate import validate, validate_free
from tasks.score.metric import Metric, scored, why_unscored

INFO = MetricInfo(name="json_valid", version=1, unit="share", direction="higher", needs="generate", is_rate=True)


class Options(Config):
    """What is judged."""

    strict: bool = False
    """Judge the whole answer, words and fences included."""


def _parses(text: str, *, strict: bool) -> str | None:
    """Why there is no JSON, or None if there is."""
    if not strict:
        return None if extract_json(text) is not None else "there is no JSON in the answer"
    try:
        parse(text)
    except NotJson as error:
        return str(error)
    return None


def _violation(*, grammar: Grammar, text: str, strict: bool) -> str | None:
    verdict = validate(grammar, text) if strict else validate_free(grammar, text)
    if verdict.valid:
        return None
    first = verdict.violations[0]
    return f"{first.path}: {first.message}" if first.path else first.message


def score(*, sample: Sample, response: Response, options: Options) -> Score:
    """The score of one answer."""
    unscored = why_unscored(response)
    if response.status == "refused":
        return scored(info=INFO, response=response, value=0.0, reason=unscored)
    if unscored or response.output is None:
        return scored(info=INFO, response=response, value=None, reason=unscored)
    if sample.grammar_error is not None:
        reason = f"the sample's grammar is no valid one: {sample.grammar_error}"
        return scored(info=INFO, response=response, value=None, reason=reason)
    grammar = sample.grammar
    fault: str | None
    if grammar is not None and grammar.kind in ("json_schema", "json_object"):
        fault = _violation(grammar=grammar, text=response.output, strict=options.strict)
    else:
        fault = _parses(response.output, strict=options.strict)
    return scored(info=INFO, response=response, value=float(fault is None), reason=fault)


METRIC = Metric(info=INFO, Options=Options, score=score)
