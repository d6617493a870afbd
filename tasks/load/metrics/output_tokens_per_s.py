"""output_tokens_per_s: how many tokens of answers the load made in a second.

Formula: output tokens of answered requests / (last token of an answer - first request asked). Unit: tokens a second,
higher is better. Tokens are the engine's own count, not chunks. Source: `output_throughput` of vLLM's benchmark, whose
time also has the client's own end in it.
"""

from collections.abc import Sequence

from schemas.cell_figures import Slo
from tasks.load.measured import Measured, seconds_of
from tasks.load.metric import Total


def output_tokens_per_s(requests: Sequence[Measured], _: Slo) -> float | None:
    """Of one load. None where a number of tokens is not known."""
    seconds = seconds_of(requests)
    tokens = [request.output_tokens for request in requests if request.answered]
    known = [count for count in tokens if count is not None]
    return None if seconds is None or len(known) < len(tokens) else sum(known) / seconds


METRIC = Total(name="output_tokens_per_s", unit="tokens/s", of=output_tokens_per_s)
