"""A dataset's document: what is measured by its log-likelihood, in place of a prompt that is answered."""

from typing import Annotated

from pydantic import Field, model_validator

from schemas.base import Config


class Document(Config):
    """A text that is measured, not answered: how likely each of its tokens is after those before it.

    It is read in windows that predict each token once: the first window after BOS (EOS where the model has none), each
    further one after the last tokens of the one before."""

    text: str
    """The document, without a chat template: Jinja over the row's fields."""
    counted: str | None = None
    """The text whose words and bytes are counted, where that is another than the one that is read: Jinja over the row's
    fields."""
    window: Annotated[int, Field(ge=1)] | None = None
    """The most tokens that are read at once, which is also the most that are predicted. Without it, as many as the
    engine takes: `max_model_len` less two."""
    context: Annotated[int, Field(ge=1)] = 1
    """The fewest tokens that a window but the first reads before those that it predicts; at most `window`."""

    @model_validator(mode="after")
    def _fits(self) -> "Document":
        if self.window is not None and self.context > self.window:
            raise ValueError(f"a `context` of {self.context} tokens does not fit into a `window` of {self.window}")
        return self
