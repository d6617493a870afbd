"""The log-probabilities of a prompt's tokens out of a completion, in the two ways in which servers give them."""

from collections.abc import Sequence
from typing import Any


class Unread(Exception):
    """The answer does not hold them; the message says what is missing."""


def continuation_logprobs(answer: Any, *, token_ids: Sequence[int], start: int) -> list[float]:
    """log P of each token from `start` on, given all before it. answer: the whole JSON of a completion. Raises
    Unread."""
    try:
        choice = answer["choices"][0]
    except (KeyError, IndexError, TypeError) as error:
        raise Unread("the answer has no choice") from error
    listed = choice.get("prompt_logprobs") if isinstance(choice, dict) else None
    if listed is None and isinstance(answer, dict):
        listed = answer.get("prompt_logprobs")
    if isinstance(listed, list):
        return _named(listed, token_ids, start)
    echoed = choice.get("logprobs") if isinstance(choice, dict) else None
    if isinstance(echoed, dict) and isinstance(echoed.get("token_logprobs"), list):
        return _in_order(echoed["token_logprobs"], token_ids, start)
    raise Unread("neither `prompt_logprobs` nor `logprobs.token_logprobs` is there")


def _named(listed: list[Any], token_ids: Sequence[int], start: int) -> list[float]:
    """Of each place an object of token id and log-probability, counted from the end."""
    if len(listed) < len(token_ids) - start:
        raise Unread(f"{len(listed)} places for {len(token_ids)} tokens")
    found = []
    for place, token_id in zip(listed[len(listed) - (len(token_ids) - start) :], token_ids[start:], strict=True):
        entry = place.get(str(token_id)) if isinstance(place, dict) else None
        value = entry.get("logprob") if isinstance(entry, dict) else entry
        found.append(_number(value, token_id))
    return found


def _in_order(listed: list[Any], token_ids: Sequence[int], start: int) -> list[float]:
    """The prompt's own, then those of what was generated."""
    if len(listed) < len(token_ids):
        raise Unread(f"{len(listed)} log-probabilities for {len(token_ids)} tokens")
    return [
        _number(value, token_id)
        for value, token_id in zip(listed[start : len(token_ids)], token_ids[start:], strict=True)
    ]


def _number(value: Any, token_id: int) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Unread(f"none for the token {token_id}")
    return float(value)
