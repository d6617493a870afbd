"""Recorded conversations in ShareGPT's format: a JSON list of `{"conversations": [{"from", "value"}, …]}`.

Of each the first question is the prompt, as it stands and without a chat template, and the answer is as long as the
recorded one: as `vllm bench serve` and guidellm take these files.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schemas.errors import ConfigError
from schemas.prompts import ShareGptPrompts
from tasks.config.json_faults import json_faults
from tasks.dataset.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """output_tokens: of the recorded answer, or what the block says in its place."""

    prompt_token_ids: list[int]
    output_tokens: int


def read_sharegpt(path: Path, *, prompts: ShareGptPrompts, tokenizer: Tokenizer) -> list[Conversation]:
    """The conversations within the block's bounds, in the file's order.

    Raises ConfigError for a file that is none, with the place of the first one that is wrong, and for one of which
    nothing is left."""
    if not path.is_file():
        raise ConfigError.one("there is no such file", file=path, key="benchmark.prompts.path")
    with json_faults(file=path):
        listed = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(listed, list):
        raise ConfigError.one("must be a JSON list of conversations", file=path)
    pairs = [pair for number, each in enumerate(listed) if (pair := _pair(each, number=number, path=path)) is not None]
    encoded = tokenizer.inner.encode_batch([text for pair in pairs for text in pair], add_special_tokens=False)
    ids = [each.ids for each in encoded]
    found = [
        Conversation(prompt_token_ids=list(prompt), output_tokens=prompts.output_tokens or len(answer))
        for prompt, answer in zip(ids[::2], ids[1::2], strict=True)
        if _fits(len(prompt), len(answer), prompts)
    ]
    if not found:
        raise ConfigError.one(
            f"none of its {len(listed):,} conversations is within the bounds",
            file=path,
            suggestion="raise benchmark.prompts.most_prompt_tokens or most_total_tokens",
        )
    return found


def _pair(each: Any, *, number: int, path: Path) -> tuple[str, str] | None:
    """Question and answer; None for a conversation that does not begin with both."""
    turns = each.get("conversations") if isinstance(each, dict) else None
    if not isinstance(turns, list):
        raise ConfigError.one(f"entry {number} has no list `conversations`", file=path)
    texts = [turn.get("value") if isinstance(turn, dict) else None for turn in turns[:2]]
    if any(text is not None and not isinstance(text, str) for text in texts):
        raise ConfigError.one(f"entry {number}: a `value` is no text", file=path)
    question, answer = (*texts, None, None)[:2]
    return None if not question or not answer else (question, answer)


def _fits(prompt: int, answer: int, prompts: ShareGptPrompts) -> bool:
    output = prompts.output_tokens or answer
    return (
        min(prompt, output) >= prompts.least_tokens
        and prompt <= prompts.most_prompt_tokens
        and prompt + output <= prompts.most_total_tokens
    )
