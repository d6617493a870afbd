"""What a load asks, one after the other: drawn prompts, recorded ones, a run's own.

The same seed and repeat give the same asks in every arm and in every run; another repeat gives others. A salt makes
drawn prompts differ where an engine cannot forget what it has read; lengths, order and pauses stay. What was recorded,
and a run's own prompts, are what they are.
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

WARMUP = " warmup"
"""What the salt of a warm-up ends with: it asks other things, of other lengths."""
_MANY = 1_000
"""Draws of a length that the plan looks at."""
_ENOUGH_WORDS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """name: no other ask of the cell has it. exactly: the answer has max_tokens tokens. request: of a run's own prompt,
    with its stops, grammar and adapter. session, turn: of a conversation, from 0; turns: how many it has; think_s: the
    pause between the last answer and this turn; way: what lengths and pauses of its further turns are drawn by."""

    name: str
    prompt_token_ids: list[int]
    max_tokens: int
    exactly: bool = True
    request: Request | None = None
    session: str | None = None
    turn: int = 0
    turns: int = 1
    think_s: float = 0.0
    way: str = ""


def ordinary_tokens(tokenizer: tokenizers.Tokenizer, *, end_ids: Sequence[int] = ()) -> list[int]:
    """The ids of tokens to draw prompts from, in order: nothing special, nothing added, no piece of a character.

    Where there are enough of them, only those that are words with a space in front: text made of these has the same
    tokens again, for a server that takes no ids."""
    added = {int(number) for number in tokenizer.get_added_tokens_decoder()}
    left_out = added | set(end_ids)
    numbers = sorted(
        number
        for token, number in tokenizer.get_vocab(with_added_tokens=False).items()
        if number not in left_out and not (token.startswith("<") and token.endswith(">"))
    )
    texts = tokenizer.decode_batch([[number] for number in numbers], skip_special_tokens=False)
    whole = [number for number, text in zip(numbers, texts, strict=True) if text and "\ufffd" not in text]
    words = _words(tokenizer, whole)
    return words if len(words) >= _ENOUGH_WORDS else whole


def _words(tokenizer: tokenizers.Tokenizer, numbers: Sequence[int]) -> list[int]:
    """Those that are a word, begin with a space, and are read again as they were written."""
    twice = [[number, number] for number in numbers]
    texts = tokenizer.decode_batch(twice, skip_special_tokens=False)
    spaced = [(ids, text) for ids, text in zip(twice, texts, strict=True) if _is_word_twice(text)]
    again = tokenizer.encode_batch_fast([text for _, text in spaced], add_special_tokens=False)
    return [ids[0] for (ids, _), encoding in zip(spaced, again, strict=True) if encoding.ids == ids]


def _is_word_twice(text: str) -> bool:
    first, space, second = text.removeprefix(" ").partition(" ")
    return bool(space) and first == second and first.isalpha()


def own_asks(requests: Sequence[Request], *, seed: int, repeat: int, salt: str = "") -> Iterator[Ask]:
    """A run's own prompts, all of them in a drawn order, then again in another one, without an end.

    requests: each sample's generating one. Raises ValueError where there is none."""
    if not requests:
        raise ValueError("there is nothing to ask")
    ordered = sorted(requests, key=lambda request: (request.dataset, request.sample_id))
    for turn in itertools.count():
        order = list(range(len(ordered)))
        Random(f"{seed} {repeat} own {_is_warmup(salt)} {turn}").shuffle(order)  # noqa: S311 - a load, not a secret
        for index in order:
            request = ordered[index]
            yield Ask(
                name=f"{turn} {index}",
                prompt_token_ids=request.prompt_token_ids,
                max_tokens=request.max_tokens,
                exactly=request.exactly,
                request=request,
            )


def trace_asks(traced: Sequence[Traced], *, trace: str, salt: str, vocabulary: Sequence[int]) -> Iterator[Ask]:
    """The prompts of a trace, in its order. trace: its name, so that two have nothing in common. Requests of one
    session begin alike, as a conversation's do."""
    for index, each in enumerate(traced):
        prompt = of_trace(each, index=index, trace=f"{trace}{salt}", vocabulary=vocabulary)
        yield Ask(name=str(index), prompt_token_ids=prompt, max_tokens=each.output_tokens, session=each.session)


def drawn_asks(
    prompts: PromptsConfig,
    *,
    seed: int,
    repeat: int,
    salt: str = "",
    vocabulary: Sequence[int],
    tokenizer: Tokenizer | None = None,
) -> Iterator[Ask]:
    """Asks of a block `prompts`, without an end; of conversations the first turns. tokenizer: for recorded text.

    Raises ValueError where that is needed and not there, and ConfigError for a file that is no good."""
    way = f"{seed} {repeat} lengths {_is_warmup(salt)}"
    draw = Random(way)  # noqa: S311 - a load, not a secret
    base = f"{seed} {repeat}{salt}"
    match prompts:
        case RandomPrompts():
            yield from _random(prompts.prompt_tokens, prompts.output_tokens, draw, base, vocabulary)
        case SharedPrefixPrompts():
            yield from _shared(prompts, draw, base, vocabulary)
        case MixPrompts():
            yield from _mixed(prompts, draw, base, vocabulary)
        case SessionPrompts():
            yield from _sessions(prompts, way, base, vocabulary)
        case ShareGptPrompts():
            if tokenizer is None:
                raise ValueError("recorded text needs a tokenizer")
            yield from _recorded(prompts, draw, tokenizer)


def next_turn(ask: Ask, answer: Sequence[int], *, prompts: SessionPrompts, base: str, vocabulary: Sequence[int]) -> Ask:
    """The turn of a conversation after this one was answered: all that was said, and something new. base: as that of
    `drawn_asks`, seed, repeat and salt: its new tokens are drawn by it, its length and its pause are not."""
    turn = ask.turn + 1
    draw = Random(f"{ask.way} {turn}")  # noqa: S311 - a load, not a secret
    new = drawn(f"{base} session {ask.session} turn {turn}", _one(prompts.own_tokens, draw), vocabulary=vocabulary)
    return Ask(
        name=f"{ask.session}.{turn}",
        prompt_token_ids=[*ask.prompt_token_ids, *answer, *new],
        max_tokens=_one(prompts.output_tokens, draw),
        session=ask.session,
        turn=turn,
        turns=ask.turns,
        think_s=_think(prompts, draw),
        way=ask.way,
    )


def lengths_of(prompts: PromptsConfig, *, n: int, tokenizer: Tokenizer | None = None) -> list[tuple[int, int]]:
    """Tokens of prompt and answer of the longest n of many asks, the longest possible one among them: what an engine
    must have room for."""
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
            each = prompts.own_tokens.longest + prompts.output_tokens.longest
            whole = prompts.first_tokens.longest + (prompts.turns - 1) * each
            found = [(whole, prompts.output_tokens.longest)]
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


def _sessions(prompts: SessionPrompts, way: str, base: str, vocabulary: Sequence[int]) -> Iterator[Ask]:
    """The first turns."""
    for number in itertools.count():
        own = f"{way} session {number}"
        draw = Random(own)  # noqa: S311 - a load, not a secret
        ids = drawn(f"{base} session {number} turn 0", _one(prompts.first_tokens, draw), vocabulary=vocabulary)
        yield Ask(
            name=f"{number}.0",
            prompt_token_ids=ids,
            max_tokens=_one(prompts.output_tokens, draw),
            session=str(number),
            turns=prompts.turns,
            way=own,
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
"""What was last read of a file, under one set of bounds: tokenizing it takes seconds, and every cell asks for it."""


def _conversations(prompts: ShareGptPrompts, tokenizer: Tokenizer) -> list[Conversation]:
    path = Path(prompts.path)
    written = path.stat().st_mtime_ns if path.is_file() else None
    key = json.dumps([prompts.model_dump(), tokenizer.fingerprint, tokenizer.bos_policy, written])
    if key not in _read:
        _read.clear()
        _read[key] = read_sharegpt(path, prompts=prompts, tokenizer=tokenizer)
    return _read[key]


def _is_warmup(salt: str) -> bool:
    return salt.endswith(WARMUP)


def _think(prompts: SessionPrompts, draw: Random) -> float:
    if prompts.think == "constant" or prompts.think_s == 0:
        return prompts.think_s
    return draw.expovariate(1 / prompts.think_s)


def _pairs(prompt: Length, answer: Length, draw: Random) -> list[tuple[int, int]]:
    pairs = zip(_lengths(prompt).draw(draw), _lengths(answer).draw(draw), strict=False)
    return [(prompt.longest, answer.longest), *itertools.islice(pairs, _MANY)]


def _one(length: Length, draw: Random) -> int:
    return next(_lengths(length).draw(draw))


def _lengths(length: Length) -> Lengths:
    return Lengths(
        kind=length.kind, mean=length.mean or 0.0, sd=length.sd or 0.0, least=length.least, most=length.longest
    )
