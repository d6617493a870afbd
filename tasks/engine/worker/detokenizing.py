"""Where an answer's text begins.

vLLM makes text of tokens as they come, and tells the tokenizer of the prompt before, for the blanks and characters that
lie across the border. A prompt that ends within a character (its text was cut at a token) never looks finished to it,
and the text of the answer would begin with the whole prompt.
"""

import functools
from collections.abc import Sequence
from typing import Any

MOST_TOKENS = 4
"""Of one character, which has at most four bytes."""
_BEFORE = 8
_BROKEN = "\ufffd"


def begin_at_whole_characters(tokenizer: Any) -> None:
    """Has vLLM tell the tokenizer of a prompt up to its last whole character. tokenizer: the engine's own."""
    from tokenizers import decoders  # noqa: PLC0415 - of the model's environment

    stream = decoders.DecodeStream

    @functools.lru_cache(maxsize=65_536)
    def ends_broken(token: int) -> bool:
        return str(tokenizer.decode([token])).endswith(_BROKEN)

    def whole(tokens: Sequence[int]) -> list[int]:
        for end in range(len(tokens), max(0, len(tokens) - MOST_TOKENS), -1):
            if not str(tokenizer.decode(list(tokens[max(0, end - _BEFORE) : end]))).endswith(_BROKEN):
                return list(tokens[:end])
        return list(tokens)

    @functools.wraps(stream, updated=())
    def begun(ids: Sequence[int] | None = None, **more: Any) -> Any:
        return stream(ids=whole(ids) if ids and ends_broken(ids[-1]) else ids, **more)

    decoders.DecodeStream = begun
