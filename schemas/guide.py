"""The grammar of a guided answer, as a dataset gives it."""

from typing import Any, Literal

from pydantic import Field, model_validator

from schemas.base import Config


class Guide(Config):
    """The grammar of a guided answer. Exactly one of the ways to give it that its kind takes.

    json_schema: `schema` (inline, or the path of a JSON file) or `schema_field` (a column, one per row);
    json_object: nothing; regex: `pattern` or `pattern_field`; choice: nothing (the dataset's `choices`), or `options`.
    """

    kind: Literal["json_schema", "json_object", "regex", "choice"]
    """What an answer must be."""
    schema_: dict[str, Any] | str | None = Field(default=None, alias="schema")
    """The JSON Schema of every row: written out, or the path of a JSON file."""
    schema_field: str | None = None
    """The column that holds each row's own JSON Schema."""
    pattern: str | None = None
    """The regular expression of every row."""
    pattern_field: str | None = None
    """The column that holds each row's own regular expression."""
    options: list[str] | None = None
    """The texts of which the answer must be one; without it, the dataset's `choices`."""

    @model_validator(mode="after")
    def _ways(self) -> "Guide":
        given = {
            name
            for name, value in (
                ("schema", self.schema_),
                ("schema_field", self.schema_field),
                ("pattern", self.pattern),
                ("pattern_field", self.pattern_field),
                ("options", self.options),
            )
            if value is not None
        }
        takes: dict[str, tuple[set[str], bool]] = {
            "json_schema": ({"schema", "schema_field"}, True),
            "json_object": (set(), False),
            "regex": ({"pattern", "pattern_field"}, True),
            "choice": ({"options"}, False),
        }
        allowed, needed = takes[self.kind]
        if given - allowed:
            raise ValueError(f"a {self.kind} guide takes no {', '.join(sorted(given - allowed))}")
        if needed and len(given) != 1:
            raise ValueError(f"a {self.kind} guide needs exactly one of {', '.join(sorted(allowed))}")
        return self
