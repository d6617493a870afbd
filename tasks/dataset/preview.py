"""A dataset's rows as they look before there is a model: templates rendered, no chat template, no tokens."""

from dataclasses import dataclass
from typing import Any

from schemas.dataset import NamedDataset
from schemas.sample import Grammar
from tasks.dataset.chat import ChatTemplate
from tasks.dataset.compose import Composed, Composer
from tasks.dataset.guide import dataset_grammar, grammar_of
from tasks.dataset.load import load_rows
from tasks.dataset.rows import Row
from tasks.dataset.shots import choose_shots
from tasks.dataset.template import check_templates


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """One row, what would be said of it, and what is expected."""

    row: Row
    composed: Composed
    target: Any
    options: list[str]
    grammar: Grammar | None
    grammar_error: str | None


def preview_rows(dataset: NamedDataset) -> list[Preview]:
    """Every row that the dataset uses; a chat's messages stand under their roles. Raises ConfigError for data and
    templates that cannot be used."""
    loaded = load_rows(dataset)
    check_templates(dataset, loaded.columns)
    if loaded.shot_pool:
        check_templates(dataset, loaded.shot_columns, examples=True)
    shared = dataset_grammar(dataset)
    composer = Composer(dataset=dataset, chat=ChatTemplate.plain())
    previews = []
    for row in loaded.rows:
        options = composer.choices(row)
        grammar, error = grammar_of(guide=dataset.config.guide, shared=shared, fields=row.fields, choices=options)
        previews.append(
            Preview(
                row=row,
                composed=composer.compose(row, shots=choose_shots(dataset=dataset, pool=loaded.shot_pool, row=row)),
                target=composer.target(row),
                options=options,
                grammar=grammar,
                grammar_error=error,
            )
        )
    return previews
