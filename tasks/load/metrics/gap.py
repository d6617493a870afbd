"""gap_ms: the time between one arrival of tokens and the next, over all answers together.

Formula: every gap between consecutive arrivals, pooled, so that long answers weigh as much as they are long. Unit:
milliseconds, lower is better; its p99 shows stalls that tpot averages away. How many tokens each brought is
in `gap_tokens`. Source: `itl` of vLLM's benchmark and `inter_chunk_latency` of aiperf.
"""

from tasks.load.measured import Measured
from tasks.load.metric import Latency


def gap_ms(request: Measured) -> list[float]:
    """Of one request, in the order in which they came."""
    return list(request.gaps_ms) if request.answered else []


METRIC = Latency(name="gap_ms", of=gap_ms)
