"""A benchmark's block as the points that are measured: one load with one number, in one arm.

A point has the same name in every run of the same block, so that runs are compared by it. Each repeat of it is a cell.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from schemas.arm import Arm, arm_kind, arm_name, needs_guide
from schemas.benchmark import (
    Benchmark,
    ClosedLoad,
    LatencyLoad,
    Load,
    OfflineLoad,
    OpenLoad,
    RampLoad,
    SaturateLoad,
    StagedLoad,
    TraceLoad,
)

LEAST_REQUESTS = 32
REQUESTS_A_PLACE = 4
OPEN_SECONDS = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """load: as it is written, with this point's number alone, and its size written out. name: of the load.
    concurrency: requests in flight of a load that holds them; rate: requests a second of one that has a single one;
    burstiness: the shape of an open load's gaps."""

    arm: str
    name: str
    load: Load
    concurrency: int | None = None
    rate: float | None = None
    burstiness: float | None = None

    is_probe: bool = False

    @property
    def kind(self) -> str:
        """What the table `cells` calls it."""
        return "probe" if self.is_probe else self.load.kind

    @property
    def point_id(self) -> str:
        """The same in every run of the same block."""
        return f"{self.arm}-{self.name}"

    def cell_id(self, *, engine_id: str, repeat: int) -> str:
        """The name of one repeat on one engine."""
        return f"{engine_id}-{self.point_id}-r{repeat}"


def measured_arms(benchmark: Benchmark, arms: Sequence[Arm]) -> list[str]:
    """The arms that a benchmark measures, by name: those that ask each sample once. Drawn prompts have no grammar, so
    that an arm which needs one has nothing to ask there."""
    drawn = benchmark.prompts is not None
    return [
        arm_name(arm)
        for arm in arms
        if arm_kind(arm) in ("free", "guided") and not (needs_guide(arm) and (drawn or "trace" in benchmark.kinds))
    ]


def points(benchmark: Benchmark, *, arms: Sequence[str]) -> list[Point]:
    """Every point that is known beforehand, load by load, the arms of each side by side. What `saturate` measures hangs
    on what it finds (see `below_knee`)."""
    return [
        point
        for load in benchmark.load
        if not isinstance(load, SaturateLoad)
        for one in _each_number(load)
        for arm in arms
        for point in [_point(one, arm)]
    ]


def searches(benchmark: Benchmark) -> list[SaturateLoad]:
    """The loads that look for a knee."""
    return [load for load in benchmark.load if isinstance(load, SaturateLoad)]


def probe(load: SaturateLoad, *, arm: str, rate: float) -> Point:
    """One probe of a search. Its rate is no round number, and is rounded in the name alone."""
    return Point(
        arm=arm,
        name=f"probe-{rate:.4g}",
        load=_open_of(load, rate),
        rate=rate,
        burstiness=_burstiness(load),
        is_probe=True,
    )


def below_knee(load: SaturateLoad, *, arm: str, knee: float) -> list[Point]:
    """The rates that are measured once the knee is known, named by their share of it, as it differs between runs."""
    return [
        Point(
            arm=arm,
            name=f"knee-{share:g}",
            load=_open_of(load, share * knee),
            rate=share * knee,
            burstiness=_burstiness(load),
        )
        for share in load.sweep
    ]


def in_turns(each: Sequence[Point], *, repeats: int) -> Iterator[tuple[int, Point]]:
    """Repeat and point, all points in turns, every other turn backwards (A B B A): what drifts while they are measured
    falls on all of them alike."""
    for repeat in range(repeats):
        for point in each if repeat % 2 == 0 else reversed(each):
            yield repeat, point


def twice(benchmark: Benchmark, *, arms: Sequence[str]) -> list[str]:
    """Names of points that stand in the block more than once: one could not be told from the other."""
    ids = [point.point_id for point in points(benchmark, arms=arms)]
    ids += [f"{arm}-saturate" for _ in searches(benchmark) for arm in arms]
    return sorted({name for name in ids if ids.count(name) > 1})


def _each_number(load: Load) -> list[Load]:
    match load:
        case ClosedLoad():
            return [_sized(load.model_copy(update={"concurrency": [number]})) for number in load.concurrency]
        case OpenLoad():
            return [_sized(load.model_copy(update={"rate": [number]})) for number in load.rate]
        case _:
            return [load]


def _sized(load: Load) -> Load:
    """With its size written out, where the block leaves that open."""
    if not isinstance(load, ClosedLoad | OpenLoad) or load.requests is not None or load.seconds is not None:
        return load
    if isinstance(load, ClosedLoad):
        return load.model_copy(update={"requests": max(LEAST_REQUESTS, REQUESTS_A_PLACE * load.concurrency[0])})
    return load.model_copy(update={"seconds": OPEN_SECONDS})


def _point(load: Load, arm: str) -> Point:  # noqa: PLR0911 - one for each kind of load
    match load:
        case ClosedLoad():
            number = load.concurrency[0]
            return Point(arm=arm, name=f"closed-{number}", load=load, concurrency=number)
        case OpenLoad():
            name = f"open-{load.rate[0]:g}{_way(load)}"
            return Point(arm=arm, name=name, load=load, rate=load.rate[0], burstiness=_burstiness(load))
        case RampLoad():
            name = f"ramp-{load.start:g}-{load.end:g}{_way(load)}"
            return Point(arm=arm, name=name, load=load, burstiness=_burstiness(load))
        case StagedLoad():
            name = f"staged-{'-'.join(f'{stage.rate:g}' for stage in load.stages)}{_way(load)}"
            return Point(arm=arm, name=name, load=load, burstiness=_burstiness(load))
        case TraceLoad():
            stem = re.sub(r"[^A-Za-z0-9_.]+", "_", PurePath(load.path).stem)[:40]
            speed = "" if load.speed == 1 else f"-x{load.speed:g}"
            return Point(arm=arm, name=f"trace-{stem}{speed}", load=load)
        case LatencyLoad():
            return Point(arm=arm, name="latency", load=load, concurrency=1)
        case OfflineLoad():
            return Point(arm=arm, name="offline", load=load)
        case _:
            raise ValueError(f"a load of the kind {load.kind} is no point")


def _way(load: OpenLoad | RampLoad | StagedLoad) -> str:
    """What of its arrivals is out of the ordinary."""
    match load.arrivals:
        case "gamma":
            return f"-gamma{load.burstiness:g}"
        case "constant":
            return "-constant"
        case _:
            return ""


def _burstiness(load: OpenLoad | RampLoad | StagedLoad | SaturateLoad) -> float | None:
    """None for equal gaps, whose shape is no number."""
    return {"poisson": 1.0, "gamma": load.burstiness, "constant": None}[load.arrivals]


def _open_of(load: SaturateLoad, rate: float) -> OpenLoad:
    return OpenLoad(
        kind="open",
        rate=[rate],
        seconds=load.seconds,
        arrivals=load.arrivals,
        burstiness=load.burstiness,
        at_once=load.at_once,
    )
