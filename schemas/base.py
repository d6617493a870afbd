"""What every config model shares."""

from pydantic import BaseModel, ConfigDict


class Config(BaseModel):
    """A part of a user's YAML: frozen, and an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, use_attribute_docstrings=True)
