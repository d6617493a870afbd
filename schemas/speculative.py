"""Speculative decoding: tokens guessed cheaply, then checked by the model in one step."""

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from schemas.base import Config

SpeculativeMethod = Literal["none", "ngram", "suffix", "draft", "eagle", "eagle3", "medusa", "mtp"]
NEEDS_MODEL = ("draft", "eagle", "eagle3", "medusa")
"""The methods whose guesses another model makes."""
OWN_TOKENS = ("suffix", "mtp")
"""The methods that bring their own number of tokens."""
LOOKUP = (2, 4)
TOKENS = 4


class Speculative(Config):
    """Whether several tokens a step are guessed. What the model then takes is what it would have written itself; in
    bfloat16 a greedy answer can still differ, as it can with any other change of the batch."""

    method: SpeculativeMethod = "none"
    """`ngram`: copies what followed the same words before, in the prompt or the answer. `suffix`: the same over all
    answers so far (needs the package arctic-inference). `draft`: a smaller model guesses. `eagle`, `eagle3`, `medusa`:
    heads trained for this model. `mtp`: heads that the model itself has."""
    tokens: Annotated[int, Field(ge=1, le=64)] | None = None
    """Tokens guessed at once; without it 4, and with `suffix` and `mtp` the method's own number."""
    lookup: Annotated[list[Annotated[int, Field(ge=1)]], Field(min_length=2, max_length=2)] | None = None
    """`ngram`: how many tokens in a row must have stood before, as `[least, most]`; without it `[2, 4]`."""
    model: str | dict[str, Any] | None = None
    """`draft`, `eagle`, `eagle3`, `medusa`: the model that guesses, as an experiment's `model` names one."""

    @model_validator(mode="after")
    def _fits_the_method(self) -> "Speculative":
        if self.method in NEEDS_MODEL and self.model is None:
            raise ValueError(f"the method `{self.method}` needs a `model` that guesses")
        if self.method not in NEEDS_MODEL and self.model is not None:
            raise ValueError(f"the method `{self.method}` takes no `model`")
        if self.lookup is not None and self.method != "ngram":
            raise ValueError("`lookup` goes with `method: ngram`")
        if self.lookup is not None and self.lookup[0] > self.lookup[1]:
            raise ValueError(f"`lookup` is [least, most], and {self.lookup[0]} is more than {self.lookup[1]}")
        if self.method == "none" and self.tokens is not None:
            raise ValueError("`tokens` needs a `method`")
        return self
