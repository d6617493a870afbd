"""What a load asks, one after the other: drawn prompts, recorded ones, a run's own.

The same seed and repeat give the same asks in every arm and in every run; another repeat gives others. A salt makes
prompts differ where an engine cannot forget what it has read, and lengths and order stay.
"""

import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import tokenizers

from schemas.prompts import (
    Length,
    MixPrompts,
    PromptsConfig,
    RandomPrompts,
    SessionPrompts,
    SharedPrefixPrompts,
    ShareGptPrompts,
)
from schemas.sample import Request
from tasks.dataset.tokenizer import Tokenizer
from tasks.load.lengths import Lengths
from tasks.load.prompts import drawn, of_trace, sharing
from tasks.load.sharegpt import Conversation, read_sharegpt
from tasks.load.traces import Traced

_MANY = 1_000
"""Draws of a length that the plan looks at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """name: no other ask of the cell has it. exactly: the answer has max_tokens tokens. request: of a run's own prompt,
    with its stops, grammar and adapter. session, turn: of a conversation, whose next turn comes think_s after the
    answer; turns: how many it has."""

    name: str
    prompt_token_ids: list[int]
    max_tokens: int
    exactly: bool = True
    request: Request | None = None
    session: str | None = None
    turn: int = 0
    turns: int = 1
    think_s: float = 0.0


def ordinary_tokens(tokenizer: tokenizers.Tokenizer, *, end_ids: Sequence[int] = ()) -> list[int]:
    """The ids of tokens that are whole text: nothing special, nothing added, no piece of a character. Text made of them
    can be sent in place of ids."""
    added = {int(number) for number in tokenizer.get_added_tokens_decoder()}
    left_out = added | set(end_ids)
    found = []
    for token, number in tokenizer.get_vocab(with_added_tokens=False).items():
        if number in left_out or (token.startswith("<") and token.endswith(">")):
            continue
        text = tokenizer.decode([number], skip_special_tokens=False)
        if text and "�" not in text:
            found.append(number)
    return sorted(found)


def own_asks(requests: Sequence[Request], *, seed: int, repeat: int, salt: str = "") -> Iterator[Ask]:
    """A run's own prompts, all of them in a drawn order, then again in another one, without an end.

    Raises ValueError where there is none."""
    if not requests:
        raise ValueError("there is nothing to ask")
    ordered = sorted(requests, key=lambda request: (request.dataset, request.sample_id))
    for turn in itertools.count():
        order = list(range(len(ordered)))
        Random(f"{seed} {repeat} own {'warmup' in salt} {turn}").shuffle(order)  # noqa: S311 - a load, not a secret
        for index in order:
            request = ordered[index]
            yield Ask(
                name=f"{turn} {request.dataset} {request.sample_id}",
                prompt_token_ids=request.prompt_token_ids,
                max_tokens=request.max_tokens,
                exactly=request.exactly,
                request=request,
            )


def trace_asks(traced: Sequence[Traced], *, trace: str, salt: str, vocabulary: Sequence[int]) -> Iterator[Ask]:
    """The prompts of a trace, in its order. trace: its name, so that two have nothing in common."""
    for index, each in enumerate(traced):
        prompt = of_trace(each, index=index, trace=f"{trace}{salt}", vocabulary=vocabulary)
        yield Ask(name=str(index), prompt_token_ids=prompt, max_tokens=each.output_tokens)


def drawn_asks(
    prompts: PromptsConfig,
    *,
    seed: int,
    repeat: int,
    salt: str = "",
    vocabulary: Sequence[int],
    tokenizer: Tokenizer | None = None,
) -> Iterator[Ask]:
    """Asks of a block `prompts`, without an end. tokenizer: for text that is recorded."""
    draw = Random(f"{seed} {repeat} lengths {'warmup' in salt}")  # noqa: S311 - a load, not a secret
    base = f"{seed} {repeat}{salt}"
    match prompts:
        case RandomPrompts():
            yield from _random(prompts.prompt_tokens, prompts.output_tokens, draw, base, vocabulary)
        case SharedPrefixPrompts():
            yield from _shared(prompts, draw, base, vocabulary)
        case MixPrompts():
            yield from _mixed(prompts, draw, base, vocabulary)
        case SessionPrompts():
            yield from _sessions(prompts, draw, base, vocabulary)
        case ShareGptPrompts():
            if tokenizer is None:
                raise ValueError("recorded text needs a tokenizer")
            yield from _recorded(prompts, draw, tokenizer)


def next_turn(ask: Ask, answer: Sequence[int], *, prompts: SessionPrompts, base: str, vocabulary: Sequence[int]) -> Ask:
    """The turn of a conversation after this one was answered: all that was said, and something new."""
    turn = ask.turn + 1
    draw = Random(f"{base} {ask.session} {turn}")  # noqa: S311 - a load, not a secret
    new = drawn(f"{base} session {ask.session} turn {turn}", _one(prompts.own_tokens, draw), vocabulary=vocabulary)
    return Ask(
        name=f"{ask.session}.{turn}",
        prompt_token_ids=[*ask.prompt_token_ids, *answer, *new],
        max_tokens=_one(prompts.output_tokens, draw),
        session=ask.session,
        turn=turn,
        turns=ask.turns,
        think_s=_think(prompts, draw),
    )


def lengths_of(prompts: PromptsConfig, *, n: int, tokenizer: Tokenizer | None = None) -> list[tuple[int, int]]:
    """Tokens of prompt and answer of the longest n of many asks: what an engine must have room for."""
    draw = Random(0)  # noqa: S311 - a load, not a secret
    found: list[tuple[int, int]] = []
    match prompts:
        case RandomPrompts():
            found = _pairs(prompts.prompt_tokens, prompts.output_tokens, draw)
        case SharedPrefixPrompts():
            own = _pairs(prompts.own_tokens, prompts.output_tokens, draw)
            found = [(prompts.shared_tokens + prompt, answer) for prompt, answer in own]
        case MixPrompts():
            found = [pair for part in prompts.parts for pair in _pairs(part.prompt_tokens, part.output_tokens, draw)]
        case SessionPrompts():
            first = _longest(prompts.first_tokens)
            each = _longest(prompts.own_tokens) + _longest(prompts.output_tokens)
            found = [(first + (prompts.turns - 1) * each, _longest(prompts.output_tokens))]
        case ShareGptPrompts():
            if tokenizer is None:
                raise ValueError("recorded text needs a tokenizer")
            found = [(len(one.prompt_token_ids), one.output_tokens) for one in _conversations(prompts, tokenizer)]
    ordered = sorted(found, key=sum, reverse=True)
    return list(itertools.islice(itertools.cycle(ordered), n))


def _random(prompt: Length, answer: Length, draw: Random, base: str, vocabulary: Sequence[int]) -> Iterator[Ask]:
    pairs = zip(_lengths(prompt).draw(draw), _lengths(answer).draw(draw), strict=False)
    for number, (tokens, output) in enumerate(pairs):
        ids = drawn(f"{base} random {number}", tokens, vocabulary=vocabulary)
        yield Ask(name=str(number), prompt_token_ids=ids, max_tokens=output)


def _shared(prompts: SharedPrefixPrompts, draw: Random, base: str, vocabulary: Sequence[int]) -> Iterator[Ask]:
    pairs = zip(_lengths(prompts.own_tokens).draw(draw), _lengths(prompts.output_tokens).draw(draw), strict=False)
    for number, (own, output) in enumerate(pairs):
        group = f"{base} {draw.randrange(prompts.groups)}"
        ids = sharing(f"{base} {number}", group=group, shared=prompts.shared_tokens, own=own, vocabulary=vocabulary)
        yield Ask(name=str(number), prompt_token_ids=ids, max_tokens=output)


def _mixed(prompts: MixPrompts, draw: Random, base: str, vocabulary: Sequence[int]) -> Iterator[Ask]:
    shares = [part.share for part in prompts.parts]
    for number in itertools.count():
        [part] = draw.choices(prompts.parts, weights=shares)
        ids = drawn(f"{base} mix {number}", _one(part.prompt_tokens, draw), vocabulary=vocabulary)
        yield Ask(name=str(number), prompt_token_ids=ids, max_tokens=_one(part.output_tokens, draw))


def _sessions(prompts: SessionPrompts, draw: Random, base: str, vocabulary: Sequence[int]) -> Iterator[Ask]:
    """The first turns."""
    for number in itertools.count():
        ids = drawn(f"{base} session {number} turn 0", _one(prompts.first_tokens, draw), vocabulary=vocabulary)
        yield Ask(
            name=f"{number}.0",
            prompt_token_ids=ids,
            max_tokens=_one(prompts.output_tokens, draw),
            session=str(number),
            turns=prompts.turns,
        )


def _recorded(prompts: ShareGptPrompts, draw: Random, tokenizer: Tokenizer) -> Iterator[Ask]:
    found = _conversations(prompts, tokenizer)
    for turn in itertools.count():
        order = list(range(len(found)))
        draw.shuffle(order)
        for index in order:
            one = found[index]
            yield Ask(name=f"{turn} {index}", prompt_token_ids=one.prompt_token_ids, max_tokens=one.output_tokens)


_read: dict[str, list[Conversation]] = {}
"""What was read of a file under one set of bounds: tokenizing it takes seconds, and every cell asks for it."""


def _conversations(prompts: ShareGptPrompts, tokenizer: Tokenizer) -> list[Conversation]:
    key = json.dumps([prompts.model_dump(), tokenizer.fingerprint])
    if key not in _read:
        _read[key] = read_sharegpt(Path(prompts.path), prompts=prompts, tokenizer=tokenizer)
    return _read[key]


def _think(prompts: SessionPrompts, draw: Random) -> float:
    if prompts.think == "constant" or prompts.think_s == 0:
        return prompts.think_s
    return draw.expovariate(1 / prompts.think_s)


def _pairs(prompt: Length, answer: Length, draw: Random) -> list[tuple[int, int]]:
    pairs = zip(_lengths(prompt).draw(draw), _lengths(answer).draw(draw), strict=False)
    drawn_ones = list(itertools.islice(pairs, _MANY))
    bounds = [(_longest(prompt), _longest(answer))] if _is_bounded(prompt) and _is_bounded(answer) else []
    return [*bounds, *drawn_ones]


def _is_bounded(length: Length) -> bool:
    return length.kind == "fixed" or length.most < 1 << 20


def _longest(length: Length) -> int:
    """The longest that it can be; of one without a bound, that lies four deviations above its mean."""
    if length.kind == "fixed":
        return round(length.mean or 0)
    if length.most < 1 << 20:
        return length.most
    return round((length.mean or 0) + 4 * (length.sd or 0))


def _one(length: Length, draw: Random) -> int:
    return next(_lengths(length).draw(draw))


def _lengths(length: Length) -> Lengths:
    return Lengths(kind=length.kind, mean=length.mean or 0.0, sd=length.sd or 0.0, least=length.least, most=length.most)
