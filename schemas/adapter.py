"""A LoRA adapter: small weights over a model's own, chosen per arm or dataset."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from schemas.base import Config

ADAPTER_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
BASE = "none"
"""What the `adapter` of a dataset or an arm says where the model itself is to answer."""


class Adapter(Config):
    """One adapter that the engine loads beside the model."""

    name: Annotated[str, Field(pattern=ADAPTER_NAME)]
    """What the `adapter` of an arm or a dataset calls it."""
    path: str
    """Its folder, from the YAML file's own folder: adapter_config.json and adapter_model.safetensors, as PEFT saves
    them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterFacts:
    """What an adapter's folder says of itself. fingerprint: sha256 over its weights and config. rank: the largest of
    its layers. modules: the layers of the model that it changes, by their last name."""

    name: str
    path: str
    rank: int
    fingerprint: str
    modules: list[str]
