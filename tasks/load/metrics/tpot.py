"""tpot_ms: the time of each token after the first, on average over an answer.

Formula: (last token - first token) / (n - 1) per request; none where n < 2. Unit: milliseconds a token, lower is
better. Source: `tpot` of vLLM's benchmark; guidellm and aiperf call it inter-token latency (guidellm's own
`time_per_output_token` has the first token's wait in it).
"""

from tasks.load.measured import Measured
from tasks.load.metric import Latency


def tpot_ms(request: Measured) -> list[float]:
    """Of one request."""
    first, last, n = request.first_token_at, request.last_token_at, request.output_tokens
    if not request.answered or first is None or last is None or n is None or n < 2:
        return []
    return [(last - first) * 1000 / (n - 1)]


METRIC = Latency(name="tpot_ms", of=tpot_ms)
