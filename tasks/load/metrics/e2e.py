"""e2e_ms: how long a request took, to its last token.

Formula: last token - sent; under an open load last token - planned, as for ttft. Unit: milliseconds, lower is better.
Source: `e2el` of vLLM's benchmark, which also counts an empty last chunk and always from sending.
"""

from tasks.load.measured import Measured
from tasks.load.metric import Latency


def e2e_ms(request: Measured) -> list[float]:
    """Of one request."""
    return request.since_asked_ms(request.last_token_at)


METRIC = Latency(name="e2e_ms", of=e2e_ms)
