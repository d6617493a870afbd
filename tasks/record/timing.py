"""What the quality phase says of speed: the metrics `timing.*`, by the definitions of docs/metrics.md.

They are no measurement of a service: both arms share the engine, and the queue is as long as the dataset. `perf.*` is
kept for measured cells.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from schemas.metric import Aggregate
from schemas.sample import ANSWERED

LATENCIES = ("ttft_ms", "tpot_ms", "e2e_ms", "queued_ms", "prefill_ms", "decode_ms")
PERCENTILES = (50, 90, 95, 99)


def timing_metrics(requests: Sequence[Mapping[str, Any]], *, resumed: bool = False) -> list[Aggregate]:
    """Percentiles per arm and latency (linear interpolation, answered requests only), and the run's throughput.

    requests: rows of `requests`, each request's last attempt. resumed: the run was interrupted, so that the time from
    its first request to its last says nothing: its throughput is NULL."""
    answers = [row for row in requests if row["kind"] == "generate"]
    metrics: list[Aggregate] = []
    for arm in sorted({row["arm"] for row in answers}):
        rows = [row for row in answers if row["arm"] == arm]
        answered = [row for row in rows if row["status"] in ANSWERED]
        for latency in LATENCIES:
            values = [row[latency] for row in answered if row[latency] is not None]
            metrics += _percentiles(latency, arm, values, n_failed=len(rows) - len(answered))
    return metrics + _throughput(requests, resumed=resumed)


def _percentiles(latency: str, arm: str, values: list[float], *, n_failed: int) -> Iterable[Aggregate]:
    for percentile in PERCENTILES:
        yield Aggregate(
            scope="run",
            name=f"timing.{latency}.p{percentile}",
            arm=arm,
            value=float(np.percentile(values, percentile)) if values else None,
            unit="ms",
            direction="lower",
            n=len(values),
            n_failed=n_failed,
            method="percentile, linear interpolation",
        )


def _throughput(requests: Sequence[Mapping[str, Any]], *, resumed: bool) -> list[Aggregate]:
    """Tokens over the time from the first request sent to the last answer that came."""
    answered = [
        row
        for row in requests
        if row["status"] in ANSWERED and row["sent_at"] is not None and row["e2e_ms"] is not None
    ]
    if not answered:
        return []
    begin = min(row["sent_at"].timestamp() for row in answered)
    end = max(row["sent_at"].timestamp() + row["e2e_ms"] / 1000 for row in answered)
    if end <= begin:
        return []
    n_failed = len(requests) - len(answered)
    counts = {
        "output_tokens_per_s": sum(row["output_tokens"] for row in answered if row["output_tokens"] is not None),
        "prompt_tokens_per_s": sum(row["prompt_tokens"] for row in answered),
        "requests_per_s": len(answered),
    }
    return [
        Aggregate(
            scope="run",
            name=f"timing.{name}",
            arm=None,
            value=None if resumed else count / (end - begin),
            unit=name.replace("output_", "").replace("prompt_", "").replace("_per_", "/"),
            direction="higher",
            n=len(answered),
            n_failed=n_failed,
            method="the run was interrupted" if resumed else "all of the quality phase",
        )
        for name, count in counts.items()
    ]


def telemetry_metrics(telemetry: Sequence[Mapping[str, Any]]) -> list[Aggregate]:
    """The engine's highest memory and mean processor use; energy and mean power of each GPU, by counter and integral.

    telemetry: rows of `telemetry` in any order. A number that could not be measured is not there."""
    metrics: list[Aggregate] = []
    cpu = [row for row in telemetry if row["device"] == "cpu"]
    rss = [row["process_rss_bytes"] for row in cpu if row["process_rss_bytes"] is not None]
    if rss:
        metrics.append(_engine("timing.engine_rss_peak", max(rss), "bytes", len(rss), "highest reading"))
    cores = [row["process_cpu"] for row in cpu if row["process_cpu"] is not None]
    if cores:
        metrics.append(_engine("timing.engine_cpu", float(np.mean(cores)), "cores", len(cores), "mean of readings"))
    gpus = sorted({row["device"] for row in telemetry} - {"cpu"})
    # A resumed run has a pause between its sessions, in which the GPU worked for others or for nobody.
    sessions = sorted({(row["device"], row["revision"]) for row in telemetry if row["device"] in gpus})
    readings = {
        session: sorted((r for r in telemetry if (r["device"], r["revision"]) == session), key=lambda r: r["ts"])
        for session in sessions
    }
    counted = [_counter_j(rows) for rows in readings.values()]
    if counted and all(value is not None for value in counted):
        total = sum(value for value in counted if value is not None)
        metrics.append(_engine("timing.energy_counter", total, "J", len(counted), "energy counter, all GPUs"))
    integrals = [_integral_j(rows) for rows in readings.values()]
    if integrals and all(value is not None for value in integrals):
        total = sum(value for value in integrals if value is not None)
        metrics.append(_engine("timing.energy_integral", total, "J", len(integrals), "power over time, all GPUs"))
    return metrics


def _counter_j(rows: Sequence[Mapping[str, Any]]) -> float | None:
    values = [row["energy_j"] for row in rows if row["energy_j"] is not None]
    return values[-1] - values[0] if len(values) > 1 else None


def _integral_j(rows: Sequence[Mapping[str, Any]]) -> float | None:
    points = [(row["ts"].timestamp(), row["power_w"]) for row in rows if row["power_w"] is not None]
    if len(points) < 2:
        return None
    times, powers = zip(*points, strict=True)
    return float(np.trapezoid(powers, times))


def _engine(name: str, value: float, unit: str, n: int, method: str) -> Aggregate:
    return Aggregate(
        scope="engine", name=name, arm=None, value=value, unit=unit, direction="lower", n=n, n_failed=0, method=method
    )
