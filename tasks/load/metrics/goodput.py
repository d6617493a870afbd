"""goodput_requests_per_s: how many requests a second were answered within every latency of the SLO.

Formula: requests that meet the SLO / (last token of an answer - first request asked). Unit: requests a second, higher
is better. A request that failed misses it; one of a single token has no tpot, and meets it (as vLLM's benchmark has it;
aiperf counts it as missed, guidellm leaves it out). Source: DistServe (Zhong et al., OSDI 2024).
"""

from collections.abc import Sequence

from schemas.cell_figures import Slo
from tasks.load.measured import Measured, seconds_of
from tasks.load.metric import Total
from tasks.load.slo import meets


def goodput(requests: Sequence[Measured], slo: Slo) -> float | None:
    """Of one load."""
    seconds = seconds_of(requests)
    return None if seconds is None else sum(meets(request, slo) for request in requests) / seconds


METRIC = Total(name="goodput_requests_per_s", unit="requests/s", of=goodput, needs_slo=True)
