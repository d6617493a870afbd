"""client_queue_ms: how long a request that was due waited for a place at the client.

Formula: max(0, place free - planned), where only so many requests may be asked at once. Unit: milliseconds, lower is
better. It is part of ttft and e2e, and told apart to say whose wait it was. Source: `client_queue_time` of vLLM's
benchmark, which counts from the task's creation and leaves it out of ttft.
"""

from tasks.load.measured import Measured
from tasks.load.metric import Latency


def client_queue_ms(request: Measured) -> list[float]:
    """Of one request, failed ones too: they waited as well."""
    if request.planned_at is None or request.free_at is None:
        return []
    return [max(0.0, request.free_at - request.planned_at) * 1000]


METRIC = Latency(name="client_queue_ms", of=client_queue_ms)
