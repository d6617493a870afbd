"""How a cell's load goes: when each request is due, how many may be in flight, and which of them are measured."""

import itertools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random

from schemas.benchmark import ClosedLoad, LatencyLoad, Load, OfflineLoad, OpenLoad, RampLoad, StagedLoad, TraceLoad
from tasks.load.arrivals import Stretch, due, gaps


@dataclass(frozen=True, kw_only=True)
class Course:
    """times: seconds from the load's beginning at which the requests are due, one after the other; None: as soon as
    there is a place. at_once: the places. ask_for_s: seconds after which nothing more is sent. is_measured: of the
    request with this number, from 0, that was due or sent so many seconds after the beginning."""

    times: Iterator[float | None]
    at_once: int | None
    ask_for_s: float | None = None
    is_measured: Callable[[int, float], bool] = lambda number, at_s: True


def course(  # noqa: PLR0911 - one for each kind of load
    load: Load, *, cooldown: int, random: Random, trace_s: Sequence[float] = ()
) -> Course:
    """The course of a load that has one number and a size. cooldown: requests that follow the measured ones. trace_s:
    of a trace, when each of its requests came, in seconds after the first. Raises ValueError for `saturate`, which is
    made of others."""
    match load:
        case ClosedLoad():
            return _held(load.concurrency[0], requests=load.requests, seconds=load.seconds, cooldown=cooldown)
        case LatencyLoad():
            return _held(1, requests=load.requests, seconds=None, cooldown=cooldown)
        case OfflineLoad():
            return _held(load.requests, requests=load.requests, seconds=None, cooldown=0)
        case OpenLoad():
            rate = load.rate[0]
            if load.requests is not None:
                times = itertools.islice(_arrivals(load, [Stretch(start=rate, end=rate)], random),
                                         load.requests + cooldown)  # fmt: skip
                return Course(times=times, at_once=load.at_once, is_measured=_first(load.requests))
            return _timed(load, [Stretch(start=rate, end=rate, seconds=_known(load.seconds))], cooldown, random)
        case RampLoad():
            return _timed(load, [Stretch(start=load.start, end=load.end, seconds=load.seconds)], cooldown, random)
        case StagedLoad():
            stages = [Stretch(start=each.rate, end=each.rate, seconds=each.seconds) for each in load.stages]
            return _timed(load, stages, cooldown, random)
        case TraceLoad():
            return Course(times=iter([at / load.speed for at in trace_s]), at_once=load.at_once)
        case _:
            raise ValueError(f"a load of the kind {load.kind} is made of others")


def warming(load: Load, *, warmup: int, random: Random) -> Course:
    """The course of the requests before: as many in flight, or at the rate that the load begins with. A trace's are
    sent at once."""
    match load:
        case ClosedLoad():
            return _held(load.concurrency[0], requests=warmup, seconds=None, cooldown=0)
        case LatencyLoad():
            return _held(1, requests=warmup, seconds=None, cooldown=0)
        case OpenLoad() | RampLoad() | StagedLoad():
            rate = _first_rate(load)
            times = itertools.islice(_arrivals(load, [Stretch(start=rate, end=rate)], random), warmup)
            return Course(times=times, at_once=load.at_once)
        case _:
            return _held(warmup, requests=warmup, seconds=None, cooldown=0)


def expected_requests(load: Load) -> int | None:
    """About how many requests are measured; None where that hangs on the engine."""
    match load:
        case ClosedLoad() | LatencyLoad() | OfflineLoad() | TraceLoad():
            return load.requests
        case OpenLoad():
            return load.requests or math.ceil(load.rate[0] * _known(load.seconds))
        case RampLoad():
            return math.ceil((load.start + load.end) / 2 * load.seconds)
        case StagedLoad():
            return math.ceil(sum(stage.rate * stage.seconds for stage in load.stages))
        case _:
            return None


def _held(places: int, *, requests: int | None, seconds: float | None, cooldown: int) -> Course:
    if requests is not None:
        times = itertools.repeat(None, requests + cooldown)
        return Course(times=times, at_once=places, is_measured=_first(requests))
    limit = _known(seconds)
    return Course(
        times=_while(limit, places=places, cooldown=cooldown),
        at_once=places,
        ask_for_s=None if cooldown else limit,
        is_measured=lambda number, at_s: at_s < limit,
    )


def _while(seconds: float, *, places: int, cooldown: int) -> Iterator[None]:
    """None for so long, and then a few times more. It counts from when those have been taken that fill the places: they
    are made before the load begins."""
    yield from itertools.repeat(None, places)
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        yield None
    yield from itertools.repeat(None, cooldown)


def _timed(load: OpenLoad | RampLoad | StagedLoad, stretches: list[Stretch], cooldown: int, random: Random) -> Course:
    length = sum(stretch.seconds for stretch in stretches)
    if cooldown:
        rate = stretches[-1].end or stretches[-1].start
        stretches = [*stretches, Stretch(start=rate, end=rate)]
    times = _arrivals(load, stretches, random)
    return Course(
        times=_and_a_few_more(times, length, cooldown),
        at_once=load.at_once,
        is_measured=lambda number, at_s: at_s < length,
    )


def _and_a_few_more(times: Iterator[float], length: float, cooldown: int) -> Iterator[float]:
    for at in times:
        if at >= length:
            if not cooldown:
                return
            cooldown -= 1
        yield at


def _arrivals(load: OpenLoad | RampLoad | StagedLoad, stretches: Sequence[Stretch], random: Random) -> Iterator[float]:
    return due(stretches, gaps(load.arrivals, random=random, burstiness=load.burstiness))


def _first_rate(load: OpenLoad | RampLoad | StagedLoad) -> float:
    match load:
        case OpenLoad():
            return load.rate[0]
        case RampLoad():
            return load.start or load.end
        case StagedLoad():
            return next((stage.rate for stage in load.stages if stage.rate), 1.0)


def _first(requests: int) -> Callable[[int, float], bool]:
    return lambda number, at_s: number < requests


def _known(seconds: float | None) -> float:
    if seconds is None:
        raise ValueError("the load has no size")
    return seconds
