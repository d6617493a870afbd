"""Picking the likeliest choice: what acc, acc_norm and acc_bytes share."""

import math
from typing import Literal

from schemas.base import Config
from schemas.metric import MetricInfo, Score
from schemas.sample import Response, Sample
from tasks.score.metric import missing_target, scored, why_unscored
from tasks.score.options import Reading, resolve_target


class LikeliestOptions(Config):
    """How the target is read, and what a tie is worth."""

    target: Reading = "auto"
    """What the target is: an index from 0, a letter, an option's text; auto takes the one that fits."""
    tie: Literal["split", "first", "wrong"] = "split"
    """k choices share the top: the right one among them earns 1/k (split), the first of them is picked (first), or none
    is right (wrong)."""


Unit = Literal["choice", "character", "byte"]


def _length(text: str, *, per: Unit) -> int:
    """What the log-likelihood of a choice is divided by; lone surrogates have three bytes."""
    if per == "choice":
        return 1
    return len(text) if per == "character" else len(text.encode("utf-8", "surrogatepass"))


def _credited(top: list[int], *, tie: Literal["split", "first", "wrong"]) -> list[int]:
    """Of the choices that share the top, those among which the credit is split."""
    if len(top) == 1 or tie == "split":
        return top
    return top[:1] if tie == "first" else []


def _logprobs(responses: list[Response]) -> tuple[list[float], str | None]:
    values: list[float] = []
    for index, response in enumerate(responses):
        unscored = why_unscored(response)
        if unscored is not None:
            return [], f"choice {index}: {unscored}"
        if response.logprob_sum is None or math.isnan(response.logprob_sum):
            return [], f"choice {index}: no log-likelihood"
        values.append(response.logprob_sum)
    return values, None


def score_likeliest(
    *, info: MetricInfo, sample: Sample, responses: list[Response], options: LikeliestOptions, per: Unit
) -> Score:
    """The score of the choice with the highest log-likelihood, over what its raw text has of `per`.

    Score.ties is the number of choices that share the top, 0 where there is one. Raises ValueError if there are not as
    many responses as choices, or if they are not in the choices' order.
    """
    texts = [choice.text for choice in sample.choices]
    if len(responses) != len(texts) or not responses:
        raise ValueError(f"{sample.sample_id}: {len(responses)} responses for {len(texts)} choices")
    if any(response.choice_index not in (None, index) for index, response in enumerate(responses)):
        raise ValueError(f"{sample.sample_id}: the responses are not in the order of the choices")
    missing = missing_target(sample)
    if missing:
        return scored(info=info, response=responses[0], value=None, reason=missing)
    values, reason = _logprobs(responses)
    if reason is None and per != "choice" and not all(texts):
        reason = "an empty choice has no length to divide by"
    right = None
    if reason is None:
        right, reason = resolve_target(target=sample.target, texts=texts, reading=options.target)
    if right is None:
        return scored(info=info, response=responses[0], value=None, reason=reason)
    values = [value / _length(text, per=per) for value, text in zip(values, texts, strict=True)]
    top = [index for index, value in enumerate(values) if value == max(values)]
    credited = _credited(top, tie=options.tie)
    value = 1 / len(credited) if right in credited else 0.0
    tied = len(top) if len(top) > 1 else 0
    return scored(
        info=info,
        response=responses[0],
        value=value,
        extracted=texts[top[0]],
        ties=tied,
        reason=f"{tied} choices are equally likely" if tied else None,
    )
