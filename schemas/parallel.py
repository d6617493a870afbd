"""How one engine spreads over several devices."""

from typing import Annotated, Literal

from pydantic import Field

from schemas.base import Config


class Parallel(Config):
    """How many devices work on one model, and how."""

    tensor: Annotated[int, Field(ge=1)] = 1
    """Devices that share each layer: a larger model fits, and each token comes sooner."""
    pipeline: Annotated[int, Field(ge=1)] = 1
    """Devices that have a part of the layers each: a larger model fits."""
    data: Annotated[int, Field(ge=1)] = 1
    """Copies of the whole engine, on devices (on a CPU: cores) of their own, that share the requests."""
    executor: Literal["auto", "uni", "mp", "ray"] = "auto"
    """What starts vLLM's workers: `uni` (in the core's own process, for one device), `mp` (processes of this machine),
    `ray` (a Ray cluster; needs the package ray). `auto`: vLLM's choice."""
