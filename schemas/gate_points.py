"""What a gate on speed names: a number of a measured load, and the point that it was measured at."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field, model_validator

from schemas.arm import Arm
from schemas.base import Config
from schemas.benchmark import Benchmark
from schemas.points import measured_arms, points, searches

PERF = "perf."
_PERCENTILES = (50, 90, 95, 99)
_LATENCIES = ("ttft_ms", "ttft_text_ms", "tpot_ms", "gap_ms", "e2e_ms", "client_queue_ms", "late_ms", "clock_error_ms")
KNEE = f"{PERF}knee_requests_per_s"
HIGHER = tuple(
    f"{PERF}{name}"
    for name in ("output_tokens_per_s", "steady_output_tokens_per_s", "requests_per_s", "goodput_requests_per_s",
                 "goodput_share", "gpu_utilization", "knee_requests_per_s")
)  # fmt: skip
"""The numbers of which more is better."""
OF_SLO = tuple(f"{PERF}{name}" for name in ("goodput_requests_per_s", "goodput_share"))
"""Those that are there only with an SLO."""
NAMES = (
    *(f"{PERF}{name}.p{percentile}" for name in _LATENCIES for percentile in _PERCENTILES),
    *HIGHER,
    *(f"{PERF}{name}" for name in ("failed_share", "cost_per_million_output_tokens", "cost_per_1000_requests",
                                   "cost_per_correct", "energy_counter_j", "energy_integral_j", "power_w",
                                   "power_max_w", "joules_per_output_token", "joules_per_correct", "joules_per_request",
                                   "gpu_memory_peak_bytes", "engine_cpu_cores", "engine_rss_peak_bytes")),
)  # fmt: skip
"""Every number of a point that a gate can name."""
_PARTS = tuple(f"{PERF}{part}." for part in ("dataset", "adapter", "bucket", "client", "engine"))
"""What names begin with that are of a part of a point, or of its engine: which ones there are, only the run knows."""


class GateCell(Config):
    """Which point of the benchmark: every key that is given must fit, and exactly one point."""

    kind: str | None = None
    """The kind of its load: `closed`, `open`, `offline`, …"""
    concurrency: Annotated[int, Field(ge=1)] | None = None
    """Requests in flight, of a closed load."""
    rate: Annotated[float, Field(gt=0)] | None = None
    """Requests a second, of an open load."""
    name: str | None = None
    """The point's own name: `closed-8`, `ramp-0-20`, `knee-0.75`, `saturate`."""

    @model_validator(mode="after")
    def _says_something(self) -> "GateCell":
        if not self.asked:
            raise ValueError("names no point: give `kind`, `concurrency`, `rate` or `name`")
        return self

    @property
    def asked(self) -> dict[str, int | float | str]:
        """The keys that were given."""
        return {key: value for key, value in self if value is not None}

    def __str__(self) -> str:
        return ", ".join(f"{key}: {value:g}" if isinstance(value, float) else f"{key}: {value}"
                         for key, value in self.asked.items())  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class GatePoint:
    """One point of one arm. name: of its load alone. rate: None too for one that only the run finds."""

    arm: str
    name: str
    kind: str
    concurrency: int | None = None
    rate: float | None = None

    @property
    def point_id(self) -> str:
        """As `metrics.cell_id` and `cells.point_id` have it."""
        return f"{self.arm}-{self.name}"

    def fits(self, cell: GateCell | None) -> bool:
        """Whether each key that is given has its value."""
        asked = {} if cell is None else cell.asked
        return all(_equal(getattr(self, key), value) for key, value in asked.items())


def gate_points(benchmark: Benchmark | None, *, arms: Sequence[Arm]) -> list[GatePoint]:
    """Every point that a benchmark will have: its loads' numbers, the search for a knee, and the rates below it."""
    if benchmark is None:
        return []
    names = measured_arms(benchmark, arms)
    found = [
        GatePoint(arm=point.arm, name=point.name, kind=point.kind, concurrency=point.concurrency, rate=point.rate)
        for point in points(benchmark, arms=names)
    ]
    for load in searches(benchmark):
        for arm in names:
            found.append(GatePoint(arm=arm, name="saturate", kind="saturate"))
            found += [GatePoint(arm=arm, name=f"knee-{share:g}", kind="open") for share in load.sweep]
    return found


def chosen(metric: str, arm: str, cell: GateCell | None, *, among: Iterable[GatePoint]) -> list[GatePoint]:
    """The points of the arm that are meant. The knee is found at `saturate`, and nothing else is."""
    return [
        point
        for point in among
        if point.arm == arm and point.fits(cell) and (point.kind == "saturate") == (metric == KNEE)
    ]


def is_known(metric: str) -> bool:
    """Whether a point can have a number of this name."""
    return metric in NAMES or metric.startswith(_PARTS)


def _equal(own: object, asked: object) -> bool:
    if isinstance(own, float) and isinstance(asked, int | float):
        return math.isclose(own, asked, rel_tol=1e-9)
    return own == asked
