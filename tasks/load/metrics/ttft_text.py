"""ttft_text_ms: how long a request waited for its first text that is not empty.

Formula: first text - sent; under an open load first text - planned. Unit: milliseconds, lower is better. An engine
holds text back while it may be the beginning of a stop string or an unfinished character. Source: what vLLM's benchmark
calls ttft where the first chunk has text.
"""

from tasks.load.measured import Measured
from tasks.load.metric import Latency


def ttft_text_ms(request: Measured) -> list[float]:
    """Of one request."""
    return request.since_asked_ms(request.first_text_at)


METRIC = Latency(name="ttft_text_ms", of=ttft_text_ms)
