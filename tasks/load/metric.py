"""What a module of tasks/load/metrics offers as METRIC."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from schemas.cell_figures import Slo
from tasks.load.measured import Measured


@dataclass(frozen=True, kw_only=True)
class Latency:
    """A number, or several, of each request; told by its percentiles. of: none where the request has none."""

    name: str
    of: Callable[[Measured], list[float]]
    unit: str = "ms"
    direction: Literal["higher", "lower"] = "lower"


@dataclass(frozen=True, kw_only=True)
class Total:
    """One number of all requests of a load; None where there is none. needs_slo: without one it is not asked for.
    optional: where there is none, it is not told. details: what goes with it."""

    name: str
    unit: str
    of: Callable[[Sequence[Measured], Slo], float | None]
    direction: Literal["higher", "lower"] = "higher"
    needs_slo: bool = False
    optional: bool = False
    details: Callable[[Sequence[Measured]], dict[str, Any]] = lambda _: {}
