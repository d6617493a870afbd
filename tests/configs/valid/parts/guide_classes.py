"""A class whose schema a guide names."""

from pydantic import BaseModel


class Sum(BaseModel):
    """A sum."""

    total: int
