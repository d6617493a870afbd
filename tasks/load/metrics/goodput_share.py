"""goodput_share: which share of the requests was answered within every latency of the SLO.

Formula: requests that meet the SLO / all that were due or sent. Unit: share, higher is better. One that failed, or was
due and never sent, misses it. Source: `good_request_fraction` of aiperf, over all requests.
"""

from collections.abc import Sequence

from schemas.cell_figures import Slo
from tasks.load.measured import Measured
from tasks.load.metric import Total
from tasks.load.slo import meets


def goodput_share(requests: Sequence[Measured], slo: Slo) -> float | None:
    """Of one load."""
    return sum(meets(request, slo) for request in requests) / len(requests) if requests else None


METRIC = Total(name="goodput_share", unit="share", of=goodput_share, needs_slo=True)
