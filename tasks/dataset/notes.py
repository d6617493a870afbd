"""What a reader should know of the prompts of a dataset: what was cut, dropped, replaced, left out."""

from collections.abc import Callable, Sequence

from tasks.dataset.draft import Draft

_COUNTED: tuple[tuple[Callable[[Draft], int], str], ...] = (
    (lambda draft: draft.cut_tokens, "tokens cut from the middle of {} prompts"),
    (lambda draft: draft.shots_dropped, "examples dropped from {} prompts"),
    (lambda draft: draft.composed.replaced_characters, "characters of {} prompts replaced by U+FFFD"),
    (lambda draft: sum(choice.encoded_apart for choice in draft.choices), "choices of {} samples encoded apart"),
    (lambda draft: not draft.composed.prompt, "of {} prompts empty: BOS or EOS stands for them"),
)


class Notes:
    """Counts what a reader should know of the samples: of each kind how many, and in how many samples."""

    def __init__(self) -> None:
        self._totals = [0] * len(_COUNTED)
        self._samples = [0] * len(_COUNTED)

    def add(self, drafts: Sequence[Draft]) -> None:
        """Counts some more samples."""
        for place, (count, _) in enumerate(_COUNTED):
            values = [count(draft) for draft in drafts]
            self._totals[place] += sum(values)
            self._samples[place] += sum(value > 0 for value in values)

    def warnings(self, name: str, *, skipped: int) -> list[str]:
        """A sentence for each kind that there is. name: the dataset's; skipped: rows that were left out."""
        found = [
            f"{name}: {total:,} {text.format(f'{samples:,}')}"
            for total, samples, (_, text) in zip(self._totals, self._samples, _COUNTED, strict=True)
            if total
        ]
        return [*found, f"{name}: {skipped:,} rows skipped: too long"] if skipped else found
