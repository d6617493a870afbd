"""Prompts of an exact number of tokens, made of token ids.

Text cut to a length is tokenized to another one; ids are sent as they are. What is drawn under a name is the same in
every process and on every machine, and the first n of more tokens under it are its n tokens: so prompts have in common
what they are meant to have in common, and nothing else.
"""

import hashlib
from collections.abc import Sequence
from random import Random

from tasks.load.traces import MOONCAKE_BLOCK, Traced


def drawn(name: str, tokens: int, *, vocabulary: Sequence[int]) -> list[int]:
    """So many of the vocabulary's ids. vocabulary: without those that mean something to the engine, as an end does.

    Raises ValueError for an empty one."""
    if not vocabulary:
        raise ValueError("there is no token to draw")
    seed = int.from_bytes(hashlib.sha256(name.encode()).digest(), "big")
    return Random(seed).choices(vocabulary, k=tokens)  # noqa: S311 - a load, not a secret


def sharing(name: str, *, group: str, shared: int, own: int, vocabulary: Sequence[int]) -> list[int]:
    """The group's `shared` tokens, and `own` ones that no other name has."""
    return drawn(f"group {group}", shared, vocabulary=vocabulary) + drawn(f"own {name}", own, vocabulary=vocabulary)


def of_trace(request: Traced, *, index: int, trace: str, vocabulary: Sequence[int]) -> list[int]:
    """The prompt of one request of a trace: its blocks, the last of them cut where the prompt ends, and tokens of its
    own, or of its session, where the blocks are too few. trace: which one it is, so that two have nothing in common."""
    prompt: list[int] = []
    for block in request.blocks:
        length = min(MOONCAKE_BLOCK, request.prompt_tokens - len(prompt))
        prompt += drawn(f"{trace} block {block}", length, vocabulary=vocabulary)
    own = f"request {index}" if request.session is None else f"session {request.session}"
    return prompt + drawn(f"{trace} {own}", request.prompt_tokens - len(prompt), vocabulary=vocabulary)
