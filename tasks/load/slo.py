"""Whether a request was answered as its SLO wants it."""

from schemas.cell_figures import Slo
from tasks.load.measured import Measured
from tasks.load.metrics.e2e import e2e_ms
from tasks.load.metrics.tpot import tpot_ms
from tasks.load.metrics.ttft import ttft_ms

_LATENCIES = {"ttft_ms": ttft_ms, "tpot_ms": tpot_ms, "e2e_ms": e2e_ms}


def meets(request: Measured, slo: Slo) -> bool:
    """Every latency that the SLO names is at most what it says. A request that failed meets none; an answer that has no
    such latency (the tpot of one token) keeps it."""
    return request.answered and all(
        value <= most for name, most in slo.asked.items() for value in _LATENCIES[name](request)
    )
