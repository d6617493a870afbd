"""The grammar backends by vLLM's names for them. Imports nothing large, so that every process may ask."""

from dataclasses import dataclass

from tasks.engine.grammar_form import FORMS


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A backend. name: vLLM's. distribution: the package that has its version. module: its room here, which the child
    imports. forbids_whitespace: whether vLLM can forbid white space with it.
    splits_characters: whether a character may come in several tokens, as with a tokenizer of single bytes."""

    name: str
    distribution: str
    module: str
    forbids_whitespace: bool
    splits_characters: bool = True


BACKENDS = {
    known.name: known
    for known in (
        Known(name="xgrammar", distribution="xgrammar", module="xgrammar", forbids_whitespace=True),
        Known(name="guidance", distribution="llguidance", module="llguidance", forbids_whitespace=True),
        Known(name="outlines", distribution="outlines_core", module="outlines", forbids_whitespace=False),
        Known(
            name="lm-format-enforcer",
            distribution="lm-format-enforcer",
            module="lmfe",
            forbids_whitespace=False,
            splits_characters=False,
        ),
    )
}
"""The four that vLLM knows, in the order in which tables show them."""

KINDS = FORMS
"""What a grammar may be, in the forms that vLLM takes."""
