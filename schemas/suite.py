"""A suite: ready datasets of a published benchmark, with what a reader must know to compare their numbers."""

from typing import Annotated, Any

from pydantic import Field, model_validator

from schemas.base import Config
from schemas.experiment import Group

Text = Annotated[str, Field(min_length=1)]


class Suite(Config):
    """configs/suites/<name>.yaml

    Either `datasets`, each by its name, or one `template` that stands for `each`: `[[word]]` in any text of it, and in
    `name`, is filled in. Relative paths in it start from the folder that an experiment gives: `{use: …, folder: …}`.
    """

    description: Text
    """What it asks of a model, in a sentence or two."""
    source: Text
    """Where the data come from: the hub's name or an address, and who published it."""
    license: Text
    """The data's licence."""
    convention: Text
    """How a row becomes a prompt, which examples stand before it, what is scored and how."""
    comparable_with: Text
    """Which other harness's task gives the same number, and what differs."""
    folder: str | None = None
    """What has to lie in the folder that an experiment gives, where it has to give one."""
    datasets: dict[str, dict[str, Any]] | None = None
    """The datasets by name, each as in configs/datasets."""
    name: str | None = None
    """With `template`: the name of each dataset, as `mmlu_[[subject]]`."""
    template: dict[str, Any] | None = None
    """One dataset as in configs/datasets, with places to fill."""
    each: list[dict[str, str | int]] | None = None
    """With `template`: what is filled in, once for each dataset."""
    groups: dict[str, Group] = Field(default_factory=dict)
    """Means over its datasets, which an experiment gets with the suite. `*` stands for datasets of the suite alone."""

    @model_validator(mode="after")
    def _one_of_two(self) -> "Suite":
        if (self.datasets is None) == (self.template is None):
            raise ValueError("give either `datasets` or `template`")
        with_template = [self.name is not None, self.each is not None]
        if any(with_template) and self.template is None:
            raise ValueError("`name` and `each` go with `template`")
        if self.template is not None and not all(with_template):
            raise ValueError("`template` needs `name` and `each`")
        if not (self.each if self.datasets is None else self.datasets):
            raise ValueError("a suite needs at least one dataset")
        return self
