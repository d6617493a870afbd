"""More tokens for a tokenizer than it has, for a model shape with a larger vocabulary."""

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any


def padded_tokenizer(file: Path, *, vocabulary: int) -> str:
    """The text of a tokenizer.json in which every id of the vocabulary has a token.

    What makes masks for grammars, and texts of tokens, takes as long as with a tokenizer of that size; ids without a
    token would cost far more (xgrammar looks for each token among them, one by one). The tokens added are two of the
    old ones in one; no text is ever split into them, as nothing merges to them. Other kinds of tokenizer than BPE stay
    as they are."""
    text = file.read_text(encoding="utf-8")
    content: dict[str, Any] = json.loads(text)
    model = content.get("model", {})
    if model.get("type") != "BPE":
        return text
    known: dict[str, int] = model["vocab"]
    taken = set(known.values()) | {each["id"] for each in content.get("added_tokens", [])}
    free = [number for number in range(vocabulary) if number not in taken]
    if not free:
        return text
    known |= dict(zip(islice(_new_words(known), len(free)), free, strict=False))
    return json.dumps(content, ensure_ascii=False)


def _new_words(known: dict[str, int]) -> Iterator[str]:
    words = [token for token in known if token.isalpha()]  # a leading blank is the letter Ġ there
    ends = [word for word in words if word.isascii()]
    seen = set(known)
    for distance in range(1, len(ends)):
        for at, word in enumerate(words):
            joined = word + ends[(at + distance) % len(ends)]
            if joined not in seen:
                seen.add(joined)
                yield joined
