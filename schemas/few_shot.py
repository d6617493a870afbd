"""The examples before a question."""

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from schemas.base import Config
from schemas.source import DatasetSource


class FewShot(Config):
    """Examples put before the question, rendered with the dataset's own prompt and target."""

    n: Annotated[int, Field(ge=0, le=100)] = 0
    """Examples before the question. With `pick: fixed` it may be left out: all of the list."""
    source: DatasetSource | None = None
    """Where the examples come from; without it, the dataset itself (a sample is never its own example)."""
    pick: Literal["first", "random", "fixed"] = "first"
    """`random` draws by hash(seed, sample id), so that a sample's examples never depend on the others; `fixed` takes
    `ids` or `examples`."""
    seed: int = 0
    """What `pick: random` draws by."""
    ids: list[str | int] | None = None
    """With `pick: fixed`: the rows by their id (see `id_field`), in the order in which they stand in the prompt."""
    examples: list[dict[str, Any]] | None = None
    """With `pick: fixed`: the rows themselves, each with the fields that the prompt and the target use."""
    answer: str | None = None
    """What an example answers: Jinja over its row. Without it, the dataset's `target`, which for an option's index or a
    program's tests is not what a model should write."""

    @model_validator(mode="before")
    @classmethod
    def _all_of_the_list(cls, value: Any) -> Any:
        if isinstance(value, dict) and value.get("pick") == "fixed" and "n" not in value:
            given = value.get("ids") if value.get("ids") is not None else value.get("examples")
            if isinstance(given, list):
                return {**value, "n": len(given)}
        return value

    @model_validator(mode="after")
    def _fixed_has_a_list(self) -> "FewShot":
        given = [name for name in ("ids", "examples") if getattr(self, name) is not None]
        if self.pick != "fixed":
            if given:
                raise ValueError(f"`{given[0]}` goes with `pick: fixed`")
            return self
        if len(given) != 1:
            raise ValueError("`pick: fixed` needs either `ids` or `examples`")
        listed = self.ids if self.ids is not None else self.examples or []
        if not listed:
            raise ValueError(f"`{given[0]}` is an empty list: leave `few_shot` out")
        if self.n > len(listed):
            raise ValueError(f"`n` asks for {self.n} examples, `{given[0]}` has {len(listed)}")
        if self.ids is not None and len({str(each) for each in self.ids}) != len(self.ids):
            raise ValueError("`ids` names a row twice")
        if self.examples is not None and self.source is not None:
            raise ValueError("`examples` are the rows themselves: leave `source` out")
        return self
