"""clock_error_ms: by how much a time can be wrong that a client on another machine stamped.

Formula: half of the quickest round trip to that machine's clock, plus 0.0002 of the time since it (tasks/load/clocks).
Unit: milliseconds, lower is better. ttft and e2e under an open load, and late_ms, can be wrong by it; a closed load's
ttft and e2e, tpot and gaps have both ends on one clock. Source: Cristian, Probabilistic Clock Synchronization (1989).
"""

from tasks.load.measured import Measured
from tasks.load.metric import Latency


def clock_error_ms(request: Measured) -> list[float]:
    """Of one request that another machine sent."""
    return [] if request.clock_error_ms is None else [request.clock_error_ms]


METRIC = Latency(name="clock_error_ms", of=clock_error_ms)
