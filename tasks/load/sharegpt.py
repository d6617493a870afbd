"""Recorded conversations in ShareGPT's format: a JSON list of `{"conversations": [{"from", "value"}, …]}`.

Of each the first question is the prompt, as it stands and without a chat template, with the special tokens that a plain
text gets; the answer is as long as the recorded one. `vllm bench serve` takes these files nearly so: it takes the first
turn for the question, whoever wrote it.
"""

import itertools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schemas.errors import ConfigError
from schemas.prompts import ShareGptPrompts
from tasks.config.json_faults import json_faults
from tasks.dataset.tokenizer import Tokenizer
from tasks.dataset.unicode import valid_unicode

_QUESTIONS = ("human", "user")
_ANSWERS = ("gpt", "chatgpt", "assistant", "bing", "bard")


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """output_tokens: of the recorded answer, or what the block says in its place."""

    prompt_token_ids: list[int]
    output_tokens: int


def read_sharegpt(path: Path, *, prompts: ShareGptPrompts, tokenizer: Tokenizer) -> list[Conversation]:
    """The conversations within the block's bounds, in the file's order.

    Raises what `read_pairs` raises, and ConfigError for a file of which nothing is left."""
    entries, pairs = read_pairs(path)
    questions = tokenizer.encode_batch([question for question, _ in pairs], add_special_tokens=True)
    answers = tokenizer.inner.encode_batch_fast([valid_unicode(each)[0] for _, each in pairs], add_special_tokens=False)
    found = [
        Conversation(prompt_token_ids=prompt, output_tokens=prompts.output_tokens or len(answer.ids))
        for prompt, answer in zip(questions, answers, strict=True)
        if _fits(len(prompt), len(answer.ids), prompts)
    ]
    if not found:
        raise ConfigError.one(
            f"{len(pairs):,} of its {entries:,} conversations have a question and an answer, and none of these is "
            "within the bounds",
            file=path,
            suggestion="other bounds in benchmark.prompts: most_prompt_tokens, most_total_tokens, least_tokens",
        )
    return found


def read_pairs(path: Path) -> tuple[int, list[tuple[str, str]]]:
    """How many conversations there are, and question and answer of each that has both. Raises ConfigError for a file
    that is none, with the place of the first one that is wrong."""
    if not path.is_file():
        raise ConfigError.one("there is no such file", file=path, key="benchmark.prompts.path")
    with json_faults(file=path):
        listed = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(listed, list):
        raise ConfigError.one("must be a JSON list of conversations", file=path)
    pairs = [pair for number, each in enumerate(listed) if (pair := _pair(each, number=number, path=path)) is not None]
    return len(listed), pairs


def _pair(each: Any, *, number: int, path: Path) -> tuple[str, str] | None:
    """The first question that is answered, and its answer; None where there is none."""
    turns = each.get("conversations") if isinstance(each, dict) else None
    if not isinstance(turns, list):
        raise ConfigError.one(f"entry {number} has no list `conversations`", file=path)
    said = [_said(turn, number=number, place=place, path=path) for place, turn in enumerate(turns)]
    for (asker, question), (answerer, answer) in itertools.pairwise(said):
        if asker in _QUESTIONS and answerer in _ANSWERS and question and answer:
            return question, answer
    return None


def _said(turn: Any, *, number: int, place: int, path: Path) -> tuple[str, str]:
    """By whom, and what."""
    if isinstance(turn, dict) and isinstance(turn.get("from"), str) and isinstance(turn.get("value"), str):
        return turn["from"].lower(), turn["value"]
    raise ConfigError.one(f"entry {number}, turn {place}: a turn has the texts `from` and `value`", file=path)


def _fits(prompt: int, answer: int, prompts: ShareGptPrompts) -> bool:
    output = prompts.output_tokens or answer
    return (
        prompt >= prompts.least_tokens
        and (prompts.output_tokens is not None or answer >= prompts.least_tokens)
        and prompt <= prompts.most_prompt_tokens
        and prompt + output <= prompts.most_total_tokens
    )
