"""failed_share: which share of the requests came to no answer.

Formula: requests that failed or were never sent / all. Unit: share, lower is better. Latencies are those of the others:
without this number beside them a server that fails fast looks quick. Source: `request_error_rate` of aiperf.
"""

from collections.abc import Sequence

from schemas.cell_figures import Slo
from tasks.load.measured import Measured
from tasks.load.metric import Total


def failed_share(requests: Sequence[Measured], _: Slo) -> float | None:
    """Of one load."""
    return sum(not request.answered for request in requests) / len(requests) if requests else None


METRIC = Total(name="failed_share", unit="share", of=failed_share, direction="lower")
