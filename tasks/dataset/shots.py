"""Few-shot examples: which rows a sample gets, and how they stand before its question."""

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from schemas.dataset import NamedDataset
from schemas.errors import ConfigError
from tasks.dataset.pick import draw_of
from tasks.dataset.rows import Row

SHOT_END = "\n\n"
"""What stands between two examples of a text prompt, and between the last one and the question."""


def choose_shots(*, dataset: NamedDataset, pool: Sequence[Row], row: Row) -> list[Row]:
    """The examples of one row, `few_shot.n` of them, never the row itself nor a copy of it.

    `first` takes the pool's first; `random` draws by sha256 of the seed and the sample's id, so that neither the other
    samples nor the process have a say; `fixed` takes the list's first, one fewer for a row that is itself the list's
    last chance. Raises ConfigError when the pool of the other two has too few."""
    few = dataset.config.few_shot
    if few.n == 0:
        return []
    chosen: list[Row] = []
    order = _drawn(len(pool), seed=few.seed, sample_id=row.sample_id) if few.pick == "random" else range(len(pool))
    for index in order:
        candidate = pool[index]
        if candidate.sample_id != row.sample_id and candidate.fields != row.fields:
            chosen.append(candidate)
            if len(chosen) == few.n:
                return chosen
    if few.pick == "fixed":
        return chosen
    raise ConfigError.one(
        f"{dataset.name} asks for {few.n} examples; other than row {row.row_index} there are only {len(chosen)} rows",
        file=Path(dataset.path) if dataset.path else None,
        key="few_shot.n",
        suggestion=f"write at most {len(chosen)}, or give few_shot.source",
    )


def _drawn(size: int, *, seed: int, sample_id: str) -> "_Draw":
    return _Draw(size, random.Random(draw_of(sample_id, seed=seed)))  # noqa: S311  a draw, no secret


class _Draw:
    """The numbers below `size` in random order, one at a time: a few are drawn from what may be a million."""

    def __init__(self, size: int, generator: random.Random) -> None:
        self._left = size
        self._generator = generator
        self._moved: dict[int, int] = {}

    def __iter__(self) -> "_Draw":
        return self

    def __next__(self) -> int:
        if self._left == 0:
            raise StopIteration
        at = self._generator.randrange(self._left)
        self._left -= 1
        drawn = self._moved.get(at, at)
        self._moved[at] = self._moved.pop(self._left, self._left)
        return drawn


def messages_with_shots(
    question: list[dict[str, str]], *, examples: Sequence[tuple[list[dict[str, str]], str]]
) -> list[dict[str, str]]:
    """The system message once, then each example's turns with its answer as the assistant's, then the question."""
    system = [message for message in question if message["role"] == "system"]
    turns: list[dict[str, str]] = []
    for example, answer in examples:
        turns.extend(message for message in example if message["role"] != "system")
        turns.append({"role": "assistant", "content": answer})
    return [*system, *turns, *(message for message in question if message["role"] != "system")]


def text_with_shots(question: str, *, examples: Sequence[tuple[str, str]]) -> str:
    """Each example's prompt with its answer, then the question."""
    return "".join(f"{text}{delimiter(text)}{answer}{SHOT_END}" for text, answer in examples) + question


def delimiter(prompt: str) -> str:
    """What stands between a text prompt and its answer: a space, unless the prompt brings white space of its own."""
    return "" if not prompt or prompt[-1].isspace() else " "


def answer_text(value: Any) -> str:
    """A target as the text of an example's answer: text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
