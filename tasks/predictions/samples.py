"""A dataset's rows as samples without a model: what they ask, and what a right answer is. No tokenizer is needed.

A chat is written down as its messages, one after the other: which template another program put round them is not
known, so the sample has neither tokens nor a hash of its prompt.
"""

from collections.abc import Sequence
from pathlib import Path

from schemas.dataset import NamedDataset
from schemas.sample import Choice, Sample
from tasks.dataset.chat import ChatTemplate
from tasks.dataset.compose import Composed, Composer
from tasks.dataset.guide import dataset_grammar, grammar_of
from tasks.dataset.load import LoadedDataset, Row
from tasks.dataset.sandbox import BoundedEnvironment
from tasks.dataset.shots import choose_shots
from tasks.dataset.template import check_templates
from tasks.dataset.unicode import may_hold_surrogates, valid_values

_CONTENTS = "{{ messages | map(attribute='content') | join('\\n\\n') }}"


def plain_composer(dataset: NamedDataset) -> Composer:
    """Renders the dataset's templates; a chat becomes the contents of its messages. Raises ConfigError as Composer."""
    chat = ChatTemplate(
        text=_CONTENTS,
        tool_text=None,
        special_tokens={},
        file=Path(__file__),
        compiled=BoundedEnvironment().guarded(_CONTENTS),
        tool_compiled=None,
    )
    return Composer(dataset=dataset, chat=chat)


def asked_samples(dataset: NamedDataset, loaded: LoadedDataset) -> list[Sample]:
    """A sample for each loaded row, with its examples. Raises ConfigError for templates that do not fit the columns or
    a row, and for an invalid grammar."""
    check_templates(dataset, loaded.columns)
    composer = plain_composer(dataset)
    composed = [
        composer.compose(row, shots=choose_shots(dataset=dataset, pool=loaded.shot_pool, row=row))
        for row in loaded.rows
    ]
    return judged_samples(dataset, loaded.rows, composed=composed)


def judged_samples(
    dataset: NamedDataset, rows: Sequence[Row], *, composed: Sequence[Composed | None] | None = None
) -> list[Sample]:
    """Samples with all that a metric looks at: target, choices, grammar. composed: what each row asks, where it is of
    interest. Raises ConfigError for what a template or the dataset's grammar does not stand."""
    composer = plain_composer(dataset)
    shared = dataset_grammar(dataset)
    config = dataset.config
    asked: Sequence[Composed | None] = [None] * len(rows) if composed is None else composed
    samples = []
    for row, said in zip(rows, asked, strict=True):
        choices = composer.choices(row)
        grammar, error = grammar_of(guide=config.guide, shared=shared, fields=row.fields, choices=choices)
        cluster = None if config.cluster is None else row.fields.get(config.cluster)
        values = {
            "input": row.fields,
            "target": composer.target(row),
            "cluster": None if cluster is None else str(cluster),
            "grammar_error": error,
        }
        if may_hold_surrogates(row.raw):
            values = {name: valid_values(value) for name, value in values.items()}
        sample = Sample(
            dataset=dataset.name,
            sample_id=row.sample_id,
            row_index=row.row_index,
            raw=row.raw,
            prompt="" if said is None else said.prompt,
            prompt_hash="",
            prompt_token_ids=[],
            messages=None if said is None else said.messages,
            choices=[Choice(text=text, token_ids=[], start=0) for text in choices],
            grammar=grammar,
            replaced_characters=0 if said is None else said.replaced_characters,
            counted=composer.counted(row),
            **values,
        )
        samples.append(sample)
    return samples
