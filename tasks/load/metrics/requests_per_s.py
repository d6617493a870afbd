"""requests_per_s: how many requests the load answered in a second.

Formula: answered requests / (last token of an answer - first request asked). Unit: requests a second, higher is better.
Source: `request_throughput` of vLLM's benchmark.
"""

from collections.abc import Sequence

from schemas.cell_figures import Slo
from tasks.load.measured import Measured, seconds_of
from tasks.load.metric import Total


def requests_per_s(requests: Sequence[Measured], _: Slo) -> float | None:
    """Of one load."""
    seconds = seconds_of(requests)
    return None if seconds is None else sum(request.answered for request in requests) / seconds


METRIC = Total(name="requests_per_s", unit="requests/s", of=requests_per_s)
