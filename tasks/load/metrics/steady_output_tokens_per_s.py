"""steady_output_tokens_per_s: how many tokens of answers a second, while the load was at its typical height.

Formula: tokens that came in the steady part / its length, each token when it came. Steady is from when the number of
requests in flight first reaches its median, over all the requests' time, to when it last leaves it; where that is under
20 % of the load, there is none. Unit: tokens a second, higher is better. Without the edges the numbers of a short load
and of a long one are the same. Source: our own; vLLM's and others' benchmarks divide by the whole time.
"""

from collections.abc import Sequence
from typing import Any

from schemas.cell_figures import Slo
from tasks.load.measured import Measured
from tasks.load.metric import Total
from tasks.load.steady import steady


def steady_output_tokens_per_s(requests: Sequence[Measured], _: Slo) -> float | None:
    """Of one load. None where it has no steady part."""
    found = steady(requests)
    return None if found is None else found.tokens_per_s


def details(requests: Sequence[Measured]) -> dict[str, Any]:
    """Where the steady part is, in seconds after the first request was sent; empty where there is none."""
    found = steady(requests)
    if found is None:
        return {}
    return {
        "begin_s": found.begin - found.began,
        "end_s": found.end - found.began,
        "in_flight": found.in_flight,
        "share_of_tokens": found.tokens / found.all_tokens if found.all_tokens else None,
    }


METRIC = Total(
    name="steady_output_tokens_per_s", unit="tokens/s", of=steady_output_tokens_per_s, optional=True, details=details
)
