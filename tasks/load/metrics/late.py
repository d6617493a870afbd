"""late_ms: how long after its time a request was sent, though there was a place for it: the client's own fault.

Formula: sent - max(planned, place free). Unit: milliseconds, lower is better. Where it is not small beside ttft, the
client was the bottleneck, and the numbers are its own. Source: `request_dispatch_delay` of guidellm; aiperf's
`replay_sched_lag` is shifted to the least late request.
"""

from tasks.load.measured import Measured
from tasks.load.metric import Latency


def late_ms(request: Measured) -> list[float]:
    """Of one request that was sent."""
    due = [moment for moment in (request.planned_at, request.free_at) if moment is not None]
    if request.sent_at is None or not due:
        return []
    return [(request.sent_at - max(due)) * 1000]


METRIC = Latency(name="late_ms", of=late_ms)
