"""What happens to a prompt that does not fit: cutting its middle, or the error that names all of them."""

from collections.abc import Sequence
from pathlib import Path

from schemas.dataset import NamedDataset
from schemas.errors import ConfigError
from schemas.sample import Choice

_LISTED = 20


def cut_middle(token_ids: list[int], *, keep: int) -> tuple[list[int], int]:
    """The first and the last tokens, `keep` together (the head has one more if odd), and how many were cut."""
    if keep < 1:
        raise ValueError(f"{keep} tokens are no prompt")
    cut = len(token_ids) - keep
    if cut <= 0:
        return token_ids, 0
    tail = keep // 2
    return token_ids[: keep - tail] + token_ids[len(token_ids) - tail :], cut


def cut_choices(choices: Sequence[Choice], *, max_len: int) -> tuple[list[Choice], int]:
    """The choices with the middle of their context cut alike, so that the longest, and one token more, fits max_len.

    Raises ValueError when a continuation alone leaves no room for a context."""
    over = max((len(choice.token_ids) + 1 - max_len for choice in choices), default=0)
    if over <= 0:
        return list(choices), 0
    cut: list[Choice] = []
    for choice in choices:
        keep = choice.start - over
        if keep < 1:
            raise ValueError(f"the choice {choice.text[:40]!r} is as long as all there is ({max_len:,} tokens)")
        context, _ = cut_middle(choice.token_ids[: choice.start], keep=keep)
        cut.append(
            Choice(
                text=choice.text,
                token_ids=context + choice.token_ids[choice.start :],
                start=keep,
                encoded_apart=choice.encoded_apart,
            )
        )
    return cut, over


def too_long(needed: Sequence[tuple[str, int]], *, dataset: NamedDataset, max_len: int, budget: int) -> ConfigError:
    """The error that lists samples with the tokens they need: the first 20, and how many more there are."""
    listed = "\n".join(f"  {sample_id}: {tokens:,} tokens" for sample_id, tokens in needed[:_LISTED])
    more = f"\n  and {len(needed) - _LISTED:,} more" if len(needed) > _LISTED else ""
    shots = " even without examples" if dataset.config.on_overflow == "drop_shots" else ""
    return ConfigError.one(
        f"{len(needed):,} {'prompt' if len(needed) == 1 else 'prompts'} of {dataset.name} too long{shots}: with "
        f"{budget:,} tokens for the answer, more than the {max_len:,} that are there\n{listed}{more}\n",
        file=Path(dataset.path) if dataset.path else None,
        key="on_overflow",
        suggestion="write drop_shots, cut_middle or skip, lower max_tokens, or take a model with a longer context",
    )
