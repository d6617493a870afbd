"""ttft_ms: how long a request waited for its first token.

Formula: first token - sent; under an open load first token - planned. Unit: milliseconds, lower is better. Source:
`ttft` of vLLM's benchmark and of guidellm, which both count from sending also where a time was planned.
"""

from tasks.load.measured import Measured
from tasks.load.metric import Latency


def ttft_ms(request: Measured) -> list[float]:
    """Of one request."""
    return request.since_asked_ms(request.first_token_at)


METRIC = Latency(name="ttft_ms", of=ttft_ms)
