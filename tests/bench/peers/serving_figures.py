"""What each tool says of one load, under assay's names, out of the files that it leaves."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

INTERPOLATED = ", interpolated"
FIGURES = (
    "ttft_ms.mean",
    "ttft_ms.p50",
    "ttft_ms.p99",
    f"ttft_ms.p99{INTERPOLATED}",
    "tpot_ms.mean",
    "tpot_ms.p50",
    "tpot_ms.p99",
    f"tpot_ms.p99{INTERPOLATED}",
    "gap_ms.p50",
    "gap_ms.p99",
    "e2e_ms.mean",
    "output_tokens_per_s",
    "requests_per_s",
)
_GUIDELLM = {"ttft_ms": "time_to_first_token_ms", "tpot_ms": "inter_token_latency_ms"}
_VLLM_BENCH = {"ttft_ms": "ttft", "tpot_ms": "tpot", "gap_ms": "itl", "e2e_ms": "e2el"}


@dataclass(frozen=True, kw_only=True)
class Said:
    """What one tool said of one load. values: by figure; what a tool does not tell is not there. prompt_tokens and
    output_tokens: of all answered requests. late_ms: how long after they were due requests were sent, where it tells.
    began_at: when the first one was sent, by the wall clock, for a tool that asks the server other things before."""

    answered: int
    prompt_tokens: int
    output_tokens: int
    values: Mapping[str, float]
    late_ms: float | None = None
    began_at: float | None = None


def vllm_bench(result: Mapping[str, Any]) -> Said:
    """Of `vllm bench serve --save-result`, with the percentile 99 of ttft, tpot, itl and e2el."""
    values = {
        f"{ours}.{statistic}": float(result[f"{prefix}_{theirs}_ms"])
        for ours, theirs in _VLLM_BENCH.items()
        for statistic, prefix in (("mean", "mean"), ("p50", "median"), ("p99", "p99"))
    }
    values |= {f"{name}.p99{INTERPOLATED}": values[f"{name}.p99"] for name in _GUIDELLM}
    values["output_tokens_per_s"] = float(result["output_throughput"])
    values["requests_per_s"] = float(result["request_throughput"])
    return Said(
        answered=result["completed"],
        prompt_tokens=result["total_input_tokens"],
        output_tokens=result["total_output_tokens"],
        values=_known(values),
    )


def guidellm(report: Mapping[str, Any]) -> Said:
    """Of guidellm's JSON output. Its percentiles are observations; `interpolated` is taken here, of the same ones."""
    [benchmark] = report["benchmarks"]
    metrics = {name: benchmark["metrics"][name]["successful"] for name in (*_GUIDELLM.values(), "request_latency")}
    requests = benchmark["requests"]["successful"]
    values = {}
    for ours, theirs in _GUIDELLM.items():
        summary = metrics[theirs]
        values[f"{ours}.mean"] = summary["mean"]
        values[f"{ours}.p50"] = summary["median"]
        values[f"{ours}.p99"] = summary["percentiles"]["p99"]
        each = [request[theirs] for request in requests if request[theirs] is not None]
        values[f"{ours}.p99{INTERPOLATED}"] = float(np.percentile(each, 99))
    values["e2e_ms.mean"] = metrics["request_latency"]["mean"] * 1000
    for ours, theirs in (
        ("output_tokens_per_s", "output_tokens_per_second"),
        ("requests_per_s", "requests_per_second"),
    ):
        values[ours] = benchmark["metrics"][theirs]["successful"]["mean"]
    delays = [request["request_dispatch_delay"] for request in requests]
    return Said(
        answered=benchmark["metrics"]["request_totals"]["successful"],
        prompt_tokens=sum(request["prompt_tokens"] for request in requests),
        output_tokens=sum(request["output_tokens"] for request in requests),
        values=_known(values),
        late_ms=max((delay * 1000 for delay in delays if delay is not None), default=None),
    )


def assay(requests: list[dict[str, Any]], metrics: Mapping[str, float]) -> Said:
    """Of assay's rows. requests: the measured ones, answered; metrics: `perf.*` of the cell by name, whose percentiles
    and totals these are. It has no means, which are taken of the requests."""
    values: dict[str, float] = {}
    for name in ("ttft_ms", "tpot_ms", "gap_ms"):
        values |= {f"{name}.{part}": metrics[f"perf.{name}.{part}"] for part in ("p50", "p99")}
    for name in ("ttft_ms", "tpot_ms", "e2e_ms"):
        values[f"{name}.mean"] = float(np.mean([row[name] for row in requests]))
    values |= {f"{name}.p99{INTERPOLATED}": values[f"{name}.p99"] for name in _GUIDELLM}
    values |= {name: metrics[f"perf.{name}"] for name in ("output_tokens_per_s", "requests_per_s")}
    return Said(
        answered=len(requests),
        prompt_tokens=sum(row["prompt_tokens"] for row in requests),
        output_tokens=sum(row["output_tokens"] for row in requests),
        values=_known(values),
        late_ms=metrics["perf.late_ms.p99"],
        began_at=min(row["sent"] for row in requests),
    )


def _known(values: Mapping[str, float]) -> dict[str, float]:
    return {name: values[name] for name in FIGURES if name in values}
