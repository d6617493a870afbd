"""A sample in the making, and what it becomes."""

from dataclasses import dataclass, field

from schemas.dataset import NamedDataset
from schemas.sample import Choice, Grammar, Sample, Window
from tasks.dataset.compose import Composed, Composer
from tasks.dataset.guide import grammar_of
from tasks.dataset.rows import Row, sha256_hex


@dataclass(slots=True, kw_only=True)
class Draft:
    """A row with its prompt, its tokens, and what was cut to make it fit."""

    row: Row
    shots: list[Row]
    options: list[str]
    composed: Composed
    token_ids: list[int] = field(default_factory=list)
    choices: list[Choice] = field(default_factory=list)
    windows: list[Window] = field(default_factory=list)
    cut_tokens: int = 0
    shots_dropped: int = 0


def sample_of(
    draft: Draft, *, dataset: NamedDataset, composer: Composer, shared: Grammar | None, window: int | None
) -> Sample:
    """The finished sample. shared: the grammar of the whole dataset; window: tokens that a window of a document reads,
    None for a dataset of prompts. An invalid grammar of the row's own is kept as the sample's error."""
    row, config = draft.row, dataset.config
    grammar, error = grammar_of(guide=config.guide, shared=shared, fields=row.fields, choices=draft.options)
    cluster = None if config.cluster is None else row.fields.get(config.cluster)
    return Sample(
        dataset=dataset.name,
        sample_id=row.sample_id,
        row_index=row.row_index,
        raw=row.raw,
        input=row.fields,
        prompt=draft.composed.prompt,
        prompt_hash=sha256_hex(draft.composed.prompt)[:16],
        prompt_token_ids=draft.token_ids,
        messages=draft.composed.messages,
        target=composer.target(row),
        choices=draft.choices,
        grammar=grammar,
        grammar_error=error,
        replaced_characters=draft.composed.replaced_characters,
        cut_tokens=draft.cut_tokens,
        shots_dropped=draft.shots_dropped,
        cluster=None if cluster is None else str(cluster),
        # What follows a window is generated in any case, and is not looked at.
        max_tokens=dataset.sampling.max_tokens if window is None else 1,
        windows=draft.windows,
        window=window,
        counted=composer.counted(row),
    )
