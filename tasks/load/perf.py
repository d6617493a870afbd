"""The metrics `perf.*` of one cell, from its measured requests."""

from collections.abc import Iterator, Sequence

import numpy as np

from schemas.cell_figures import Slo
from schemas.metric import Aggregate
from tasks.load.measured import Measured
from tasks.load.metric import Latency, Total
from tasks.load.metrics import (
    client_queue,
    clock_error,
    e2e,
    failed_share,
    gap,
    goodput,
    goodput_share,
    late,
    output_tokens_per_s,
    requests_per_s,
    steady_output_tokens_per_s,
    tpot,
    ttft,
    ttft_text,
)

PERCENTILES = (50, 90, 95, 99)
LATENCIES: tuple[Latency, ...] = (
    ttft.METRIC,
    ttft_text.METRIC,
    tpot.METRIC,
    gap.METRIC,
    e2e.METRIC,
    client_queue.METRIC,
    late.METRIC,
    clock_error.METRIC,
)
TOTALS: tuple[Total, ...] = (
    output_tokens_per_s.METRIC,
    requests_per_s.METRIC,
    failed_share.METRIC,
    goodput.METRIC,
    goodput_share.METRIC,
    steady_output_tokens_per_s.METRIC,
)


def perf_metrics(requests: Sequence[Measured], *, cell_id: str, arm: str | None, slo: Slo) -> list[Aggregate]:
    """Percentiles of each latency (linear interpolation, over answered requests, those that failed counted beside), and
    the totals. A latency that no request has, and a goodput without an SLO, are not there.

    requests: those of the measured phase, every one that was due or sent."""
    failed = sum(not request.answered for request in requests)
    return [
        *latencies(requests, cell_id=cell_id, arm=arm),
        *(
            Aggregate(
                scope="run",
                name=f"perf.{metric.name}",
                arm=arm,
                value=value,
                unit=metric.unit,
                direction=metric.direction,
                n=len(requests) - failed,
                n_failed=failed,
                method="all of the measured phase",
                cell_id=cell_id,
                details=metric.details(requests),
            )
            for metric in TOTALS
            if slo.asked or not metric.needs_slo
            for value in [metric.of(requests, slo)]
            if value is not None or not metric.optional
        ),
    ]


def latencies(requests: Sequence[Measured], *, cell_id: str, arm: str | None, of: str = "perf") -> Iterator[Aggregate]:
    """The percentiles alone. of: what their names begin with, where it is a part of a cell (`perf.bucket.0-127`)."""
    failed = sum(not request.answered for request in requests)
    for metric in LATENCIES:
        yield from _percentiles(metric, requests, failed, cell_id=cell_id, arm=arm, of=of)


def _percentiles(
    metric: Latency, requests: Sequence[Measured], failed: int, *, cell_id: str, arm: str | None, of: str
) -> Iterator[Aggregate]:
    values = [value for request in requests for value in metric.of(request)]
    if not values:
        return
    for percentile in PERCENTILES:
        yield Aggregate(
            scope="run",
            name=f"{of}.{metric.name}.p{percentile}",
            arm=arm,
            value=float(np.percentile(values, percentile)),
            unit=metric.unit,
            direction=metric.direction,
            n=len(values),
            n_failed=failed,
            method="percentile, linear interpolation",
            cell_id=cell_id,
        )
